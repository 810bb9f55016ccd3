"""Where the fresh Gaussians of a population of neurons come from.

A finite network draws plain ones. The mean-field limit draws them with less noise: the first
directions are quasi-random, and all are matched, that is mean-free, orthonormal and orthogonal to
every earlier Gaussian of the population. Matching them to the nonlinear fields as well was measured to
change nothing.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

AHEAD = 32  # matched Gaussians are made this many at a time: one pass over the earlier ones serves all
PASSED = 64  # earlier ones of a pass
PIECE = 64  # particles of a product: for larger ones NumPy's library takes threads of its own, which spin too
SOLVED = 16  # rows of a triangular matrix that are inverted at once


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
    return _inverse(factor, _small_inverse, jnp.block).astype(rows.dtype) @ rows


def _small_inverse(lower: Array) -> Array:
    return jax.scipy.linalg.solve_triangular(lower, jnp.eye(len(lower), dtype=lower.dtype), lower=True)


def _inverse(lower: Any, of_small: Callable[[Any], Any], block: Callable[[Any], Any]) -> Any:
    """The inverse of a triangular matrix, half by half: from some 24 rows on the library below takes a second thread
    for a solve, which then waits by spinning and takes a processor from the steps of other replicates."""
    if len(lower) <= SOLVED:
        return of_small(lower)
    half = len(lower) // 2
    first, last = (_inverse(part, of_small, block) for part in (lower[:half, :half], lower[half:, half:]))
    below = -last @ lower[half:, :half] @ first
    return block([[first, 0.0 * below.T], [below, last]])


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
    the compiled step it would take half of the compilation.
    """

    quasi: np.ndarray
    seed: tuple[int, ...]

    def basis(self, room: int, have: np.ndarray | None = None) -> np.ndarray:
        """The constant and `room` Gaussians, (1 + room, S); `have` is a smaller basis of this pool.

        A run stops where it would use more than S/2 rows; those beyond 3S/4 are 0, since the last of S orthonormal rows
        would be made of rounding errors.
        """
        particles = self.quasi.shape[1]
        most = particles * 3 // 4
        # Whole blocks are read and written; a row of zeros changes nothing, to the last bit.
        out = np.zeros((-(-(1 + room + AHEAD) // PASSED) * PASSED, particles), self.quasi.dtype)
        out[0] = 1.0
        filled = 1
        if have is not None:
            out[: len(have)], filled = have, 1 + (len(have) - 1) // AHEAD * AHEAD
            out[filled:] = 0.0
        while filled < min(1 + room, most):
            new = self._raw(filled - 1)
            for first in range(0, filled, PASSED):
                earlier = out[first : first + PASSED]
                new = new - _combined(_overlaps(new, earlier), earlier)
            # Once is enough: random rows are far from those before them.
            rows = min(AHEAD, most - filled)
            factor = np.linalg.cholesky(_overlaps(new[:rows], new[:rows]))
            out[filled : filled + rows] = _combined(_inverse(factor, np.linalg.inv, np.block), new[:rows])
            filled += AHEAD
        return out[: 1 + room]

    def _raw(self, first: int) -> np.ndarray:
        """Gaussians `first`, …, `first` + AHEAD − 1 before they are matched."""
        quasi = self.quasi[first : first + AHEAD]
        # NumPy fills short seeds up with zeros; a last number that is not 0 keeps this one apart from all others.
        generator = np.random.default_rng([first, *self.seed, len(self.seed) + 1])
        more = generator.standard_normal((AHEAD - len(quasi), self.quasi.shape[1]))
        return np.concatenate([quasi, more.astype(quasi.dtype)])


def _overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """⟨a, b⟩ = a·b/S of rows (k, S) and (m, S)."""
    particles = a.shape[1]
    whole = particles // PIECE * PIECE
    pieces = [rows[:, :whole].reshape(len(rows), -1, PIECE).swapaxes(0, 1) for rows in (a, b)]
    total = np.sum(pieces[0] @ pieces[1].swapaxes(1, 2), axis=0) + a[:, whole:] @ b[:, whole:].T
    return total / particles


def _combined(coefficients: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Coefficients (k, m) times rows (m, S)."""
    whole = rows.shape[1] // PIECE * PIECE
    pieces = rows[:, :whole].reshape(len(rows), -1, PIECE).swapaxes(0, 1)
    first = (coefficients @ pieces).swapaxes(0, 1).reshape(len(coefficients), whole)
    return np.concatenate([first, coefficients @ rows[:, whole:]], axis=1)
