"""How many directions the first questions of a run have, by a pilot: fields of a wide network at its start, in NumPy.

What a run comes to need follows from this far better than from the number of points: a hundred digits share directions,
a hundred random points do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np

from ..precision import enable_x64
from ..problem.activations import Activation
from .state import Inputs, Spec

NEURONS = 1024
MOST_ROWS = 256  # of a question; more share the directions of these
LOOKED_AT = 32  # rows that the next direction is looked for in, as the engine does
RANGE, STEP = 8.0, 1 / 128  # of the table in which jumps of φ̇ are looked for
JUMPS = 10.0  # mean square of the slope of φ̇ in that table: about 100 for ReLU, whose φ̇ jumps, 1 where it is smooth


class Pilot(NamedTuple):
    """Directions of the first questions, forward and backward, about every hidden matrix, and whether φ̇ jumps."""

    directions: tuple[tuple[int, int], ...]
    jumps: bool


def pilot(spec: Spec, inputs: Inputs, points: int) -> Pilot | None:
    """Of `points` points and all test points; None where a matrix is asked about several positions or frames.

    Another ρ, richness, dt or seed changes nothing, and other data of the same kind little, so that runs share the
    buffers that are made by it. Cost O(rows²·neurons) per layer, once per data set.
    """
    if spec.wiring.layout.positions > 1 or not spec.wiring.feed_forward:
        return None
    x = np.asarray(inputs.x).astype(np.float64)[0]  # indexed by JAX it would be compiled
    x = np.concatenate([x[:points], x[len(inputs.y) :]])
    x = x[:: -(-len(x) // MOST_ROWS)]
    tolerances = float(inputs.tolerance), float(inputs.tolerance_back)
    return _pilot(spec.activation, spec.wiring.matrices, tolerances, x.shape, x.tobytes())


@lru_cache(maxsize=64)
def _pilot(
    activation: Activation, matrices: int, tolerances: tuple[float, float], shape: tuple[int, ...], data: bytes
) -> Pilot:
    x, rng = np.frombuffer(data).reshape(shape), np.random.default_rng(0)
    h, features = [x @ rng.standard_normal((shape[1], NEURONS))], []
    for _ in range(matrices):
        features.append(_interpolated(activation, h[-1], 0))
        h.append(_gaussian(features[-1], rng))
    z, gradients = rng.standard_normal((1, NEURONS)), []
    for field in reversed(h[1:]):
        gradients.append(_interpolated(activation, field, 1) * z)
        z = _gaussian(gradients[-1], rng)
    ahead, back = tolerances
    directions = tuple(
        (_directions(asked, ahead), _directions(taught, back))
        for asked, taught in zip(features, reversed(gradients), strict=True)
    )
    return Pilot(directions, jumps(activation))


def jumps(activation: Activation) -> bool:
    """Whether φ̇ jumps: gradients then have many small directions."""
    grid, _, phi_dot = _table(activation, RANGE)
    density = np.exp(-(grid[1:] ** 2) / 2) / np.sqrt(2 * np.pi)
    return bool(np.sum((np.diff(phi_dot) / STEP) ** 2 * density) * STEP > JUMPS)


def _interpolated(activation: Activation, field: np.ndarray, derivative: int) -> np.ndarray:
    """φ or φ̇ of a field, from a table: JAX would compile for every shape."""
    grid, *values = _table(activation, float(np.max(np.abs(field), initial=1.0)))
    return np.interp(field, grid, values[derivative])


def _table(activation: Activation, reach: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A grid, φ and φ̇."""
    grid = np.linspace(-reach, reach, round(2 * RANGE / STEP) + 1)
    with enable_x64(True):
        phi, phi_dot = _compiled(activation)(grid)
    return grid, np.asarray(phi), np.asarray(phi_dot)


@lru_cache(maxsize=64)
def _compiled(activation: Activation) -> Callable[[np.ndarray], tuple[jax.Array, jax.Array]]:
    return jax.jit(lambda h: (activation.phi(h), activation.phi_dot(h)))


def _gaussian(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Fields W(0)·rows of as many neurons: Gaussians with the kernel of the rows."""
    values, vectors = np.linalg.eigh(rows @ rows.T / rows.shape[1])
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ rng.standard_normal((len(rows), NEURONS))


def _directions(rows: np.ndarray, tolerance: float) -> int:
    """Directions after which less than `tolerance` of every row is left, in the steps of a geometric ladder."""
    size = np.sqrt(np.mean(rows**2, axis=1, keepdims=True))
    unit = rows / np.where(size > 0, size, 1.0)
    gram, count = unit @ unit.T / rows.shape[1], 0
    while count < len(rows) and np.max(np.diag(gram)) > tolerance**2:
        chosen = np.argsort(np.diag(gram))[-LOOKED_AT:]
        values, vectors = np.linalg.eigh(gram[np.ix_(chosen, chosen)])
        along = gram[:, chosen] @ vectors[:, -1] / np.sqrt(values[-1])
        gram, count = gram - np.outer(along, along), count + 1
    return min(len(rows), _class(count))


def _class(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 11, 15, 20, 27, …: data that differ by chance have the same."""
    size = 1
    while size < count:
        size = max(size + 1, round(1.35 * size))
    return size
