"""Input covariances whose coinciding and antipodal pairs are exact."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

# A pair this close to (anti)parallel is looked at again: above, a rounded inner product is good enough.
NEAR = 1e-10
CHUNK = 65536


@jax.jit
def _inner_products(left: Array, right: Array, same: Array) -> tuple[Array, Array]:
    """left·rightᵀ of (batch, rows, channels), and whether two different rows are nearly parallel."""
    products = left @ jnp.swapaxes(right, -1, -2)
    sizes = jnp.sqrt(jnp.sum(left**2, -1))[..., None] * jnp.sqrt(jnp.sum(right**2, -1))[..., None, :]
    near = (jnp.abs(products) >= (1 - NEAR) * sizes) & (sizes > 0) & ~same
    return products, jnp.any(near)


def covariances(left: np.ndarray, right: np.ndarray, same: np.ndarray, refine: bool) -> tuple[Array, Array]:
    """Φ⁰ of inputs (batch, rows, channels), and the marks of pairs of the same point, (batch, rows, columns).

    Args:
        same: marks of pairs that are known to be the same point.
        refine: look again at nearly parallel pairs (only where an input is a row, not one of a CNN's patches).
    """
    products, any_near = _inner_products(left, right, same)
    if not (refine and bool(any_near)):
        return products, jnp.asarray(same)
    exact, marked = _refined(left[0], right[0], np.array(products[0]), same[0])
    return jnp.asarray(exact[None]), jnp.asarray(marked[None])


def _refined(
    left: np.ndarray, right: np.ndarray, products: np.ndarray, same: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Correct inner products of nearly parallel rows, and mark equal rows.

    An inner product knows the angle only to √eps; the difference of the two unit vectors knows it to eps.
    """
    norms, norms_ = (np.sqrt(np.sum(rows**2, axis=1)) for rows in (left, right))
    sizes = norms[:, None] * norms_
    i_near, j_near = np.nonzero((np.abs(products) >= (1 - NEAR) * sizes) & (sizes > 0))
    marked = same.copy()
    for start in range(0, len(i_near), CHUNK):
        i, j = i_near[start : start + CHUNK], j_near[start : start + CHUNK]
        sign = np.sign(products[i, j])
        gap = left[i] / norms[i, None] - sign[:, None] * right[j] / norms_[j, None]
        products[i, j] = sign * (1 - np.sum(gap**2, axis=1) / 2) * sizes[i, j]
        marked[i, j] |= np.all(left[i] == right[j], axis=1)
    return products, marked
