"""`method="linear"`: the closed algebra of linear networks (App. E), without sampling."""

from .solve import closes, solve_linear

__all__ = ["closes", "solve_linear"]
