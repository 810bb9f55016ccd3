"""Tables of ⟨left(h) right(h')⟩ as Chebyshev series in the angle between two points and in σ.

In the angle θ = arccos ρ the averages are smooth up to both ends, also for activations with a kink at 0 (the arc-cosine
kernel is sin θ + (π−θ) cos θ). A tile of n×m pairs costs O(n·m·Q·A) multiply-adds with Q angular and A radial terms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...errors import NotConvergedError
from ...numerics.quadrature import GOAL, Function, choose_resolution, elementwise, pair_products

ANGULAR = (24, 40, 64, 96, 144, 216)
RADIAL = (8, 12, 18, 27, 40, 60, 90)
FLOOR = 3e-15


class PairTable(NamedTuple):
    """⟨left(h) right(h')⟩ = Σ_q T_q(1−2θ/π) · row(σ)ᵀ coefficients_q column.

    Attributes:
        coefficients: (Q, A, B).
        radial: (terms, A), from a Chebyshev basis in σ on [low, high] to the row basis.
    """

    coefficients: np.ndarray
    radial: np.ndarray
    low: float
    high: float

    def basis(self, sigma: np.ndarray) -> np.ndarray:
        """The row basis at σ, (…, A)."""
        width = max(self.high - self.low, np.finfo(float).tiny)
        t = np.clip(2.0 * (sigma - self.low) / width - 1.0, -1.0, 1.0)
        return np.polynomial.chebyshev.chebvander(t, len(self.radial) - 1) @ self.radial


def chebyshev_nodes(count: int) -> np.ndarray:
    return np.cos(np.pi * (np.arange(count) + 0.5) / count)


def chebyshev_transform(count: int) -> np.ndarray:
    """Matrix from values at `chebyshev_nodes` to coefficients."""
    k = np.arange(count)[:, None]
    matrix = 2.0 / count * np.cos(np.pi * k * (np.arange(count) + 0.5) / count)
    matrix[0] /= 2
    return matrix


def evaluate(coefficients: Array, rho: Array, rows: Array, columns: Array) -> Array:
    """The series (Q, A, B) at ρ (…, n, m) with row bases (…, n, A) and column bases (…, m, B), by Clenshaw."""
    theta = jnp.arctan2(jnp.sqrt((1.0 - rho) * (1.0 + rho)), rho)
    t = 1.0 - 2.0 * theta / jnp.pi
    columns = jnp.swapaxes(columns, -1, -2)

    def step(carry: tuple[Array, Array], layer: Array) -> tuple[tuple[Array, Array], None]:
        next_one, next_two = carry
        return ((rows @ layer) @ columns + 2.0 * t * next_one - next_two, next_one), None

    zero = jnp.zeros_like(rho)
    (one, two), _ = jax.lax.scan(step, (zero, zero), coefficients[:0:-1])
    return (rows @ coefficients[0]) @ columns + t * one - two


def radial_nodes(low: float, high: float, count: int) -> np.ndarray:
    return low + (high - low) * (1 + chebyshev_nodes(count)) / 2


def angular_nodes(count: int) -> np.ndarray:
    """θ at the Chebyshev nodes of t = 1 − 2θ/π."""
    return np.pi * (1 - chebyshev_nodes(count)) / 2


def _magnitudes(coefficients: np.ndarray, axis: int) -> np.ndarray:
    """Size of the coefficients along an axis, relative to the largest one."""
    sizes = np.max(np.abs(np.moveaxis(coefficients, axis, 0)).reshape(coefficients.shape[axis], -1), axis=1)
    return sizes / max(np.max(sizes), np.finfo(float).tiny)


def _order(values_at: Callable[[int], np.ndarray], ladder: tuple[int, ...]) -> int:
    """The shortest series whose last terms are below GOAL; `values_at(count)` has the nodes on its first axis."""
    for count in ladder:
        coefficients = np.tensordot(chebyshev_transform(count), values_at(count), 1)
        if np.max(_magnitudes(coefficients, 0)[-3:]) < GOAL:
            return count
    return ladder[-1]


def series(
    values_at: Callable[[np.ndarray, np.ndarray], np.ndarray], low: float, high: float, right_too: bool
) -> tuple[np.ndarray, float]:
    """Chebyshev coefficients (Q, terms, …) in angle and σ of `values_at(theta, sigma)`, and the size of their tails.

    Args:
        right_too: whether the last axis of the values runs over σ as well.
    """
    ends, probes = np.unique([low, high]), np.pi * np.array([0.02, 0.4, 0.9])
    angular = _order(lambda count: values_at(angular_nodes(count), ends), ANGULAR)
    if len(ends) == 1:
        radial, sigma = 1, ends
    else:
        radial = _order(lambda count: np.swapaxes(values_at(probes, radial_nodes(low, high, count)), 0, 1), RADIAL)
        sigma = radial_nodes(low, high, radial)
    across = chebyshev_transform(radial)
    values = values_at(angular_nodes(angular), sigma)
    coefficients = np.einsum("qp,pab,ca->qcb", chebyshev_transform(angular), values, across, optimize=True)
    if right_too:
        coefficients = coefficients @ across.T
    sizes = _magnitudes(coefficients, 0)
    tail = float(np.max(sizes[-3:]) + (np.max(_magnitudes(coefficients, 1)[-3:]) if radial > 1 else 0.0))
    kept = int(np.flatnonzero(sizes > FLOOR)[-1:].sum()) + 1
    return coefficients[: max(kept, 2)], tail


@lru_cache(maxsize=64)
def build_table(function: Function, low: float, high: float, accuracy: float, name: str) -> tuple[PairTable, float]:
    """Table of ⟨f(h)f(h')⟩ for standard deviations in [low, high], and its estimated relative error."""
    ends, f = np.unique([low, high]), elementwise(function)
    resolution, error = choose_resolution(f, f, ends, ends)
    check_error(error, accuracy, name)

    def values_at(theta: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        return pair_products(f, f, theta, sigma, sigma, resolution)

    coefficients, tail = series(values_at, low, high, right_too=True)
    check_error(error + tail, accuracy, name)
    coefficients = (coefficients + np.swapaxes(coefficients, 1, 2)) / 2
    # Few combinations of the radial terms matter; fewer terms make tiles cheaper.
    unfolded = np.moveaxis(coefficients, 1, 0).reshape(coefficients.shape[1], -1)
    vectors, sizes, _ = np.linalg.svd(unfolded, full_matrices=False)
    radial = vectors[:, sizes > FLOOR * sizes[0]] if sizes[0] > 0 else vectors[:, :1]
    small = np.einsum("qab,ac,bd->qcd", coefficients, radial, radial, optimize=True)
    return PairTable(small, radial, low, high), error + tail


def rounded_range(low: float, high: float) -> tuple[float, float]:
    """A slightly wider range of round numbers, so that similar sets of points share a table; one value stays."""
    if high - low <= 1e-14 * high:
        return high, high
    step = 2.0 ** (np.ceil(np.log2(high)) - 4)
    return float(np.floor(low / step) * step), float(np.ceil(high / step) * step)


def check_error(error: float, accuracy: float, name: str) -> None:
    if not error <= accuracy:
        raise NotConvergedError(
            f"Gaussian averages of {name} have an estimated relative error of {error:.1e}, above the accuracy of "
            f"{accuracy:.1e}; use an activation that is smooth but for a kink at 0, or a larger accuracy="
        )
