"""Networks of width N around infinite width: mean m + b/N and covariance C/N along training."""

from .expansion import FiniteWidth
from .finite_width import finite_width

__all__ = ["FiniteWidth", "finite_width"]
