"""The answer of `wf.identify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ..extras import require_extra
from ..measurement.kernels import pairs_of
from ..measurement.observation import Observation
from .goodness import Goodness
from .likelihood import Fit, log_sum
from .model import Model, Spread
from .parameters import Interval, Surface
from .predictions import Candidates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NONE = "none of these"
# Candidates whose predictions are fewer standard deviations apart than this are said to be indistinguishable.
APART = 1.0


@dataclass(frozen=True, eq=False)
class Identification:
    """Which candidate made the observation.

    Attributes:
        posterior: probability of every candidate and of "none of these", along `candidate`.
        best: the most probable of them.
        fitted: gain and time scale of each candidate, with standard errors, and its log evidence.
        parameters: continuous parameters of a sweep: mean, lower, upper.
        surface: posterior density over continuous parameters, or None.
        indistinguishable: groups of candidates that these data could not tell apart.
        apart: how many standard deviations candidates are apart in these data (row: true one).
        deciding: log odds of the best candidate against the next, from each stage, layer and stimulus.
        against: the next of them, or None.
        outside: where the answer is "none of these", the best of the predicted rules outside the candidates.
        level: of intervals.
        observation: what was observed.
        kind: "kernel" or "rdm".
        goodness: how the best candidate fits: T, its expectation and the probability of one as large.
        observed, predicted, errors: features of the observation and of the best candidate, and the standard errors of
            their difference, (layer, stage, pair).
    """

    posterior: xr.DataArray
    fitted: xr.Dataset
    parameters: dict[str, Interval]
    surface: Surface | None
    indistinguishable: tuple[tuple[str, ...], ...]
    apart: xr.DataArray
    deciding: xr.Dataset
    against: str | None
    outside: str | None
    goodness: Goodness
    level: float
    observation: Observation
    kind: str
    observed: np.ndarray
    predicted: np.ndarray
    errors: np.ndarray

    @property
    def best(self) -> str:
        return str(self.posterior["candidate"].values[int(np.argmax(self.posterior.values))])

    def summary(self) -> str:
        """The answer in a few lines."""
        from .summary import summarise

        return summarise(self)

    def plot(self) -> Figure:
        """Posterior, observed against predicted kernels, residuals and what decided."""
        require_extra("plot", "a picture")
        from .pictures import plot_identification

        return plot_identification(self)

    def __repr__(self) -> str:
        return self.summary()


def decide(
    observed: Observation, candidates: Candidates, model: Model, spreads: list[Spread], fits: list[Fit],
    surface: Surface | None, predicted: np.ndarray, judged: Goodness, odds: float,
    outside: str | None, none: float, level: float,
) -> Identification:  # fmt: skip
    """Put together posterior, parameters, groups and what decided."""
    names = list(candidates)
    evidence = np.array([one.evidence for one in fits])
    shares = np.exp(evidence - log_sum(evidence))
    ratio = none * odds / (none * odds + (1 - none)) if none else 0.0
    posterior = xr.DataArray(
        np.append((1 - ratio) * shares, ratio), {"candidate": [*names, NONE]}, ("candidate",), name="posterior"
    )
    apart = _apart(model, spreads)
    groups = _groups(names, apart)
    order = np.argsort(-evidence)
    own = next((group for group in groups if names[order[0]] in group), (names[order[0]],))
    other = next((k for k in order if names[k] not in own), None)
    deciding = _deciding(model, spreads, fits, int(order[0]), None if other is None else int(other))
    shape = (len(model.design.layers), len(model.design.steps), model.design.pairs)
    fitted = xr.Dataset(
        {
            "gain": ("candidate", [model.gain * one.gain for one in fits]),
            "gain_se": ("candidate", [model.gain * one.gain_error for one in fits]),
            "time_scale": ("candidate", [one.scale for one in fits]),
            "time_scale_se": ("candidate", [one.scale_error for one in fits]),
            "log_evidence": ("candidate", evidence),
        },
        {"candidate": names},
    )
    parameters = {} if surface is None else {field: surface.interval(field, level) for field in surface.fields}
    errors = np.sqrt(np.sum(model.root**2, axis=1)).reshape(shape)
    return Identification(
        posterior, fitted, parameters, surface, groups,
        xr.DataArray(apart, {"true": names, "other": names}, ("true", "other")), deciding,
        None if other is None else names[other], outside if ratio > (1 - ratio) * shares.max() else None, judged, level,
        observed, model.design.kind, model.value.reshape(shape), predicted.reshape(shape), errors,
    )  # fmt: skip


def _apart(model: Model, spreads: list[Spread]) -> np.ndarray:
    """Distance of every candidate at its own time scale from the others at any gain and time scale, in s.d."""
    means = [model.projected(number) for number in range(len(spreads))]
    place = int(np.argmin(np.abs(np.log(model.scales))))
    out = np.zeros((len(means),) * 2)
    for a, mean in enumerate(means):
        inverse = np.linalg.inv(spreads[a].covariance)
        true = mean[place]
        for b, other in enumerate(means):
            if a == b:
                continue
            with_true, squares = other @ inverse @ true, np.einsum("sk,kl,sl->s", other, inverse, other)
            left = true @ inverse @ true - with_true**2 / squares
            out[a, b] = np.sqrt(max(float(left.min()), 0.0))
    return out


def _groups(names: list[str], apart: np.ndarray) -> tuple[tuple[str, ...], ...]:
    """Candidates that are linked by distances below `APART`."""
    close = (apart < APART) | (apart.T < APART)
    left, groups = set(range(len(names))), []
    while left:
        group, new = set(), {left.pop()}
        while new:
            group |= new
            new = {int(k) for k in np.flatnonzero(close[list(new)].any(0))} - group
        left -= group
        if len(group) > 1:
            groups.append(tuple(names[k] for k in sorted(group)))
    return tuple(groups)


def _deciding(model: Model, spreads: list[Spread], fits: list[Fit], first: int, second: int | None) -> xr.Dataset:
    """Log odds of two candidates at their best fits as sums over features: Σ_f w_f (y_f − (a_f + b_f)/2)."""
    design = model.design
    shape = (len(design.layers), len(design.steps), design.pairs)
    parts = np.zeros(shape)
    if second is not None:
        a, b = (
            fits[k].best_gain * model.means[k][int(np.argmin(np.abs(model.coarse - fits[k].best_scale)))]
            for k in (first, second)
        )
        weight = model.projection.T @ np.linalg.solve(spreads[first].covariance, model.projection @ (a - b))
        parts = (weight * (model.value - (a + b) / 2)).reshape(shape)
    pairs = pairs_of(design.kind, design.stimuli)
    by_pair, by_stimulus = parts.sum((0, 1)), np.zeros(design.stimuli)
    for places in pairs:
        np.add.at(by_stimulus, places, by_pair / 2)
    return xr.Dataset(
        {
            "by_stage": ("stage", parts.sum((0, 2))),
            "by_layer": ("layer", parts.sum((1, 2))),
            "by_stimulus": ("stimulus", by_stimulus),
        },
        {"step": ("stage", design.steps), "layer": list(design.layers)},
    )
