"""The Gaussian model of an observation in the few directions in which candidates differ.

Kernels at all stages and layers have hundreds of entries, and their covariance cannot be known as well as its inverse
would need. But candidates with fitted gain and time scale lie in a subspace of a few directions. The likelihood is that
of the observation projected onto these, where the covariance is small and well known: with recorded neurons it is
their own scatter, whatever their noise. What is perpendicular does not tell candidates apart and is left to the
goodness of fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..measurement.kernels import unfold
from ..measurement.observation import Observation, layer_index
from .covariance import noise_covariance, scatter, shrink
from .predictions import Design, Prediction

SCALES = 41  # time scales at which predictions are computed
FINE_SCALES = 241  # and those between which the likelihood is summed
# Kernels are interpolated in time; a share of their size that no covariance should go below.
FLOOR = 1e-3
NOTICED = 0.2  # standard deviations: differences between candidates below this are not given a direction
MOST_DIRECTIONS = 30
NEURONS_PER_DIRECTION = 5


@dataclass(frozen=True)
class Spread:
    """Covariance of the projected observation under one candidate, and its degrees of freedom.

    `share` and `ratio` say how C was estimated: C = (1 − share)·(networks) + share·ratio·V. `known` is, per layer, the
    share of theory in the covariance of recorded neurons; the rest is their own scatter.
    """

    covariance: np.ndarray
    freedom: float
    share: float = 0.0
    ratio: float = 0.0
    known: tuple[float, ...] = ()


class Model:
    """An observation, the directions that tell candidates apart, and covariances along them."""

    def __init__(
        self, observed: Observation, design: Design, predictions: Sequence[Prediction], width: int | None,
        scales: tuple[float, float], gain: float | None,
    ):  # fmt: skip
        self.design, self.width, self.predictions, self.counts = design, width, predictions, observed.neurons
        self.value = observed.features(design.kind).reshape(-1)
        self.single = observed.single_neurons(design.kind)
        self.observed = observed
        low, high = scales
        self.coarse = np.geomspace(low, high, SCALES) if high > low else np.array([low])
        self.scales = np.geomspace(low, high, FINE_SCALES) if high > low else self.coarse
        raw = [np.stack([design.at(one.times, one.mean, scale) for scale in self.coarse]) for one in predictions]
        self.gain = _first_gain(self.value, raw, gain)
        self.means = [self.gain * one for one in raw]  # (scale, feature), in units of the observation
        self.errors = [self.gain * design.at(one.times, one.errors) for one in predictions]
        self.deviations = [
            None if one.deviations is None else self.gain * design.at(one.times, one.deviations) for one in predictions
        ]
        self.particles = [self._particles(one) for one in predictions]
        self.noise = self._noise()
        self.root = np.linalg.cholesky(self._reference())
        self.projection = self._directions()  # (k, feature)

    @property
    def directions(self) -> int:
        return len(self.projection)

    def whiten(self, values: np.ndarray) -> np.ndarray:
        """(feature, …) in units of the reference covariance."""
        return scipy.linalg.solve_triangular(self.root, values, lower=True)

    def projected(self, number: int) -> np.ndarray:
        """Candidate `number`'s means at `scales`, (scale, k)."""
        coarse = self.means[number] @ self.projection.T
        return self.between_scales(coarse)

    def between_scales(self, coarse: np.ndarray) -> np.ndarray:
        if len(self.scales) == len(self.coarse):
            return coarse
        return np.stack([np.interp(self.scales, self.coarse, column) for column in coarse.T], axis=-1)

    def spread(self, number: int) -> Spread:
        """Covariance of the projected observation if candidate `number` made it."""
        project = self.projection
        neurons = self._project_particles(number)
        of_width = 0.0 if self.width is None else 1 / self.width
        sampled, uncertain, known = self._sampling(neurons)
        total = sampled + (project @ self.errors[number].T) @ (project @ self.errors[number].T).T
        deviations = self.deviations[number]
        if deviations is not None:
            factors = deviations @ project.T
            population = np.sum(neurons, axis=0)
            share, ratio = shrink(factors, population)
            of_networks = of_width * ((1 - share) * factors.T @ factors + share * ratio * population)
            # Recorded neurons are among the N, whose own average is in C.
            total = total + of_networks - (of_width * population if self.single is not None else 0.0)
            uncertain += ((1 - share) * np.trace(of_networks)) ** 2 / (len(factors) - 1)
            total = _above(total, sampled / 2)
        else:
            share, ratio = 0.0, 0.0
        freedom = np.trace(total) ** 2 / uncertain if uncertain > 0 else np.inf
        return Spread(total, float(freedom), share, ratio, known)

    def _sampling(self, neurons: list[np.ndarray]) -> tuple[np.ndarray, float, tuple[float, ...]]:
        """Covariance from the choice of neurons and their noise, the variance of its trace, and theory's shares.

        Recorded neurons have their own scatter, which is right for any noise, but poor for few neurons. It is shrunk
        towards that of theory's neurons with noise, as far as the two agree.
        """
        total, uncertain, known = np.zeros((self.directions,) * 2), 0.0, []
        for layer in range(len(self.design.layers)):
            if self.single is None:
                total += self._share(layer) * neurons[layer]
                continue
            place = self.design.block(layer)
            project = self.projection[:, place]
            seen = project @ self.single[layer]
            count = seen.shape[1]
            factors = (seen - seen.mean(1, keepdims=True)).T / np.sqrt(count - 1)
            own, share = factors.T @ factors / count, 0.0
            if neurons:
                expected = neurons[layer] / count + project @ self.noise[place, place] @ project.T
                share, _ = shrink(factors, count * expected, 1.0)
                own = (1 - share) * own + share * expected
            total += own
            uncertain += ((1 - share) * np.trace(own)) ** 2 / (count - 1)
            known.append(share)
        return total, uncertain, tuple(known)

    def _share(self, layer: int) -> float:
        """1/M − 1/N of a layer; 0 where all neurons were seen."""
        if self.counts is None:
            return 0.0
        return 1 / self.counts[layer] - (0.0 if self.width is None else 1 / self.width)

    def _particles(self, one: Prediction) -> list[np.ndarray] | None:
        """Features of single theory neurons per observed layer, in units of the observation."""
        if one.particles is None:
            return None
        places = [layer_index(label, one.depth) for label in self.design.layers]
        return [
            self.gain * self.design.of_neurons(one.particles[:, place].astype(float), layer)
            for layer, place in enumerate(places)
        ]

    def _project_particles(self, number: int) -> list[np.ndarray]:
        """V per layer along the directions."""
        found = self.particles[number]
        if found is None:
            return []
        return [scatter(self.projection[:, self.design.block(layer)] @ one) for layer, one in enumerate(found)]

    def _reference(self) -> np.ndarray:
        """A covariance of all features, mean over candidates, by which directions are weighted."""
        size, count = self.design.size, len(self.predictions)
        total = FLOOR**2 * np.mean(self.value**2) * np.eye(size)
        for number in range(count):
            found = self.particles[number]
            for layer in range(len(self.design.layers)):
                place = self.design.block(layer)
                if found is not None:
                    total[place, place] += self._share(layer) * scatter(found[layer]) / count
                elif self.single is not None:
                    one = self.single[layer]
                    total[place, place] += np.diag(one.var(-1, ddof=1) / one.shape[1]) / count
            total += self.errors[number].T @ self.errors[number] / count
            deviations = self.deviations[number]
            if deviations is not None and self.width is not None:
                total += deviations.T @ deviations / (count * self.width)
                if found is not None:
                    for layer, one in enumerate(found):
                        place = self.design.block(layer)
                        total[place, place] += scatter(one) / (count * self.width)
        return total + self.noise

    def _noise(self) -> np.ndarray:
        seen, design = self.observed, self.design
        out = np.zeros((design.size,) * 2)
        if seen.trials is None or seen.neurons is None:
            return out
        # Of theory: observed kernels of few neurons would carry their own errors into their covariance.
        whole = dataclasses.replace(design, kind="kernel")
        middle = np.mean([whole.at(one.times, one.mean) for one in self.predictions], axis=0)
        kernels = self.gain * unfold(
            middle.reshape(len(design.layers), len(design.steps), -1), "kernel", design.stimuli
        )
        for layer in range(len(design.layers)):
            start = design.block(layer).start
            for stage in range(len(design.steps)):
                place = slice(start + stage * design.pairs, start + (stage + 1) * design.pairs)
                own = noise_covariance(kernels[layer, stage], seen.noise[layer, stage], seen.trials, design.kind)
                out[place, place] = own / seen.neurons[layer]
        return out

    def _directions(self) -> np.ndarray:
        """Along which candidates at all time scales differ by more than `NOTICED` standard deviations."""
        few = range(0, len(self.coarse), max(1, len(self.coarse) // 8))
        rows = np.concatenate([mean[list(few)] for mean in self.means])
        white = self.whiten(rows.T).T
        middle = white.mean(0)
        _, sizes, vectors = np.linalg.svd(white - middle, full_matrices=False)
        most = MOST_DIRECTIONS
        if self.counts is not None and self.single is not None:
            most = min(most, max(2, min(self.counts) // NEURONS_PER_DIRECTION))
        kept = vectors[: min(most, int(np.sum(sizes > NOTICED)))]
        # The mean itself: along it the gain is seen.
        basis, _ = np.linalg.qr(np.concatenate([middle[None], kept]).T)
        return scipy.linalg.solve_triangular(self.root.T, basis, lower=False).T


def _first_gain(value: np.ndarray, means: list[np.ndarray], gain: float | None) -> float:
    if gain is not None:
        return gain
    middle = np.mean([one[len(one) // 2] for one in means], axis=0)
    return max(float(value @ middle / (middle @ middle)), 1e-12)


def _above(matrix: np.ndarray, least: np.ndarray) -> np.ndarray:
    """`matrix` with nothing below `least`: estimated parts that are subtracted must leave a covariance."""
    if not np.any(least):
        return matrix
    values, vectors = scipy.linalg.eigh(matrix - least, least)
    back = least @ vectors
    return least + (back * np.maximum(values, 0)) @ back.T
