"""Continuous parameters of a sweep, such as ρ and γ₀, between the points at which theory was computed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from .likelihood import fit, log_sum
from .model import Model, Spread
from .predictions import Candidates

POINTS = 41  # per parameter
POINTS_OF_SEVERAL = 21
POSITIVE = ("richness", "training.dt")  # parameters that are interpolated and judged by their logarithms


@dataclass(frozen=True)
class Interval:
    """A parameter's posterior: mean, and the interval between equal tails."""

    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Surface:
    """The posterior over continuous parameters of one family of candidates.

    Attributes:
        fields: the parameters; values: the points of each, on which `log_evidence` is.
        best: the most probable point; weights: how its prediction is made of those of the family's members.
    """

    fields: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    log_evidence: np.ndarray
    members: tuple[int, ...]
    best: tuple[float, ...]
    weights: np.ndarray
    tangents: np.ndarray  # derivatives of the weights by the parameters
    best_gain: float
    best_scale: float

    def interval(self, field: str, level: float) -> Interval:
        axis = self.fields.index(field)
        others = tuple(k for k in range(len(self.fields)) if k != axis)
        mass = np.exp(log_sum(self.log_evidence, others) - log_sum(self.log_evidence))
        points = self.values[axis]
        steps = np.concatenate([[0], np.cumsum((mass[1:] + mass[:-1]) / 2)])
        steps = steps / steps[-1]
        lower, upper = np.interp([(1 - level) / 2, (1 + level) / 2], steps, points)
        return Interval(float(mass @ points), float(lower), float(upper))


def surfaces(candidates: Candidates, model: Model, spreads: list[Spread], gain_fixed: bool) -> list[Surface]:
    """One for every family: candidates that have all but the continuous parameters in common and fill a grid."""
    fields = candidates.numeric
    if not fields:
        return []
    families: dict[tuple, dict[tuple[float, ...], int]] = {}
    for number, one in enumerate(candidates.values()):
        rest = tuple((k, v) for k, v in one.labels.items() if k not in fields)
        families.setdefault(rest, {})[tuple(float(one.labels[name]) for name in fields)] = number
    found = []
    for members in families.values():
        axes = tuple(np.array(sorted({point[k] for point in members})) for k in range(len(fields)))
        whole = len(members) == int(np.prod([len(axis) for axis in axes]))
        if whole and all(len(axis) > 1 for axis in axes):
            found.append(_surface(fields, axes, members, model, spreads, gain_fixed))
    return found


def _surface(
    fields: tuple[str, ...], axes: tuple[np.ndarray, ...], members: dict[tuple[float, ...], int], model: Model,
    spreads: list[Spread], gain_fixed: bool,
) -> Surface:  # fmt: skip
    order = tuple(members[point] for point in itertools.product(*axes))
    shape = tuple(len(axis) for axis in axes)
    places = tuple(_coordinate(name, axis) for name, axis in zip(fields, axes, strict=True))
    count = POINTS if len(fields) == 1 else POINTS_OF_SEVERAL
    fine_places = tuple(np.linspace(place[0], place[-1], count) for place in places)
    mix = _weights(places, shape)
    points = np.stack(np.meshgrid(*fine_places, indexing="ij"), -1).reshape(-1, len(fields))
    weights = mix(points)  # (point, member)
    means = np.stack([model.projected(number) for number in order])
    covariances = np.stack([spreads[number].covariance for number in order])
    freedom = np.array([spreads[number].freedom for number in order])
    # Covariances by distances, so that they stay positive; means may overshoot as splines do.
    linear = _weights(places, shape, "linear")(points)
    value = model.projection @ model.value
    fits = []
    for own, even in zip(weights, linear, strict=True):
        spread = Spread(np.tensordot(even, covariances, 1), float(1 / (even @ (1 / freedom))))
        fits.append(fit(value, np.tensordot(own, means, 1), model.scales, spread, gain_fixed))
    evidence = np.array([one.evidence for one in fits])
    best = int(np.argmax(evidence))
    step = 1e-4 * np.array([place[-1] - place[0] for place in places])
    inside = np.clip(points[best], [p[0] for p in places] + step, [p[-1] for p in places] - step)
    around = mix(np.concatenate([inside + np.diag(step), inside - np.diag(step)]))
    tangents = around[: len(fields)] - around[len(fields) :]
    values = tuple(_parameter(name, place) for name, place in zip(fields, fine_places, strict=True))
    at = np.unravel_index(best, (count,) * len(fields))
    return Surface(
        fields, values, evidence.reshape((count,) * len(fields)), order,
        tuple(float(axis[k]) for axis, k in zip(values, at, strict=True)), weights[best], tangents,
        fits[best].best_gain, fits[best].best_scale,
    )  # fmt: skip


def _coordinate(field: str, values: np.ndarray) -> np.ndarray:
    return np.log(values) if field in POSITIVE and np.all(values > 0) else values


def _parameter(field: str, places: np.ndarray) -> np.ndarray:
    return np.exp(places) if field in POSITIVE else places


def _weights(places: tuple[np.ndarray, ...], shape: tuple[int, ...], method: str | None = None):
    """How a point's prediction is made of those of the grid: splines where there are points enough."""
    fewest = min(shape)
    method = method or ("cubic" if fewest >= 4 else "quadratic" if fewest == 3 else "linear")
    size = int(np.prod(shape))
    if method == "quadratic":
        return _lagrange(places, shape)
    table = RegularGridInterpolator(places, np.eye(size).reshape(*shape, size), method=method)
    return lambda points: table(points)


def _lagrange(places: tuple[np.ndarray, ...], shape: tuple[int, ...]):
    """Per axis a parabola through the three nearest points (or a spline's worth of them), multiplied over axes."""

    def one_axis(place: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        out = np.zeros((len(wanted), len(place)))
        for row, x in enumerate(wanted):
            start = int(np.clip(np.searchsorted(place, x) - 1, 0, len(place) - 3)) if len(place) > 2 else 0
            near = place[start : start + 3]
            for k, own in enumerate(near):
                others = np.delete(near, k)
                out[row, start + k] = np.prod((x - others) / (own - others))
        return out

    def weights(points: np.ndarray) -> np.ndarray:
        total = np.ones((len(points), 1))
        for axis, place in enumerate(places):
            own = one_axis(place, points[:, axis])
            total = np.einsum("pa,pb->pab", total, own).reshape(len(points), -1)
        return total

    return weights
