"""Where the fresh Gaussians of a population of neurons come from.

A finite network draws plain ones. The mean-field limit draws them with less noise: the first
directions are quasi-random, and all are matched, that is mean-free, orthonormal and orthogonal to
every earlier Gaussian of the population. Matching them to the nonlinear fields as well was measured to
change nothing.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

AHEAD = 32  # matched Gaussians are made this many at a time: one pass over the earlier ones serves all


def project_out(rows: Array, basis: Array, width: int) -> Array:
    """rows minus their projection on the orthonormal rows of `basis`, ⟨a,b⟩ = a·b/width."""
    return rows - (rows @ basis.T / width) @ basis


def orthonormalise(rows: Array, width: int, missing: Array) -> Array:
    """Gram–Schmidt in order by Cholesky: earlier rows do not feel later ones.

    Rows that are 0 stay 0; `missing` (k,) is 1 for them, which keeps the factorisation finite.
    """
    gram = (rows @ rows.T / width).astype(jnp.float64)
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
    def draw(self, key: Array, rows: int, fields: Array) -> Array:
        """Fresh Gaussians in the shape of `rows` rows of `fields`, which are what is conditioned on."""

    @abc.abstractmethod
    def take(self, rows: Array, drawn: int) -> Source:
        """Count `rows` of the `drawn` Gaussians over the population as used."""


class Plain(Source):
    """Independent N(0,1) numbers: the exact law of a network of finite width."""

    width: int = eqx.field(static=True)

    @property
    def full(self) -> Array:
        return jnp.asarray(False)

    def draw(self, key: Array, rows: int, fields: Array) -> Array:
        # Conditioned on W(0)ᵀ·fields, the fresh part of W(0) has no component along the fields.
        return project_out(jax.random.normal(key, (rows, fields.shape[1]), fields.dtype), fields, self.width)

    def take(self, rows: Array, drawn: int) -> Plain:
        return self


class Matched(Source):
    """Quasi-random, moment-matched Gaussians of S particles.

    Attributes:
        basis: (1 + room, S) orthonormal rows: the constant, then all Gaussians, made beforehand (`Pool`): they do not
            depend on what is asked.
        count: how many rows of `basis` are in use.
        short: whether more were asked for than there is room for.
    """

    basis: Array
    count: Array
    short: Array

    @property
    def full(self) -> Array:
        return self.short

    def draw(self, key: Array, rows: int, fields: Array) -> Array:
        width = self.basis.shape[1]
        offsets = fields.shape[1] // width
        start = (self.count, jnp.zeros_like(self.count))
        drawn = jax.lax.dynamic_slice(self.basis, start, (rows * offsets, width))
        return jnp.swapaxes(drawn.reshape(rows, offsets, width), 1, 2).reshape(rows, fields.shape[1])

    def take(self, rows: Array, drawn: int) -> Matched:
        short = self.short | (self.count + drawn > len(self.basis))  # beyond the end, rows in use would be drawn again
        return replace(self, count=self.count + rows, short=short)

    def moved(self, basis: Array) -> Matched:
        """The same with the larger `basis`."""
        return replace(self, basis=basis, short=jnp.zeros_like(self.short))


def make_matched(basis: Array) -> Matched:
    """A source of which nothing but the constant is in use, so that every Gaussian is mean-free."""
    return Matched(basis, jnp.ones((), jnp.int32), jnp.asarray(False))


@dataclass(frozen=True)
class Pool:
    """What the matched Gaussians of one population are made of: the rows of `quasi` (d, S), then plain normals.

    Row i depends on i, the rows before it and `seed` only, so that room can be added. Cost O(room²·S), by NumPy: inside
    the compiled step random numbers and their orthogonalisation would take half of the compilation.
    """

    quasi: np.ndarray
    seed: tuple[int, ...]

    def basis(self, room: int, have: np.ndarray | None = None) -> np.ndarray:
        """The constant and `room` Gaussians, (1 + room, S); `have` is a smaller basis of this pool.

        There are less than S orthonormal rows; those beyond are 0, and a run stops long before it uses them.
        """
        particles = self.quasi.shape[1]
        out = np.zeros((1 + room, particles))
        out[0] = 1.0
        filled = 1
        if have is not None:
            out[: len(have)], filled = have, len(have)
        while filled < min(1 + room, particles):
            rows = min(AHEAD, particles - filled, 1 + room - filled)
            new, earlier = self._raw(filled - 1)[:rows], out[:filled]
            new = new - (new @ earlier.T / particles) @ earlier
            # Once is enough: random rows are far from those before them. The inverse of a small factor is the quickest.
            new = np.linalg.inv(np.linalg.cholesky(new @ new.T / particles)) @ new
            # As they will be read back, so that it does not matter when room is added.
            out[filled : filled + rows] = new.astype(self.quasi.dtype)
            filled += rows
        return out.astype(self.quasi.dtype)

    def _raw(self, first: int) -> np.ndarray:
        """Gaussians `first`, …, `first` + AHEAD − 1 before they are matched."""
        quasi = self.quasi[first : first + AHEAD].astype(np.float64)
        # NumPy fills short seeds up with zeros; a last number that is not 0 keeps this one apart from all others.
        generator = np.random.default_rng([first, *self.seed, len(self.seed) + 1])
        return np.concatenate([quasi, generator.standard_normal((AHEAD - len(quasi), self.quasi.shape[1]))])
