"""Weighted fit of m + b/N through networks of several widths, with infinite width as the anchor.

Means of n_i networks of width N_i have variance C/(N_i n_i), the anchor has its own standard error s. Both are known up
to C, which is pooled over widths: C = Σ_i N_i Σ_k (q_ik − q̄_i)² / Σ_i (n_i − 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..results.statistics import ROUNDING, Moments


class Line(NamedTuple):
    """m + b/N of every entry, what fluctuates around it, and how well both are known.

    `spread` is (var m, cov(m, b), var b); `anchor_share` are the coefficients with which the anchor enters m and b.
    """

    mean: np.ndarray
    shift: np.ndarray
    variance: np.ndarray  # C
    spread: tuple[np.ndarray, np.ndarray, np.ndarray]
    anchor_error: np.ndarray
    anchor_share: tuple[np.ndarray, np.ndarray]
    freedom: int  # of C
    anchor_freedom: float

    @property
    def variance_error(self) -> np.ndarray:
        """Standard error of C for Gaussian fluctuations."""
        return self.variance * np.sqrt(2 / self.freedom)

    def at(self, width: float) -> Prediction:
        """Mean at a width, its standard error with Satterthwaite's degrees of freedom, and C/N."""
        var_m, cov, var_b = self.spread
        total = np.maximum(var_m + 2 * cov / width + var_b / width**2, 0)
        share = self.anchor_share[0] + self.anchor_share[1] / width
        of_anchor = np.minimum((share * self.anchor_error) ** 2, total)
        return Prediction(
            self.mean + self.shift / width, total, of_anchor, self.variance / width, self.freedom, self.anchor_freedom
        )


class Prediction(NamedTuple):
    """A mean, the variance of its estimate (and the anchor's part of it), and the variance from network to network."""

    mean: np.ndarray
    error_squared: np.ndarray
    of_anchor: np.ndarray
    variance: np.ndarray
    freedom: float
    anchor_freedom: float

    def degrees(self, network: bool) -> np.ndarray:
        """Satterthwaite's degrees of freedom of the error, of a single network's value if `network`."""
        scattered = self.error_squared - self.of_anchor + (self.variance if network else 0)
        whole = scattered + self.of_anchor
        squares = scattered**2 / self.freedom
        if np.isfinite(self.anchor_freedom) and self.anchor_freedom > 0:
            squares = squares + self.of_anchor**2 / self.anchor_freedom
        return np.where(squares > 0, whole**2 / np.where(squares > 0, squares, 1.0), self.freedom)


def pooled_variance(groups: Mapping[int, np.ndarray]) -> tuple[np.ndarray, int]:
    """C of every entry and its degrees of freedom, from runs (n_i, …) by width; 0 where entries do not vary."""
    freedom = sum(len(runs) - 1 for runs in groups.values())
    total = sum(width * np.sum((runs - runs.mean(0)) ** 2, axis=0) for width, runs in groups.items())
    scale = max(float(np.max(np.abs(runs), initial=0.0)) for runs in groups.values())
    found = np.asarray(total / freedom)
    return np.where(found <= min(groups) * (ROUNDING * scale) ** 2, 0.0, found), freedom


def fit_line(anchor: Moments, groups: Mapping[int, np.ndarray]) -> Line:
    """Least squares for (m, b) of every entry; O(entries·networks)."""
    variance, freedom = pooled_variance(groups)
    error = np.where(np.isnan(anchor.error), 0.0, anchor.error)
    ratio = np.divide(error**2, variance, out=np.zeros_like(variance), where=variance > 0)
    widths = np.array(list(groups), float)
    weights = widths * np.array([len(runs) for runs in groups.values()])
    means = [runs.mean(0) for runs in groups.values()]
    zeroth, first, second = (float(np.sum(weights / widths**power)) for power in range(3))
    sum_zeroth = sum(w * q for w, q in zip(weights, means, strict=True))
    sum_first = sum(w / n * q for w, n, q in zip(weights, widths, means, strict=True))
    # The normal equations, multiplied by the anchor's variance, so that an exact anchor is no special case.
    determinant = (1 + ratio * zeroth) * second - ratio * first**2
    pulled = anchor.mean + ratio * sum_zeroth
    mean = (second * pulled - ratio * first * sum_first) / determinant
    shift = ((1 + ratio * zeroth) * sum_first - first * pulled) / determinant
    spread = (
        error**2 * second / determinant,
        -(error**2) * first / determinant,
        variance * (1 + ratio * zeroth) / determinant,
    )
    # An entry that does not vary between networks gives ratio 0, and the anchor's error goes into b as well.
    fixed = variance == 0
    spread = (spread[0], spread[1], np.where(fixed, (error * first) ** 2 / second**2, spread[2]))
    shares = (second / determinant, -first / determinant)
    return Line(mean, shift, variance, spread, error, shares, freedom, anchor.freedom)
