"""Where the fresh Gaussians of a population of neurons come from.

A finite network draws plain ones. The mean-field limit draws them with less noise: the first
directions are quasi-random, and all are matched, that is mean-free, orthonormal, orthogonal to
every earlier Gaussian of the population and to the fields that are conditioned on (design §3.3).
"""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


def project_out(rows: Array, basis: Array, width: int) -> Array:
    """rows minus their projection on the orthonormal rows of `basis`, ⟨a,b⟩ = a·b/width."""
    return rows - (rows @ basis.T / width) @ basis


class Source(eqx.Module):
    """Gaussians of one population, (rows, neurons)."""

    @abc.abstractmethod
    def draw(self, key: Array, rows: int, neurons: int, fields: Array) -> Array:
        """`rows` fresh Gaussians without their part along `fields`, rows orthonormal over (rows, neurons)."""

    @abc.abstractmethod
    def fixed(self, key: Array, rows: int, neurons: int, fields: Array) -> Array:
        """`rows` Gaussians that stay for the whole run, e.g. the readout at initialisation."""

    @abc.abstractmethod
    def take(self, gaussians: Array, count: Array) -> Source:
        """Remember the first `count` of `gaussians` as drawn."""


class Plain(Source):
    """Independent N(0,1) numbers: the exact law of a network of finite width."""

    width: int = eqx.field(static=True)

    def draw(self, key: Array, rows: int, neurons: int, fields: Array) -> Array:
        # Conditioned on W(0)ᵀ·fields, the fresh part of W(0) has no component along the fields.
        return project_out(jax.random.normal(key, (rows, neurons), fields.dtype), fields, self.width)

    def fixed(self, key: Array, rows: int, neurons: int, fields: Array) -> Array:
        return jax.random.normal(key, (rows, neurons), fields.dtype)

    def take(self, gaussians: Array, count: Array) -> Plain:
        return self


class Matched(Source):
    """Quasi-random, moment-matched Gaussians of S particles.

    Attributes:
        basis: (capacity, S) orthonormal rows: the constant, then all Gaussians drawn so far.
        count: how many rows of `basis` are in use.
        quasi: (d, S) quasi-random normal rows; the first `reserved` are for `fixed`.
        used: how many rows of `quasi` are used up.
    """

    basis: Array
    count: Array
    quasi: Array
    used: Array
    reserved: int = eqx.field(static=True)

    @property
    def width(self) -> int:
        return self.basis.shape[1]

    def draw(self, key: Array, rows: int, neurons: int, fields: Array) -> Array:
        # A convolution asks for `neurons` = offsets × S at once; each offset is a Gaussian of its own.
        offsets = neurons // self.width
        raw = self._raw(key, rows * offsets, self.used).reshape(rows, neurons)
        raw = project_out(raw, fields, self.width).reshape(rows * offsets, self.width)
        # The Gaussians come last: to them orthogonality is exact, which solves linear networks exactly.
        return orthonormalise(project_out(raw, self.basis, self.width), self.width).reshape(rows, neurons)

    def fixed(self, key: Array, rows: int, neurons: int, fields: Array) -> Array:
        raw = self._raw(key, rows, self.count * 0)
        raw = project_out(project_out(raw, fields, self.width), self.basis, self.width)
        return orthonormalise(raw, self.width)

    def take(self, gaussians: Array, count: Array) -> Matched:
        rows = gaussians.reshape(-1, self.width)
        count = count * (rows.shape[0] // gaussians.shape[0])
        basis = jax.lax.dynamic_update_slice(self.basis, rows, (self.count, jnp.zeros_like(self.count)))
        return Matched(basis, self.count + count, self.quasi, self.used + count, self.reserved)

    def _raw(self, key: Array, rows: int, start: Array) -> Array:
        plain = jax.random.normal(key, (rows, self.width), self.basis.dtype)
        total = self.quasi.shape[0]
        if total == 0:
            return plain
        index = start + jnp.arange(rows)
        quasi = self.quasi[jnp.minimum(index, total - 1)]
        return jnp.where((index < total)[:, None], quasi, plain)


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
