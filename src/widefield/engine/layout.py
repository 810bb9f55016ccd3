"""How samples and positions become rows of questions: nothing to do for an MLP, im2col for a CNN."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..problem.networks import CNN, MLP, Network


@dataclass(frozen=True)
class Layout:
    """Spatial structure of a layer; an MLP has one position and one offset.

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
        return int(np.prod(self.grid)) if self.grid else 1

    @property
    def offsets(self) -> int:
        return (2 * self.reach + 1) ** len(self.grid)

    @property
    def readout_positions(self) -> int:
        return 1 if self.pooled else self.positions

    def neighbours(self) -> np.ndarray:
        """Index of position a+b for each position a and offset b, (positions, offsets); −1 is outside."""
        if not self.grid:
            return np.zeros((1, 1), int)
        places = np.stack(np.unravel_index(np.arange(self.positions), self.grid), axis=1)
        steps = np.array(list(itertools.product(range(-self.reach, self.reach + 1), repeat=len(self.grid))))
        moved = places[:, None, :] + steps[None]
        size = np.array(self.grid)
        inside = np.all((moved >= 0) & (moved < size), axis=-1)
        index = np.asarray(np.ravel_multi_index(tuple(np.moveaxis(moved % size, -1, 0)), self.grid))
        return index if self.circular else np.where(inside, index, -1)

    def unfold(self, field: Array) -> Array:
        """(P, positions, n) to question rows (P·positions, offsets·n)."""
        points, _, n = field.shape
        if not self.grid:
            return field.reshape(points, n)
        index = self.neighbours()
        patches = jnp.where((index >= 0)[None, :, :, None], field[:, np.maximum(index, 0)], 0.0)
        return patches.reshape(points * self.positions, self.offsets * n)

    def fold(self, rows: Array, n: int) -> Array:
        """Transpose of `unfold`: answer rows (K·positions, offsets·n) to (K, positions, n)."""
        if not self.grid:
            return rows.reshape(-1, 1, n)
        index = self.neighbours()
        parts = rows.reshape(-1, self.positions, self.offsets, n)
        parts = jnp.where((index >= 0)[None, :, :, None], parts, 0.0)
        folded = jnp.zeros((parts.shape[0], self.positions, n), rows.dtype)
        return folded.at[:, np.maximum(index, 0)].add(parts)


def make_layout(network: Network, shape: tuple[int, ...]) -> Layout:
    """The layout for inputs of `shape` (P, D) or (P, positions…, channels)."""
    if isinstance(network, MLP):
        return Layout()
    assert isinstance(network, CNN)
    return Layout(shape[1:-1], network.filter // 2, network.padding == "circular", network.readout == "pool")


def input_coordinates(layout: Layout, x: np.ndarray) -> np.ndarray:
    """Rows x̂ (P·positions, r) with x̂x̂ᵀ = Φ⁰ of all input patches, directions of most variance first.

    W⁰ acts only on the span of the data, so r ≤ min(P·positions, offsets·D) Gaussian columns have its exact law.
    """
    channels = x.shape[-1]
    patches = np.asarray(layout.unfold(jnp.asarray(x.reshape(len(x), layout.positions, channels))))
    u, s, _ = np.linalg.svd(patches / np.sqrt(channels), full_matrices=False)
    rank = max(1, int(np.sum(s > s[0] * 1e-13))) if s[0] > 0 else 1
    return u[:, :rank] * s[:rank]
