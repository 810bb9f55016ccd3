"""Means, standard errors and tests of few independent runs: Student's t throughout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

# A standard error this far below the variable's largest value is rounding, not sampling.
ROUNDING = 1e-10
# Entries without sampling error that differ by more than this, in the same unit, differ.
SAME = 1e-9
# Welch's degrees of freedom are themselves estimates. Measured over ratios of variances: p-values of 10⁻⁵ come up to 4
# times too often where the smaller group has 12 runs, 12 times with 8 and 90 times with 4.
FEWEST = 12


class Moments(NamedTuple):
    """Mean and standard error of an array over independent runs.

    `freedom` is the number of runs − 1: ∞ for an exact value, 0 for a single run, NaN where it is not known.
    """

    mean: np.ndarray
    error: np.ndarray
    freedom: float


class Agreement(NamedTuple):
    """Smallest two-sided p-value over the entries of two arrays, and how many entries were tested."""

    smallest: float
    entries: int

    @property
    def chance(self) -> float:
        """Bound on the probability of a deviation as large if all means were equal (Bonferroni)."""
        return min(1.0, self.smallest * self.entries)


def moments_of(runs: np.ndarray) -> Moments:
    """Mean and standard error over the first axis, run by run: the temporary arrays are as large as one run."""
    count = len(runs)
    mean = runs.mean(0)
    if count == 1:
        return Moments(mean, np.full_like(mean, np.nan), 0)
    square = np.zeros_like(mean)
    for run in runs:
        square += (run - mean) ** 2
    return Moments(mean, np.sqrt(square / (count - 1)) / np.sqrt(count), count - 1)


def exactly(value: np.ndarray) -> Moments:
    """A value without sampling error."""
    return Moments(value, np.zeros_like(value), np.inf)


class Difference(NamedTuple):
    """Entries of a − b: the gap, its standard error (0 where it is below rounding) and whether it exceeds rounding."""

    gap: np.ndarray
    error: np.ndarray
    real: np.ndarray


def difference(a: Moments, b: Moments) -> Difference:
    gap, error = a.mean - b.mean, np.hypot(a.error, b.error)
    scale = max(np.max(np.abs(value.mean), initial=0.0, where=~np.isnan(value.mean)) for value in (a, b))
    return Difference(gap, np.where(error <= ROUNDING * scale, 0.0, error), np.abs(gap) > SAME * scale)


def in_errors(a: Moments, b: Moments) -> np.ndarray:
    """|a − b|/√(se_a² + se_b²) of all entries that are numbers and have a sampling error, as a flat array.

    An entry without sampling error must agree to rounding; it is ∞ where it does not, and left out where it does.
    """
    gap, error, real = difference(a, b)
    sampled = (error > 0) & ~np.isnan(gap)
    return np.concatenate([np.abs(gap[sampled]) / error[sampled], np.full(np.sum(real & (error == 0)), np.inf)])


def welch(a: Moments, b: Moments) -> Agreement:
    """Student's t test of every entry, with Welch's degrees of freedom.

    With fewer than 12 runs on a side, the smaller number of degrees of freedom is taken, which errs to the safe side.
    An entry without sampling error in either (zeros, and what moment matching makes exact) must agree to rounding; it
    has p = 0 where it does not, and is not counted where it does. NaN where an error is not known, or both are exact.
    """
    gap, error, real = difference(a, b)
    exact = np.isinf(a.freedom) and np.isinf(b.freedom)
    if exact or np.isnan(error).any() or np.isnan([a.freedom, b.freedom]).any():
        return Agreement(np.nan, 0)
    sampled = error > 0
    if np.any(real & ~sampled):
        return Agreement(0.0, max(int(sampled.sum()), 1))
    if not sampled.any():
        return Agreement(1.0, 0)
    freedom: float | np.ndarray = min(a.freedom, b.freedom)
    if freedom >= FEWEST - 1:
        left, right = (value.error[sampled] ** 2 for value in (a, b))
        freedom = (left + right) ** 2 / (left**2 / a.freedom + right**2 / b.freedom)
    p = 2 * stdtr(freedom, -np.abs(gap[sampled]) / error[sampled])
    return Agreement(float(p.min()), p.size)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
