"""Covariances of observed kernels: neurons, trial noise and finite width.

A kernel averaged over M of N neurons of one network fluctuates for three reasons:

    (1/M − 1/N) V      which neurons were recorded, V the covariance of φ_iφ_j over neurons
    C/N                from network to network
    trial noise        of variance σ² in R trials, in closed form below
"""

from __future__ import annotations

import numpy as np

from ..measurement.kernels import dissimilarity_map, pairs_of


def noise_covariance(kernel: np.ndarray, noise: np.ndarray, trials: int, kind: str) -> np.ndarray:
    """M × covariance of cross-validated kernels given the neurons, for noise independent between stimuli and trials.

        Cov(k_ij, k_kl) = (σ_i²/R)(δ_ik Φ_jl + δ_il Φ_jk) + (σ_j²/R)(δ_jk Φ_il + δ_jl Φ_ik)
                          + σ_i²σ_j²/(R(R−1)) (δ_ik δ_jl + δ_il δ_jk)

    `kernel` (P, P) and `noise` σ² (P,) of one stage and layer, to (pair, pair).
    """
    count = len(kernel)
    first, second = pairs_of("kernel", count)
    i, j, k, l = first[:, None], second[:, None], first[None], second[None]  # noqa: E741
    single = noise[i] * ((i == k) * kernel[j, l] + (i == l) * kernel[j, k])
    single = single + noise[j] * ((j == k) * kernel[i, l] + (j == l) * kernel[i, k])
    double = noise[i] * noise[j] * ((i == k) & (j == l)).astype(float)
    double = double + noise[i] * noise[j] * ((i == l) & (j == k))
    found = single / trials + double / (trials * (trials - 1))
    if kind == "rdm":
        change = dissimilarity_map(count)
        found = change @ found @ change.T
    return found


def shrink(factors: np.ndarray, target: np.ndarray, scale: float | None = None) -> tuple[float, float]:
    """How much of a sample covariance FᵀF, F (runs, k), to replace by `scale` times `target`.

    As in Schäfer and Strimmer (2005). Returns λ and α of (1−λ)·FᵀF + λ·α·target, with
    λ = Σ Var(c_ij)/Σ (c_ij − α t_ij)² in units in which target is 1. Without `scale`, α makes the traces equal.
    """
    count = len(factors)
    size = np.trace(target)
    if not size > 0:
        return 0.0, 0.0
    ridge = 1e-9 * size / len(target) * np.eye(len(target))
    white = np.linalg.solve(np.linalg.cholesky(target + ridge), factors.T).T * np.sqrt(count)
    mean = white.T @ white / count
    alpha = float(np.trace(mean) / len(mean)) if scale is None else scale
    # Σ_ij Var(c_ij): the squares of products are products of squares.
    squares = np.sum(np.sum(white**2, axis=1) ** 2) / count
    noise = float((squares - np.sum(mean**2)) / (count - 1))
    apart = float(np.sum((mean - alpha * np.eye(len(mean))) ** 2))
    return (1.0 if apart <= noise else max(noise, 0.0) / apart), alpha


def scatter(single: np.ndarray) -> np.ndarray:
    """Covariance over neurons, the last axis."""
    return np.atleast_2d(np.cov(single))
