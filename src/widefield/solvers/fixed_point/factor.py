"""Causal factors of two-time kernels, and responses read off in their coordinates."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular


class Factor(NamedTuple):
    """K ≈ F Fᵀ with F lower triangular in causal order; column j is the innovation of entry `pivots[j]`.

    Attributes:
        matrix: F (n, capacity), zero beyond `rank`.
        pivots: the kept entries, increasing; n where a column is unused.
        rank: number of kept entries.
        overflow: kept entries for which there was no column left.
    """

    matrix: Array
    pivots: Array
    rank: Array
    overflow: Array


@partial(jax.jit, static_argnames="capacity")
def causal_factor(kernel: Array, capacity: int, cutoff: float) -> Factor:
    """Rank-revealing Cholesky factor without reordering. Cost O(n²·capacity).

    An entry whose standard deviation given all earlier entries is below `cutoff` of its own is a linear
    function of them and gets no column. Keeping the causal order (an eigenvalue factor does not) makes
    column j know only entries up to its own, so that "no response to the future" is exact masking.
    """
    n = kernel.shape[0]
    variances = jnp.diagonal(kernel)
    # The second term drops entries that are zero up to rounding, e.g. pseudo-gradients of a vanished error.
    floors = cutoff**2 * variances + 1e-24 * jnp.max(variances)

    def add_entry(i: Array, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        matrix, pivots, rank, overflow = carry
        residual = kernel[:, i] - matrix @ matrix[i]
        keep = residual[i] > floors[i]
        fits = keep & (rank < capacity)
        column = jnp.where((jnp.arange(n) >= i) & fits, residual / jnp.sqrt(jnp.maximum(residual[i], 1e-300)), 0.0)
        slot = jnp.minimum(rank, capacity - 1)
        matrix = matrix.at[:, slot].add(column)
        pivots = pivots.at[slot].set(jnp.where(fits, i, pivots[slot]))
        return matrix, pivots, rank + fits, overflow + (keep & ~fits)

    start = (jnp.zeros((n, capacity)), jnp.full(capacity, n), jnp.array(0), jnp.array(0))
    return Factor(*jax.lax.fori_loop(0, n, add_entry, start))


@partial(jax.jit, static_argnames=("points", "equal_time"))
def stein_response(target: Array, field: Array, factor: Factor, points: int, *, equal_time: bool) -> Array:
    """⟨∂target/∂field⟩ (n, n) by Stein's lemma, ⟨target fieldᵀ⟩ Cov(field)⁻¹, in causal order.

    target and field are (n, S), `factor` is that of the field's covariance. The field is turned into its
    innovations ξ = F⁻¹field, on which the target's regression is ⟨target ξᵀ⟩; entries that causality
    forbids are set to 0, and what is left is turned back. A dropped entry gets response 0: it is a
    linear function of kept ones, which carry its response.
    """
    n, samples = field.shape
    capacity = factor.pivots.shape[0]
    used = factor.pivots < n
    rows = jnp.where(used[:, None], factor.matrix[jnp.minimum(factor.pivots, n - 1)], jnp.eye(capacity))
    kept = jnp.where(used[:, None], field[jnp.minimum(factor.pivots, n - 1)], 0.0)
    innovations = solve_triangular(rows, kept, lower=True)
    regression = target @ innovations.T / samples
    now, then = jnp.arange(n)[:, None] // points, factor.pivots[None, :] // points
    allowed = (then <= now) if equal_time else (then < now)
    on_kept = solve_triangular(rows, jnp.where(allowed & used, regression, 0.0).T, lower=True, trans=1).T
    return jnp.zeros((n, n)).at[:, factor.pivots].add(on_kept, mode="drop")
