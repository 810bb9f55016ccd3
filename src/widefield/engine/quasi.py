"""Scrambled Sobol points as Gaussian directions (design §3.3)."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

MOST_DIRECTIONS = 64


def quasi_normals(seed: int, runs: int, layers: int, directions: int, particles: int, dtype: str) -> np.ndarray:
    """Independently scrambled Sobol normals, (runs, layers, directions, particles)."""
    out = np.empty((runs, layers, directions, particles), dtype)
    for run in range(runs):
        for layer in range(layers):
            generator = np.random.default_rng([seed, run, layer])
            sobol = qmc.Sobol(directions, scramble=True, rng=generator)
            with warnings.catch_warnings():
                # Balance asks for a power of two; moment matching restores what another count loses.
                warnings.simplefilter("ignore", UserWarning)
                points = sobol.random(particles)
            tiny = np.finfo(np.float64).eps
            out[run, layer] = ndtri(np.clip(points, tiny, 1 - tiny)).T
    return out
