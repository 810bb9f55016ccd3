"""What positions do to kernels (App. C.2): an MLP has one, a CNN sums patches over its filter.

Pairs of points come in arrays (batch, rows, columns). The batch runs over equal positions a = b where only they matter
(MLP: one; readout with a weight per position: gradients at different positions stay uncorrelated). With average pooling
all pairs of positions matter: one batch, rows (points·positions), columns (points·positions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from ...problem.networks import MLP, Network


@dataclass(frozen=True)
class Geometry:
    """Positions of a network's input: `shape` is () for an MLP, (positions,) or (height, width) for a CNN."""

    shape: tuple[int, ...]
    filter: int
    circular: bool
    pooled: bool

    @property
    def positions(self) -> int:
        return math.prod(self.shape)

    @property
    def entries(self) -> int:
        """Numbers kept per pair of points."""
        return self.positions**2 if self.pooled else self.positions

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Inputs as (batch, rows, channels), divided by √channels."""
        x = x.reshape(len(x), self.positions, x.shape[-1]) / math.sqrt(x.shape[-1])
        return x.reshape(1, -1, x.shape[-1]) if self.pooled else np.moveaxis(x, 1, 0)

    def spread(self, kernel: Array) -> Array:
        """Σ_b K_{a+b, a'+b} over the filter's offsets b: (batch, rows, columns) to the same."""
        if not self.shape:
            return kernel
        batch, rows, columns = kernel.shape
        d = len(self.shape)
        if not self.pooled:
            spread = self._box(kernel.reshape(*self.shape, rows, columns), tuple((axis,) for axis in range(d)))
            return spread.reshape(batch, rows, columns)
        points, points_ = rows // self.positions, columns // self.positions
        pairs = tuple((1 + axis, 2 + d + axis) for axis in range(d))
        return self._box(kernel.reshape(points, *self.shape, points_, *self.shape), pairs).reshape(batch, rows, columns)

    def spread_points(self, values: Array) -> Array:
        """The same for one number per point and position, (batch, rows), which are the kernel's equal pairs."""
        if not self.shape:
            return values
        batch, rows = values.shape
        d = len(self.shape)
        if not self.pooled:
            return self._box(values.reshape(*self.shape, rows), tuple((axis,) for axis in range(d))).reshape(
                batch, rows
            )
        shaped = values.reshape(rows // self.positions, *self.shape)
        return self._box(shaped, tuple((1 + axis,) for axis in range(d))).reshape(batch, rows)

    def _box(self, array: Array, axes: tuple[tuple[int, ...], ...]) -> Array:
        for together in axes:
            array = sum((self._shift(array, together, b) for b in self._offsets()), jnp.zeros_like(array))
        return array

    def _offsets(self) -> range:
        return range(-(self.filter // 2), self.filter // 2 + 1)

    def _shift(self, array: Array, axes: tuple[int, ...], by: int) -> Array:
        shifted = jnp.roll(array, [-by] * len(axes), axes)
        if self.circular or by == 0:
            return shifted
        for axis in axes:
            size = array.shape[axis]
            inside = (jnp.arange(size) + by >= 0) & (jnp.arange(size) + by < size)
            shifted = shifted * inside.reshape([-1 if k == axis else 1 for k in range(array.ndim)])
        return shifted

    @property
    def readout(self) -> float:
        """G^{L+1}: covariance of the readout's pull on two positions."""
        return 1.0 / self.positions**2 if self.pooled else 1.0

    def collect(self, kernel: Array) -> Array:
        """Sum over positions: (batch, rows, columns) to (points, points')."""
        if not self.pooled:
            return kernel.sum(0)
        a = self.positions
        return kernel.reshape(kernel.shape[1] // a, a, kernel.shape[2] // a, a).sum((1, 3))

    def labelled(self, kernel: Array) -> Array:
        """As handed out: (P, P') for an MLP, (P, P', *positions) with a weight per position, (P, P', *a, *b) pooled."""
        if not self.shape:
            return kernel[0]
        if not self.pooled:
            return jnp.moveaxis(kernel, 0, -1).reshape(*kernel.shape[1:], *self.shape)
        a = self.positions
        parts = kernel.reshape(kernel.shape[1] // a, a, kernel.shape[2] // a, a).transpose(0, 2, 1, 3)
        return parts.reshape(*parts.shape[:2], *self.shape, *self.shape)


def geometry_of(network: Network, x: np.ndarray) -> Geometry:
    if isinstance(network, MLP):
        return Geometry((), 1, True, False)
    return Geometry(x.shape[1:-1], network.filter, network.padding == "circular", network.readout == "pool")
