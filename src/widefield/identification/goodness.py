"""Does the best candidate fit at all? Two tests, in all features and in the directions in which candidates differ.

T is the squared length of the residual in units of the reference covariance, without what gain, time scale and swept
parameters could take up. Its reference is drawn: recorded neurons are resampled, mixed with theory's neurons as in the
likelihood (these alone where only kernels are known), networks and theory's own error are added. An F distribution with
the mean and variance of the draws, and with the uncertainty of their mean, gives the probability.

Another rule moves kernels in much the same directions as the candidates do, and few of these hide in all features. So
the likelihood's own χ² is tested as well (Hotelling's T²), and the smaller probability counts twice (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, fdtrc

from .model import Model, Spread

DRAWS = 400
# Alternatives have p-values distributed as ξ p^(ξ−1): half of them are below 2^(−1/ξ) = 10⁻⁶.
SHARPNESS = 0.05


@dataclass(frozen=True)
class Goodness:
    """T in all features and its mean under the best candidate; χ² along `directions` that are free after the fit.

    `chance` is the probability that either is as large.
    """

    statistic: float
    expected: float
    chi_squared: float
    directions: int
    chance: float


def goodness(
    model: Model, number: int, spread: Spread, predicted: np.ndarray, tangents: np.ndarray, seed: int
) -> Goodness:
    """`predicted` (feature,) is the best fit, `tangents` (m, feature) what could be fitted."""
    rng = np.random.default_rng(seed)
    draws = _draws(model, number, spread, rng)
    white = model.whiten(np.concatenate([(model.value - predicted)[None], draws, tangents]).T)
    if len(tangents):
        basis, _ = np.linalg.qr(white[:, -len(tangents) :])
        white = white[:, : -len(tangents)]
        white = white - basis @ (basis.T @ white)
    lengths = np.sum(white**2, axis=0)
    found, reference = float(lengths[0]), lengths[1:]
    mean, variance = float(reference.mean()), float(reference.var(ddof=1))
    above = 2 * mean**2 / variance
    below = 2 / max(_relative_variance(model, spread.known), 1e-6)
    of_all = float(fdtrc(above, below, found / mean))
    residual = model.projection @ (model.value - predicted)
    chi_squared = float(residual @ np.linalg.solve(spread.covariance, residual))
    free = model.directions - len(tangents)
    chance = max(min(1.0, 2 * min(of_all, hotelling(chi_squared, free, spread.freedom))), 1e-300)
    return Goodness(found, mean, chi_squared, free, chance)


def hotelling(chi_squared: float, directions: int, freedom: float) -> float:
    """Probability of a larger χ² with a covariance of so many degrees of freedom; 1 where nothing is free."""
    if directions < 1:
        return 1.0
    if freedom > 1e5:
        return float(chdtrc(directions, chi_squared))
    below = max(freedom - directions + 1, 1.0)
    return float(fdtrc(directions, below, chi_squared * below / (freedom * directions)))


def odds_of_none(chance: float) -> float:
    """How much more probable this p-value is if none of the candidates is true."""
    return SHARPNESS * chance ** (SHARPNESS - 1)


def _draws(model: Model, number: int, spread: Spread, rng: np.random.Generator) -> np.ndarray:
    """Deviations of observations from the best candidate's mean, (draw, feature)."""
    size = model.design.size
    out = np.zeros((DRAWS, size))
    width = np.inf if model.width is None else model.width
    particles = model.particles[number]
    more = spread.share * spread.ratio  # what networks add to V/N
    for layer in range(len(model.design.layers)):
        place = model.design.block(layer)
        if model.single is not None:
            one, known = model.single[layer], spread.known[layer]
            count = one.shape[1]
            chosen = _resample(count, count, rng) - 1 / count
            drawn = np.sqrt((1 - known) * count / (count - 1)) * chosen @ one.T
            if particles is not None and known > 0:
                drawn += np.sqrt(known) * (_sample(particles[layer], count, rng) + _noise(model, place, rng))
            # The recorded neurons are among the network's N.
            out[:, place] += np.sqrt(max(1 + min(more - 1, 0) * count / width, 0.1)) * drawn
            extra = max(more - 1, 0) / width
        else:
            extra = more / width
            if particles is not None and model.counts is not None:
                count = model.counts[layer]
                out[:, place] += np.sqrt(max(1 - count / width, 0)) * _sample(particles[layer], count, rng)
        if particles is not None and extra > 0:
            centred = particles[layer] - particles[layer].mean(1, keepdims=True)
            normal = rng.standard_normal((DRAWS, centred.shape[1])) / np.sqrt(centred.shape[1])
            out[:, place] += np.sqrt(extra) * normal @ centred.T
    deviations = model.deviations[number]
    if deviations is not None:
        out += np.sqrt((1 - spread.share) / width) * rng.standard_normal((DRAWS, len(deviations))) @ deviations
    errors = model.errors[number]
    return out + rng.standard_normal((DRAWS, len(errors))) @ errors


def _resample(total: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Weights of `total` neurons in means over `count` of them, drawn with replacement, (draw, neuron)."""
    drawn = rng.integers(total, size=(DRAWS, count)) + total * np.arange(DRAWS)[:, None]
    return np.bincount(drawn.ravel(), minlength=DRAWS * total).reshape(DRAWS, total) / count


def _sample(particles: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Deviations of means over `count` of theory's neurons, (draw, feature)."""
    picked = _resample(particles.shape[1], count, rng)
    return picked @ (particles - particles.mean(1, keepdims=True)).T


def _noise(model: Model, place: slice, rng: np.random.Generator) -> np.ndarray:
    """Trial noise of one layer, (draw, feature)."""
    values, vectors = np.linalg.eigh(model.noise[place, place])
    return rng.standard_normal((DRAWS, len(values))) @ (vectors * np.sqrt(np.maximum(values, 0))).T


def _relative_variance(model: Model, known: tuple[float, ...]) -> float:
    """Of the reference's mean: it is that of a mean over neurons, whose contributions differ."""
    if model.single is None:
        return 0.0
    total, variance = 0.0, 0.0
    for layer, one in enumerate(model.single):
        place = model.design.block(layer)
        root = model.root[place, place]
        own = np.sum(np.linalg.solve(root, one - one.mean(1, keepdims=True)) ** 2, axis=0)
        total += own.mean()
        variance += (1 - known[layer]) ** 2 * own.var(ddof=1) / len(own)
    return variance / total**2
