"""What positions do to fields and kernels (App. C.2): an MLP has one, a CNN sums patches over its filter."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array


@dataclass(frozen=True)
class Layout:
    """Spatial structure of a layer; an MLP has one position and one offset.

    Fields of single neurons become questions by `unfold`, and answers fields by `fold`. Kernels come in arrays
    (batch, rows, columns). The batch runs over equal positions a = b where only they matter (MLP: one; readout with a
    weight per position: gradients at different positions stay uncorrelated). With average pooling all pairs of
    positions matter: one batch, rows (points·positions), columns (points·positions).

    Attributes:
        grid: positions per spatial direction, () for an MLP.
        reach: the filter spans offsets −reach … reach in each direction.
        circular: padding; zero otherwise.
        pooled: the readout averages over positions.
    """

    grid: tuple[int, ...] = ()
    reach: int = 0
    circular: bool = True
    pooled: bool = False

    @property
    def positions(self) -> int:
        return math.prod(self.grid)

    @property
    def offsets(self) -> int:
        return (2 * self.reach + 1) ** len(self.grid)

    @property
    def readout_positions(self) -> int:
        return 1 if self.pooled else self.positions

    # Fields

    def neighbours(self) -> np.ndarray:
        """Index of position a+b for each position a and offset b, (positions, offsets); −1 is outside."""
        if not self.grid:
            return np.zeros((1, 1), int)
        places = np.stack(np.unravel_index(np.arange(self.positions), self.grid), axis=1)
        steps = np.array(list(itertools.product(self._steps(), repeat=len(self.grid))))
        moved = places[:, None, :] + steps[None]
        size = np.array(self.grid)
        inside = np.all((moved >= 0) & (moved < size), axis=-1)
        index = np.asarray(np.ravel_multi_index(tuple(np.moveaxis(moved % size, -1, 0)), self.grid))
        return index if self.circular else np.where(inside, index, -1)

    def unfold(self, field: Any) -> Any:
        """(P, positions, n) to question rows (P·positions, n·offsets); NumPy or JAX.

        Offsets vary fastest, so that a share of the neurons is a contiguous share of a row.
        """
        points, _, n = field.shape
        if not self.grid:
            return field.reshape(points, n)
        index = self.neighbours()
        patches = jnp.where((index >= 0)[None, :, :, None], field[:, np.maximum(index, 0)], 0.0)
        return jnp.swapaxes(patches, 2, 3).reshape(points * self.positions, n * self.offsets)

    def fold(self, rows: Array, n: int) -> Array:
        """Transpose of `unfold`: answer rows (K·positions, n·offsets) to (K, positions, n)."""
        if not self.grid:
            return rows.reshape(-1, 1, n)
        index = self.neighbours()
        parts = jnp.swapaxes(rows.reshape(-1, self.positions, n, self.offsets), 2, 3)
        parts = jnp.where((index >= 0)[None, :, :, None], parts, 0.0)
        folded = jnp.zeros((parts.shape[0], self.positions, n), rows.dtype)
        return folded.at[:, np.maximum(index, 0)].add(parts)

    def pool(self, phi: Array) -> Array:
        """What the readout sees, (samples, readout positions, n)."""
        return phi.mean(1, keepdims=True) if self.pooled else phi

    def unpool(self, vector: Array) -> Array:
        """Transpose of `pool`: a readout-like vector (C, readout positions, n) at every position."""
        if not self.pooled:
            return vector
        return jnp.broadcast_to(vector / self.positions, (len(vector), self.positions, vector.shape[-1]))

    # Kernels

    @property
    def entries(self) -> int:
        """Numbers kept per pair of points."""
        return self.positions**2 if self.pooled else self.positions

    @property
    def readout(self) -> float:
        """G^{L+1}: covariance of the readout's pull on two positions."""
        return 1.0 / self.positions**2 if self.pooled else 1.0

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Inputs (P, positions, D) as (batch, rows, D), divided by √D."""
        x = x / math.sqrt(x.shape[-1])
        return x.reshape(1, -1, x.shape[-1]) if self.pooled else np.moveaxis(x, 1, 0)

    def spread(self, kernel: Array) -> Array:
        """Σ_b K_{a+b, a'+b} over the filter's offsets b: (batch, rows, columns) to the same."""
        if not self.grid:
            return kernel
        batch, rows, columns = kernel.shape
        d = len(self.grid)
        if not self.pooled:
            spread = self._box(kernel.reshape(*self.grid, rows, columns), tuple((axis,) for axis in range(d)))
            return spread.reshape(batch, rows, columns)
        points, points_ = rows // self.positions, columns // self.positions
        pairs = tuple((1 + axis, 2 + d + axis) for axis in range(d))
        return self._box(kernel.reshape(points, *self.grid, points_, *self.grid), pairs).reshape(batch, rows, columns)

    def spread_points(self, values: Array) -> Array:
        """The same for one number per point and position, (batch, rows), which are the kernel's equal pairs."""
        if not self.grid:
            return values
        batch, rows = values.shape
        d = len(self.grid)
        if not self.pooled:
            spread = self._box(values.reshape(*self.grid, rows), tuple((axis,) for axis in range(d)))
            return spread.reshape(batch, rows)
        shaped = values.reshape(rows // self.positions, *self.grid)
        return self._box(shaped, tuple((1 + axis,) for axis in range(d))).reshape(batch, rows)

    def collect(self, kernel: Array) -> Array:
        """Sum over positions: (batch, rows, columns) to (points, points')."""
        if not self.pooled:
            return kernel.sum(0)
        a = self.positions
        return kernel.reshape(kernel.shape[1] // a, a, kernel.shape[2] // a, a).sum((1, 3))

    def labelled(self, kernel: Array) -> Array:
        """As handed out: (P, P') for an MLP, (P, P', *positions) with a weight per position, (P, P', *a, *b) pooled."""
        if not self.grid:
            return kernel[0]
        if not self.pooled:
            return jnp.moveaxis(kernel, 0, -1).reshape(*kernel.shape[1:], *self.grid)
        a = self.positions
        parts = kernel.reshape(kernel.shape[1] // a, a, kernel.shape[2] // a, a).transpose(0, 2, 1, 3)
        return parts.reshape(*parts.shape[:2], *self.grid, *self.grid)

    def _steps(self) -> range:
        return range(-self.reach, self.reach + 1)

    def _box(self, array: Array, axes: tuple[tuple[int, ...], ...]) -> Array:
        for together in axes:
            array = sum((self._shift(array, together, b) for b in self._steps()), jnp.zeros_like(array))
        return array

    def _shift(self, array: Array, axes: tuple[int, ...], by: int) -> Array:
        shifted = jnp.roll(array, [-by] * len(axes), axes)
        if self.circular or by == 0:
            return shifted
        for axis in axes:
            size = array.shape[axis]
            inside = (jnp.arange(size) + by >= 0) & (jnp.arange(size) + by < size)
            shifted = shifted * inside.reshape([-1 if k == axis else 1 for k in range(array.ndim)])
        return shifted
