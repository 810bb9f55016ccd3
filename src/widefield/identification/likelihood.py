"""The likelihood of an observation, summed over gain and time scale.

The covariance is estimated from ν + 1 neurons or networks, so that the likelihood is Student's t rather than a Gaussian
(Sellentin and Heavens 2016): (1 + χ²/ν)^(−(ν+1)/2), with ν = ∞ where it is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from .model import Spread

GAINS = 41  # points, over 5 standard deviations either side


@dataclass(frozen=True)
class Fit:
    """Log evidence of one candidate, and its fitted gain (relative to the model's) and time scale with errors."""

    evidence: float
    gain: float
    gain_error: float
    scale: float
    scale_error: float
    best_gain: float
    best_scale: float
    chi_squared: float


def log_sum(values: np.ndarray, axis: tuple[int, ...] | None = None) -> np.ndarray:
    """log Σ exp(values)."""
    largest = np.max(values, axis=axis, keepdims=True)
    return np.squeeze(largest, axis) + np.log(np.sum(np.exp(values - largest), axis=axis))


def log_density(chi_squared: np.ndarray, spread: Spread) -> np.ndarray:
    """Of an observation at this χ² from the mean."""
    size = len(spread.covariance)
    determinant = np.linalg.slogdet(spread.covariance)[1]
    if not np.isfinite(spread.freedom) or spread.freedom > 1e5:
        return -0.5 * (chi_squared + determinant + size * np.log(2 * np.pi))
    freedom = max(spread.freedom, size + 2.0)
    constant = gammaln((freedom + 1) / 2) - gammaln((freedom + 1 - size) / 2) - size / 2 * np.log(np.pi * freedom)
    return constant - 0.5 * determinant - (freedom + 1) / 2 * np.log1p(chi_squared / freedom)


def fit(value: np.ndarray, means: np.ndarray, scales: np.ndarray, spread: Spread, gain_fixed: bool) -> Fit:
    """Evidence of means (scale, k) for a value (k); gain and time scale have log-uniform priors."""
    solved = np.linalg.solve(spread.covariance, np.concatenate([value[None], means]).T)
    own, with_mean = float(value @ solved[:, 0]), means @ solved[:, 0]
    squares = np.einsum("sk,ks->s", means, solved[:, 1:])
    if gain_fixed:
        gains = np.ones((len(scales), 1))
        weight = np.zeros((len(scales), 1))
    else:
        centre, error = with_mean / squares, 1 / np.sqrt(squares)
        offsets = np.linspace(-5, 5, GAINS)
        gains = np.maximum(centre[:, None] + error[:, None] * offsets, 1e-6)
        weight = np.log(error[:, None] * (offsets[1] - offsets[0])) - np.log(gains)
    chi_squared = np.maximum(own - 2 * gains * with_mean[:, None] + gains**2 * squares[:, None], 0)
    log_weight = log_density(chi_squared, spread) + weight - np.log(len(scales))
    evidence = float(log_sum(log_weight))
    mass = np.exp(log_weight - evidence)
    by_scale = mass.sum(1)
    gain, scale = float(np.sum(mass * gains)), float(by_scale @ scales)
    best = np.unravel_index(np.argmax(log_weight), log_weight.shape)
    return Fit(
        evidence, gain, float(np.sqrt(max(np.sum(mass * gains**2) - gain**2, 0))), scale,
        float(np.sqrt(max(by_scale @ scales**2 - scale**2, 0))), float(gains[best]), float(scales[best[0]]),
        float(chi_squared[best]),
    )  # fmt: skip
