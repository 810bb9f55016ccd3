"""Quasi-random normal numbers: cubature points and scrambled Sobol points."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from .cubature import DIMENSIONS, POINTS, cubature_normals
from .sobol_points import scrambled_points

MOST_DIRECTIONS = 64
MOST_CUBATURE = 4096  # particles; the gain over Sobol points falls with their number, and was not measured beyond


def quasi_normals(
    seed: int, runs: range, layers: int, directions: int, particles: int, dtype: str, *, joint: bool = False
) -> np.ndarray:
    """Independent quasi-random normals, (runs, layers, directions, particles); a run's depend on its number only.

    The first directions are those of cubature points where there are particles for a set of them and at least as many
    directions as they have dimensions; with fewer Sobol points are better (measured: the two are equal at six points).
    All others are scrambled Sobol points.

    Two scramblings of a sequence are functions of each other, particle by particle. Where particle i of one layer meets
    particle i of another (`joint`, residual connections), layers must be different dimensions of one sequence.
    """
    out = np.empty((len(runs), layers, directions, particles), dtype)
    for index, run in enumerate(runs):
        if joint:
            together = sobol_normals([seed, run], layers * directions, particles)
            # Every layer's first directions, which carry most of its variance, are among the first dimensions.
            out[index] = together.reshape(directions, layers, particles).swapaxes(0, 1)
        else:
            for layer in range(layers):
                out[index, layer] = sobol_normals([seed, run, layer], directions, particles)
                if directions >= DIMENSIONS and POINTS <= particles <= MOST_CUBATURE:
                    turned = cubature_normals([seed, run, layer], particles // POINTS)
                    out[index, layer, :DIMENSIONS, : turned.shape[1]] = turned
    return out


def sobol_normals(seed: list[int], directions: int, particles: int) -> np.ndarray:
    """One scrambled sequence as normals, (directions, particles)."""
    points = scrambled_points(seed, directions, particles)
    tiny = np.finfo(np.float64).eps
    return ndtri(np.clip(points, tiny, 1 - tiny))
