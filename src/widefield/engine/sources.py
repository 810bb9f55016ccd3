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
    gram = (rows @ rows.T / width).astype(jnp.float64)
    if missing is not None:
        gram = gram + jnp.diag(missing.astype(gram.dtype))
    factor = jnp.linalg.cholesky(gram)
    # The inverse of the small factor and one product: a triangular solve with rows this long is 100 times slower.
    inverse = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(rows), dtype=gram.dtype), lower=True)
    return inverse.astype(rows.dtype) @ rows


class Source(eqx.Module):
    """Gaussians of one population. A row may span several times the population: one Gaussian per filter offset."""

    @property
    @abc.abstractmethod
    def full(self) -> Array:
        """Whether more Gaussians were asked for than there is room for."""

    @abc.abstractmethod
    def ready(self, key: Array, rows: Array, cause: Array) -> Source:
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

    @property
    def full(self) -> Array:
        return jnp.asarray(False)

    def ready(self, key: Array, rows: Array, cause: Array) -> Plain:
        return self

    def draw(self, key: Array, rows: int, fields: Array) -> Array:
        # Conditioned on W(0)ᵀ·fields, the fresh part of W(0) has no component along the fields.
        return project_out(jax.random.normal(key, (rows, fields.shape[1]), fields.dtype), fields, self.width)

    def take(self, rows: Array) -> Plain:
        return self


class Matched(Source):
    """Quasi-random, moment-matched Gaussians of S particles.

    Attributes:
        basis: (room, S) orthonormal rows: the constant, then all Gaussians, drawn or prepared.
        count: how many rows of `basis` have been drawn.
        prepared: how many rows of `basis` are filled.
        quasi: (d, S) quasi-random normal rows, the raw material of the first d Gaussians.
        short: whether more were asked for than there is room for.
    """

    basis: Array
    count: Array
    prepared: Array
    quasi: Array
    short: Array

    @property
    def width(self) -> int:
        return self.basis.shape[1]

    @property
    def full(self) -> Array:
        return self.short

    def ready(self, key: Array, rows: Array, cause: Array) -> Matched:
        needed, room = self.count + rows, len(self.basis)

        def more(carry: tuple[Array, Array]) -> Array:
            _, prepared = carry
            return (prepared < needed) & (prepared + AHEAD <= room)

        def fill(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            basis, prepared = carry
            raw = self._raw(jax.random.fold_in(key, prepared), prepared)
            new = orthonormalise(project_out(raw, basis, self.width), self.width)
            return jax.lax.dynamic_update_slice(basis, new, (prepared, jnp.zeros_like(prepared))), prepared + AHEAD

        start = (self.basis, after(self.prepared, cause))
        basis, prepared = jax.lax.while_loop(more, fill, start)
        return replace(self, basis=basis, prepared=prepared, short=self.short | (prepared < needed))

    def draw(self, key: Array, rows: int, fields: Array) -> Array:
        offsets = fields.shape[1] // self.width
        start = (self.count, jnp.zeros_like(self.count))
        drawn = jax.lax.dynamic_slice(self.basis, start, (rows * offsets, self.width))
        return jnp.swapaxes(drawn.reshape(rows, offsets, self.width), 1, 2).reshape(rows, fields.shape[1])

    def take(self, rows: Array) -> Matched:
        return replace(self, count=self.count + rows)

    def _raw(self, key: Array, prepared: Array) -> Array:
        """Raw material of the next Gaussians: quasi-random rows while there are any."""
        plain = jax.random.normal(key, (AHEAD, self.width), self.basis.dtype)
        total = self.quasi.shape[0]
        if total == 0:
            return plain
        index = prepared - 1 + jnp.arange(AHEAD)
        quasi = self.quasi[jnp.minimum(index, total - 1)]
        return jnp.where((index < total)[:, None], quasi, plain)

    def grown(self, room: int) -> Matched:
        """The same with room for `room` Gaussians."""
        padded = jnp.pad(self.basis, ((0, room - len(self.basis)), (0, 0)))
        filled = jnp.arange(room)[:, None] < self.prepared
        return replace(self, basis=jnp.where(filled, padded, 0.0), short=jnp.zeros_like(self.short))


def make_matched(room: int, width: int, quasi: Array) -> Matched:
    """A source with room for `room` Gaussians; the constant is its first row, so every Gaussian is mean-free."""
    basis = jnp.zeros((room, width), quasi.dtype).at[0].set(1.0)
    one = jnp.ones((), jnp.int32)
    return Matched(basis, one, one, quasi, jnp.asarray(False))
