"""`wf.power`: how many neurons, trials, stages and stimuli tell one rule from another, from theory alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ..errors import InputError, require, require_integer, require_number, require_one_of
from ..extras import require_extra
from ..measurement.kernels import pairs_of, unfold
from ..measurement.observation import KINDS
from ..problem.problem import Problem
from ..progress import Progress
from .covariance import noise_covariance, scatter, shrink
from .model import FLOOR, SCALES
from .predictions import TIME_SCALE, Candidates, Design, Prediction
from .preparing import candidates, check_scale, check_stages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NEURONS = 10**6
FEWEST_NEURONS = 10  # averages over fewer are not Gaussian, and `wf.identify` refuses them


@dataclass(frozen=True, eq=False)
class Power:
    """What it takes to tell two rules apart.

    Attributes:
        names: of the two rules.
        confidence, wanted, noise: what was asked for: the posterior, in which share of experiments, and the noise.
        table: by neurons and trials, `distance` (standard deviations between the rules), `probability` (that the true
            rule gets a posterior above `confidence`, of the two) and `correct` (that it gets the higher one).
        needed: neurons per layer for each number of trials; NaN where no number is enough (finite width, or a million).
        stimuli, distances: stimuli in the order in which they add most, and the distance with the first k of them.
        stages, stage_distances: the same for stages (training steps).
    """

    names: tuple[str, str]
    table: xr.Dataset
    needed: xr.DataArray
    stimuli: tuple[int, ...]
    distances: np.ndarray
    stages: tuple[float, ...]
    stage_distances: np.ndarray
    confidence: float
    wanted: float
    noise: float

    def summary(self) -> str:
        """The answer in a few lines."""
        a, b = self.names
        lines = [f"{a} or {b}, with confidence {self.confidence:g} in {100 * self.wanted:g} % of experiments"]
        for trials in self.needed["trials"].values:
            number = float(self.needed.sel(trials=trials))
            said = "no number of neurons is enough" if np.isnan(number) else f"{number:.0f} neurons per layer"
            lines.append(f"  {said}" + (f" with {int(trials)} trials" if self.noise else ""))
        most = self.table["neurons"].values[-1]
        lines.append(f"  most telling stimuli, with {most} neurons: {', '.join(map(str, self.stimuli[:5]))}")
        lines.append(f"  most telling stages: steps {', '.join(f'{step:g}' for step in self.stages[:5])}")
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Probability of success against neurons, and the distance as stimuli are added."""
        require_extra("plot", "a picture")
        from .pictures import plot_power

        return plot_power(self)

    def __repr__(self) -> str:
        return self.summary()


