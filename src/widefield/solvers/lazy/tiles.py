"""Tiles: kernels in pieces that fit into memory, each pair computed once."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import numpy as np

from ...errors import MemoryBudgetError, require_integer
from ...progress import Reporter
from .prepare import Prepared

# Points per side: large enough for fast loops, small enough that a tile's layers stay near the processor.
TILE = 256

Tile = tuple[int, int]
Kernels = dict[str, np.ndarray]


def output_shapes(prepared: Prepared) -> dict[str, tuple[int, ...]]:
    """Shapes of the whole kernels."""
    n, m = prepared.counts
    layout, depth = prepared.wiring.layout, prepared.network.depth
    positions = layout.grid * (2 if layout.pooled else 1)
    shapes = {}
    for name in sorted(prepared.outputs):
        extra = {"entk": (n, m), "parts": (depth + 1, n, m)}
        shapes[name] = extra.get(name, (depth, n, m, *positions))
    return shapes


def _tile_bytes(prepared: Prepared, size: int) -> int:
    """Working memory of a tile: Φ, Φ̇, ρ, G, G̃ and patches per layer, and as much again for what is handed out."""
    arrays = 9 * prepared.network.depth + 8
    return 8 * size**2 * prepared.wiring.layout.entries * arrays


def _output_bytes(prepared: Prepared) -> int:
    return 8 * sum(math.prod(shape) for shape in output_shapes(prepared).values())


def _point_bytes(prepared: Prepared) -> int:
    sides = 1 if prepared.one_set else 2
    held = jax.tree.leaves((prepared.rows[:sides], prepared.sides[:sides]))
    return sum(array.nbytes for array in held)


def check_budget(prepared: Prepared, memory_budget: int | None, stored: bool) -> None:
    """Raise before any work if the kernels cannot fit, whatever the tile."""
    if memory_budget is None:
        return
    require_integer("memory_budget", memory_budget, 1)
    fixed = _point_bytes(prepared) + (0 if stored else _output_bytes(prepared))
    needed = fixed + _tile_bytes(prepared, 1)
    if needed > memory_budget:
        raise MemoryBudgetError(
            f"memory_budget is {memory_budget:,} bytes, but {needed:,} are needed; raise it, ask for fewer outputs=, "
            "or write to disk with store="
        )


def choose_tile(prepared: Prepared, memory_budget: int | None, stored: bool) -> int:
    """Points per side of a tile: TILE, or what the budget and a CNN's positions leave."""
    largest = max(prepared.counts)
    comfortable = max(int(TILE / math.sqrt(prepared.wiring.layout.entries)), 8)
    size = min(comfortable, largest)
    if memory_budget is not None:
        left = memory_budget - _point_bytes(prepared) - (0 if stored else _output_bytes(prepared))
        size = min(size, max(math.isqrt(max(left // _tile_bytes(prepared, 1), 1)), 1))
    # Even shares leave no sliver at the end that costs as much as a full tile.
    return math.ceil(largest / math.ceil(largest / size))


def tile_starts(prepared: Prepared, size: int) -> list[Tile]:
    """Corners of all tiles that have to be computed."""
    n, m = prepared.counts
    starts = [(i, j) for i in range(0, n, size) for j in range(0, m, size)]
    return [(i, j) for i, j in starts if i <= j] if prepared.symmetric else starts


def transposed(prepared: Prepared, name: str, value: np.ndarray) -> np.ndarray:
    """The mirror tile."""
    if name == "entk":
        return value.T
    value = np.swapaxes(value, 1, 2)
    if prepared.wiring.layout.pooled and name != "parts":
        d = len(prepared.wiring.layout.grid)
        order = [0, 1, 2, *range(3 + d, 3 + 2 * d), *range(3, 3 + d)]
        value = value.transpose(order)
    return value


def _symmetrised(prepared: Prepared, tile: Kernels) -> Kernels:
    """A tile on the diagonal as its mean with its mirror image, so that symmetry is exact and not just to rounding."""
    return {name: (value + transposed(prepared, name, value)) / 2 for name, value in tile.items()}


def run_tiles(
    prepared: Prepared, size: int, write: Callable[[Tile, Kernels], None], bar: Reporter, finished: frozenset[Tile]
) -> None:
    """Compute all tiles that are not `finished` and hand each to `write`."""
    starts = tile_starts(prepared, size)
    todo = [start for start in starts if start not in finished]
    total, done = len(starts), len(starts) - len(todo)

    for start in todo:
        tile = prepared.tile(start, (size, size))
        if prepared.symmetric and start[0] == start[1]:
            tile = _symmetrised(prepared, tile)
        write(start, tile)
        done += 1
        bar.update(done, total, "lazy kernels")


def place(prepared: Prepared, arrays: dict, start: Tile, tile: Kernels) -> None:
    """Write a tile, and its mirror image where that is not computed itself."""
    i, j = start
    for name, value in tile.items():
        lead = () if name == "entk" else (slice(None),)
        rows, columns = value.shape[len(lead)], value.shape[len(lead) + 1]
        arrays[name][(*lead, slice(i, i + rows), slice(j, j + columns))] = value
        if prepared.symmetric and i != j:
            mirror = (*lead, slice(j, j + columns), slice(i, i + rows))
            arrays[name][mirror] = transposed(prepared, name, value)


def in_memory(prepared: Prepared, size: int, bar: Reporter) -> Kernels:
    """The whole kernels as NumPy arrays."""
    arrays = {name: np.empty(shape) for name, shape in output_shapes(prepared).items()}
    run_tiles(prepared, size, lambda start, tile: place(prepared, arrays, start, tile), bar, frozenset())
    return arrays
