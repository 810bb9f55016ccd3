"""The engine at N = ∞: `method="mean_field"`."""

from .solve import solve_mean_field

__all__ = ["solve_mean_field"]
