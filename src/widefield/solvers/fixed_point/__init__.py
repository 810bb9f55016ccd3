"""Algorithm 1 of the paper: damped Monte-Carlo iteration over two-time kernels and responses."""

from .solve import solve_fixed_point

__all__ = ["solve_fixed_point"]