def power(
    a: Problem | Candidates,
    b: Problem | None = None,
    *,
    steps: ArrayLike | None = None,
    neurons: Sequence[int] = (25, 50, 100, 200, 400),
    trials: Sequence[int] = (10,),
    noise: float = 0.0,
    width: int | None = None,
    layers: Sequence[int] | None = None,
    kind: str = "kernel",
    confidence: float = 0.95,
    probability: float = 0.9,
    time_scale: float | tuple[float, float] | None = None,
    seed: int = 0,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Power:
    """Plan an experiment: what does it take to tell rule A from rule B?

    From theory and fluctuations alone: no data are needed. The distance d of two rules is that of their kernels in
    standard deviations of an experiment, at the gain and time scale at which they are most alike. The log odds of an
    experiment are then Gaussian with mean d²/2 and variance d².

    Args:
        a, b: the two problems; or two candidates made by `wf.candidates`.
        steps: training steps at which would be recorded.
        neurons: numbers of recorded neurons per layer to look at.
        trials: numbers of trials per stimulus to look at, where there is noise.
        noise: variance of a neuron's activity from trial to trial, in the units of φ; 0 is none.
        width: neurons per layer of the network; default so many that finite width does not count.
        layers: which layers; default all.
        kind: "kernel", or "rdm" for dissimilarities.
        confidence: the posterior that the true rule should get.
        probability: in which share of experiments it should.
        time_scale: as in `wf.candidates`.
        seed: the same seed gives the same numbers.
        progress: as in `wf.solve`.
        options: options of `wf.solve`, and `networks`, as in `wf.candidates`.

    Example:
        >>> wf.power(gd, fa, steps=[0, 10, 40], noise=0.5, trials=[4, 10]).needed
    """
    allowed = "two problems, or two candidates of wf.candidates"
    require_one_of("kind", kind, KINDS)
    require_number("noise", noise, "a variance, 0 or more", at_least=0)
    require_number("confidence", confidence, "a probability between 0.5 and 1", above=0.5, at_most=1 - 1e-9)
    require_number("probability", probability, "a probability between 0.5 and 1", above=0.5, at_most=1 - 1e-9)
    _check_counts("neurons", neurons)
    _check_counts("trials", trials)
    made = a.time_scale if isinstance(a, Candidates) else TIME_SCALE
    scales = check_scale(made if time_scale is None else time_scale)
    if isinstance(a, Candidates):
        require(b is None and len(a) == 2, "candidates", f"{len(a)}", allowed)
        require(steps is None and width is None and not options, "options", list(options), "none: candidates are made")
        pair = a
    else:
        require(isinstance(a, Problem) and isinstance(b, Problem), "problems", type(b).__name__, allowed)
        if steps is None:
            raise InputError("steps is missing; allowed: training steps in increasing order")
        assert isinstance(b, Problem)
        names = ("A", "B") if a.rule == b.rule else (repr(a.rule), repr(b.rule))
        scale = scales if scales[0] < scales[1] else scales[0]
        named = dict(zip(names, (a, b), strict=True))
        pair = candidates(
            named,
            check_stages(steps),
            width=width,
            time_scale=scale,
            others=False,
            seed=seed,
            progress=progress,
            **options,
        )
    if pair.steps is None:
        raise InputError("candidates is a sweep's dataset; allowed: what wf.candidates makes")
    if pair.width is not None:
        require(max(neurons) <= pair.width, "neurons", max(neurons), f"at most the width, {pair.width}")
    plan = _Plan(pair, layers, kind, noise, scales)
    return plan.answer(tuple(neurons), tuple(trials) if noise else (1,), confidence, probability)


def _check_counts(name: str, counts: Sequence[int]) -> None:
    require(isinstance(counts, Sequence) and len(counts) > 0, name, counts, "a list of whole numbers, 2 or more")
    for count in counts:
        require_integer(name, count, 2)


class _Plan:
    def __init__(
        self, pair: Candidates, layers: Sequence[int] | None, kind: str, noise: float, scales: tuple[float, float]
    ):
        self.pair, self.noise, self.kind = pair, noise, kind
        first = next(iter(pair.values()))
        assert pair.steps is not None
        chosen = tuple(range(1, min(one.depth for one in pair.values()) + 1)) if layers is None else tuple(layers)
        self.design = Design(pair.steps, chosen, kind, first.stimuli)
        grid = np.geomspace(*scales, SCALES) if scales[0] < scales[1] else np.array([scales[0]])
        self.means = [np.stack([self.design.at(o.times, o.mean, s) for s in grid]) for o in pair.values()]
        self.truths = [self.design.at(one.times, one.mean) for one in pair.values()]
        self.parts = [self._covariances(one, truth) for one, truth in zip(pair.values(), self.truths, strict=True)]

    def answer(self, neurons: tuple[int, ...], trials: tuple[int, ...], confidence: float, probability: float) -> Power:
        distance = np.array([[self.distance(count, number) for number in trials] for count in neurons])
        table = xr.Dataset(
            {
                "distance": (("neurons", "trials"), distance),
                "probability": (("neurons", "trials"), _success(distance, confidence)),
                "correct": (("neurons", "trials"), ndtr(distance / 2)),
            },
            {"neurons": list(neurons), "trials": list(trials)},
        )
        needed = [self._needed(number, confidence, probability) for number in trials]
        count, number = neurons[-1], trials[-1]
        stimuli, distances = self._greedy(self.design.stimuli, lambda k: self._mask(stimuli=k), count, number)
        stages, by_stage = self._greedy(len(self.design.steps), lambda k: self._mask(stages=k), count, number)
        a, b = self.pair
        return Power(
            (a, b), table, xr.DataArray(needed, {"trials": list(trials)}, ("trials",)), stimuli, distances,
            tuple(float(self.design.steps[k]) for k in stages), by_stage, confidence, probability, self.noise,
        )  # fmt: skip

    def distance(self, neurons: float, trials: int, kept: np.ndarray | None = None) -> float:
        """Standard deviations between the rules; the smaller of the two, as either may be true."""
        found = []
        for true in (0, 1):
            sampling, noise, networks = self.parts[true]
            of_width = 0.0 if self.pair.width is None else 1 / self.pair.width
            total = max(1 / neurons - of_width, 0.0) * sampling + of_width * networks
            if self.noise:
                total = total + (noise[0] / trials + noise[1] / (trials * (trials - 1))) / neurons
            total = total + FLOOR**2 * np.mean(self.truths[true] ** 2) * np.eye(len(total))
            rows = np.concatenate([self.truths[true][None], self.means[1 - true]])
            if kept is not None:
                total, rows = total[np.ix_(kept, kept)], rows[:, kept]
            white = scipy.linalg.solve_triangular(np.linalg.cholesky(total), rows.T, lower=True)
            own, others = white[:, 0], white[:, 1:]
            left = own @ own - (others.T @ own) ** 2 / np.sum(others**2, axis=0)
            found.append(float(np.sqrt(max(left.min(), 0.0))))
        return min(found)

    def _needed(self, trials: int, confidence: float, probability: float) -> float:
        most = float(MOST_NEURONS if self.pair.width is None else self.pair.width)

        def enough(count: float) -> bool:
            return bool(_success(np.array(self.distance(count, trials)), confidence) >= probability)

        if not enough(most):
            return float("nan")
        low, high = np.log(float(FEWEST_NEURONS)), np.log(most)
        if enough(FEWEST_NEURONS):
            return float(FEWEST_NEURONS)
        while high - low > 0.01:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(np.exp(middle)) else (middle, high)
        return float(np.ceil(np.exp(high)))

    def _greedy(
        self, count: int, mask: Callable[[list[int]], np.ndarray], neurons: int, trials: int
    ) -> tuple[tuple[int, ...], np.ndarray]:
        chosen: list[int] = []
        distances = []
        while len(chosen) < count:
            best, distance = -1, -1.0
            for k in set(range(count)) - set(chosen):
                kept = mask([*chosen, k])
                found = self.distance(neurons, trials, kept) if kept.any() else 0.0
                if found > distance:
                    best, distance = k, found
            chosen.append(best)
            distances.append(distance)
        return tuple(chosen), np.array(distances)

    def _mask(self, stimuli: list[int] | None = None, stages: list[int] | None = None) -> np.ndarray:
        design = self.design
        out = np.ones((len(design.layers), len(design.steps), design.pairs), bool)
        if stimuli is not None:
            first, second = pairs_of(design.kind, design.stimuli)
            out[..., ~(np.isin(first, stimuli) & np.isin(second, stimuli))] = False
        if stages is not None:
            out[:, [k for k in range(len(design.steps)) if k not in stages]] = False
        return out.reshape(-1)

    def _covariances(
        self, one: Prediction, truth: np.ndarray
    ) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]:
        """V, the two parts of M × trial noise (∝ 1/R and 1/(R(R−1))), and C."""
        design = self.design
        assert one.particles is not None
        sampling, single, double = (np.zeros((design.size,) * 2) for _ in range(3))
        whole = Design(design.steps, design.layers, "kernel", design.stimuli).at(one.times, one.mean)
        kernels = unfold(whole.reshape(len(design.layers), len(design.steps), -1), "kernel", design.stimuli)
        for layer, label in enumerate(design.layers):
            place = design.block(layer)
            index = label - 1 if label > 0 else one.depth + label
            sampling[place, place] = scatter(design.of_neurons(one.particles[:, index].astype(float), layer))
            for stage in range(len(design.steps)):
                start = place.start + stage * design.pairs
                own = slice(start, start + design.pairs)
                single[own, own], double[own, own] = _noise_parts(kernels[layer, stage], self.noise, design.kind)
        if one.deviations is None:
            return sampling, (single, double), np.zeros_like(sampling)
        factors = design.at(one.times, one.deviations)
        share, ratio = shrink(factors, sampling)
        return sampling, (single, double), (1 - share) * factors.T @ factors + share * ratio * sampling


def _noise_parts(kernel: np.ndarray, noise: float, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of 1/R and 1/(R(R−1)), from two numbers of trials."""
    variance = np.full(len(kernel), noise)
    two, three = (noise_covariance(kernel, variance, trials, kind) for trials in (2, 3))
    # two = s/2 + d/2, three = s/3 + d/6
    return 6 * three - 2 * two, 4 * two - 6 * three


def _success(distance: np.ndarray, confidence: float) -> np.ndarray:
    wanted = np.log(confidence / (1 - confidence))
    safe = np.maximum(distance, 1e-9)
    return ndtr((safe**2 / 2 - wanted) / safe)
