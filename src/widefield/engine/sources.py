"""Where the fresh Gaussians of a population of neurons come from.

A finite network draws plain ones. The mean-field limit draws them with less noise: the first
directions are quasi-random, and all are matched, that is mean-free, orthonormal and orthogonal to
every earlier Gaussian of the population. Matching them to the nonlinear fields as well was measured to
change nothing.
"""

from __future__ import annotations

import abc
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .order import after

AHEAD = 32  # matched Gaussians are prepared this many at a time: one pass over the earlier ones serves all


def project_out(rows: Array, basis: Array, width: int) -> Array:
    """rows minus their projection on the orthonormal rows of `basis`, ⟨a,b⟩ = a·b/width."""
    return rows - (rows @ basis.T / width) @ basis


def orthonormalise(rows: Array, width: int, missing: Array | None = None) -> Array:
    """Gram–Schmidt in order by Cholesky: earlier rows do not feel later ones.

    Rows that are 0 stay 0; `missing` (k,) is 1 for them, which keeps the factorisation finite.
    """
    gram = rows @ rows.T / width
    if missing is not None:
        gram = gram + jnp.diag(missing)
    factor = jnp.linalg.cholesky(gram)
    # The inverse of the small factor and one product: a triangular solve with rows this long is 100 times slower.
    inverse = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(rows), dtype=rows.dtype), lower=True)
    return inverse @ rows


class Source(eqx.Module):
    """Gaussians of one population. A row may span several times the population: one Gaussian per filter offset."""

    @abc.abstractmethod
    def ready(self, key: Array, rows: int, cause: Array) -> Source:
        """The source, ready to give `rows` Gaussians over the population; `cause` depends on earlier draws, and the
        buffer is written only after it."""

    @abc.abstractmethod
    def draw(self, key: Array, rows: int, fields: Array) -> Array:
        """Fresh Gaussians in the shape of `rows` rows of `fields`, which are what is conditioned on."""

    @abc.abstractmethod
    def take(self, rows: Array) -> Source:
        """Count `rows` Gaussians over the population as drawn."""


class Plain(Source):
    """Independent N(0,1) numbers: the exact law of a network of finite width."""

    width: int = eqx.field(static=True)

    def ready(self, key: Array, rows: int, cause: Array) -> Plain:
        return self

    def draw(self, key: Array, rows: int, fields: Array) -> Array:
        # Conditioned on W(0)ᵀ·fields, the fresh part of W(0) has no component along the fields.
        return project_out(jax.random.normal(key, (rows, fields.shape[1]), fields.dtype), fields, self.width)

    def take(self, rows: Array) -> Plain:
        return self


class Matched(Source):
    """Quasi-random, moment-matched Gaussians of S particles.

    Attributes:
        basis: (capacity, S) orthonormal rows: the constant, then all Gaussians, drawn or prepared.
        count: how many rows of `basis` have been drawn.
        prepared: how many rows of `basis` are filled.
        quasi: (d, S) quasi-random normal rows, the raw material of the first d Gaussians.
    """

    basis: Array
    count: Array
    prepared: Array
    quasi: Array

    @property
    def width(self) -> int:
        return self.basis.shape[1]

    def ready(self, key: Array, rows: int, cause: Array) -> Matched:
        block = batch(rows)

        def fill() -> Array:
            return orthonormalise(project_out(self._raw(key, block), self.basis, self.width), self.width)

        short = self.prepared < self.count + rows
        new = jax.lax.cond(short, fill, lambda: jnp.zeros((block, self.width), self.basis.dtype))
        place = after(self.prepared, cause)
        basis = jax.lax.dynamic_update_slice(self.basis, new, (place, jnp.zeros_like(place)))
        return replace(self, basis=basis, prepared=self.prepared + block * short)

    def draw(self, key: Array, rows: int, fields: Array) -> Array:
        offsets = fields.shape[1] // self.width
        start = (self.count, jnp.zeros_like(self.count))
        drawn = jax.lax.dynamic_slice(self.basis, start, (rows * offsets, self.width))
        return drawn.reshape(rows, fields.shape[1])

    def take(self, rows: Array) -> Matched:
        return replace(self, count=self.count + rows)

    def grown(self, directions: int) -> Matched:
        """The same with room for `directions` Gaussians."""
        return replace(self, basis=jnp.pad(self.basis, ((0, directions - len(self.basis)), (0, 0))))

    def _raw(self, key: Array, rows: int) -> Array:
        plain = jax.random.normal(key, (rows, self.width), self.basis.dtype)
        total = self.quasi.shape[0]
        if total == 0:
            return plain
        index = self.prepared - 1 + jnp.arange(rows)
        quasi = self.quasi[jnp.minimum(index, total - 1)]
        return jnp.where((index < total)[:, None], quasi, plain)


def batch(rows: int) -> int:
    """How many Gaussians are prepared when `rows` may be needed."""
    return max(rows, AHEAD)


def make_matched(directions: int, width: int, quasi: Array) -> Matched:
    """A source with room for `directions`; the constant is its first row, so every Gaussian is mean-free."""
    basis = jnp.zeros((directions, width), quasi.dtype).at[0].set(1.0)
    one = jnp.ones((), jnp.int32)
    return Matched(basis, one, one, quasi)
