"""Largest eigenvalues of a small matrix that need not be symmetric."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def largest(matrix: Array, count: int) -> Array:
    """The `count` eigenvalues of largest modulus, (count, 2), real and imaginary parts; 0 where there are fewer.

    Of a conjugate pair the one with the positive imaginary part comes first. O(n³).
    """
    found = jnp.linalg.eigvals(matrix.astype(jnp.float64))
    # Rounding must not decide about the order of a conjugate pair.
    order = jnp.argsort(-jnp.abs(found) * (1 + 1e-6 * jnp.sign(found.imag)))[:count]
    kept = jnp.stack([found.real, found.imag], axis=1)[order]
    return jnp.pad(kept, ((0, count - len(kept)), (0, 0)))
