"""Gaussian points in `DIMENSIONS` dimensions whose moments up to the fourth are those of the normal law, nearly.

Averages of kernels are polynomials of low degree in the first Gaussians of a population, for the most part: matching
takes care of the second degree, these points of the third and fourth. Sobol points do not in so many dimensions; there
they are no better than independent ones. `benchmarks/cubature.py` makes the points, which are kept in a file.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

PLACE = Path(__file__).with_suffix(".npy")
DIMENSIONS, POINTS = 28, 1024


def cubature_normals(seed: list[int], sets: int) -> np.ndarray:
    """`sets` times the points, turned at random each, in random order: (DIMENSIONS, sets · POINTS).

    Deviations of moments do not change as points turn. Radii have the law of a normal vector's, so that every point is
    one, and sets are independent. The order is random because a particle has other Gaussians besides.
    """
    rng = np.random.default_rng([*seed, 2])
    turned = []
    for _ in range(sets):
        q, r = np.linalg.qr(rng.standard_normal((DIMENSIONS, DIMENSIONS)))
        turned.append((q * np.sign(np.diag(r))) @ points()[:, rng.permutation(POINTS)])
    return np.concatenate(turned, axis=1)


@lru_cache(maxsize=1)
def points() -> np.ndarray:
    """The points of the file, (DIMENSIONS, POINTS), with mean 0 and covariance 1 to rounding."""
    return whitened(np.load(PLACE).astype(np.float64))


def whitened(rows: np.ndarray) -> np.ndarray:
    """Rows made mean-free and orthonormal, ⟨a,b⟩ = a·b/points."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    factor = np.linalg.cholesky(centred @ centred.T / centred.shape[1])
    return np.linalg.solve(factor, centred)
