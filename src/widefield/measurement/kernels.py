"""Kernels from recorded activity, neuron by neuron, free of trial noise.

With R trials x_ia = φ_i + ε_ia of stimulus i, and noise that is independent from trial to trial,

    k_ij = Σ_{a≠b} x_ia x_jb / (R(R−1))

has mean φ_iφ_j for every pair, i = j included: no product has two factors of one trial. Its mean over M neurons is the
kernel Φ_ij, and its scatter over neurons gives the standard error, √(Σ_n (k_n − Φ)²/(M(M−1))): neurons differ from each
other and each has noise of its own, so this counts both. Noise that neurons share is not in it.
"""

from __future__ import annotations

import numpy as np


def products(activity: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """k_ij of single neurons for pairs (first, second).

    Activity (stage, stimulus, neuron[, trial]) to (stage, pair, neuron).
    """
    if activity.ndim == 3:
        return activity[:, first] * activity[:, second]
    trials = activity.shape[-1]
    total = activity.sum(-1)
    same = np.einsum("spnr,spnr->spn", activity[:, first], activity[:, second])
    return (total[:, first] * total[:, second] - same) / (trials * (trials - 1))


def noise_variance(activity: np.ndarray) -> np.ndarray:
    """Variance from trial to trial, mean over neurons, (stage, stimulus); 0 where there are no trials."""
    if activity.ndim == 3:
        return np.zeros(activity.shape[:2])
    return activity.var(-1, ddof=1).mean(-1)


def pairs_of(kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The entries of a symmetric kernel that are used: i ≤ j, or i < j for dissimilarities."""
    return np.triu_indices(count, 0 if kind == "kernel" else 1)


def dissimilarity_map(count: int) -> np.ndarray:
    """The matrix that takes Φ_ij, i ≤ j, to d_ij = Φ_ii + Φ_jj − 2Φ_ij, i < j."""
    rows, columns = np.triu_indices(count)
    place = np.zeros((count, count), int)
    place[rows, columns] = np.arange(len(rows))
    first, second = np.triu_indices(count, 1)
    out, row = np.zeros((len(first), len(rows))), np.arange(len(first))
    out[row, place[first, first]] = 1.0
    out[row, place[second, second]] = 1.0
    out[row, place[first, second]] = -2.0
    return out


def unfold(features: np.ndarray, kind: str, count: int) -> np.ndarray:
    """(…, pair) to symmetric matrices (…, count, count)."""
    first, second = pairs_of(kind, count)
    out = np.zeros((*features.shape[:-1], count, count))
    out[..., first, second] = features
    out[..., second, first] = features
    return out
