"""A number and its standard error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """A number and its standard error; differences and ratios are those of independent numbers."""

    value: float
    error: float

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, float(np.hypot(self.error, other.error)))

    def __truediv__(self, other: Estimate) -> Estimate:
        # √((δa/b)² + (aδb/b²)²), which holds for a = 0, too.
        error = np.hypot(self.error / other.value, self.value * other.error / other.value**2)
        return Estimate(self.value / other.value, float(error))

    def __str__(self) -> str:
        """To the digit that the error leaves meaningful, as in 0.0123 ± 0.0004."""
        value, error = self
        if not np.isfinite(error) or error <= 1e-12 * abs(value) or error == 0:
            return f"{value:.4g}"
        digits = max(0, -int(np.floor(np.log10(error))) + 1)
        return f"{value:.{digits}f} ± {error:.{digits}f}" if digits <= 8 else f"{value:.4g} ± {error:.1g}"
