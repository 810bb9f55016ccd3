"""Infinite-width theory: `wf.solve`, one door to every solver."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import require, require_one_of
from ..guard import guarded
from ..precision import double_precision
from ..problem.problem import Problem
from ..results.result import Result
from .fixed_point import solve_fixed_point
from .lazy import solve_lazy
from .linear import closes, solve_linear
from .mean_field import solve_mean_field

SOLVERS: dict[str, Callable[..., Result]] = {
    "mean_field": solve_mean_field,
    "fixed_point": solve_fixed_point,
    "linear": solve_linear,
    "lazy": solve_lazy,
}

# Below this richness features move less than the engine's sampling error, and the lazy limit is the better answer.
LAZY_RICHNESS = 1e-3


@double_precision
@guarded
def solve(problem: Problem, method: str = "mean_field", **options: Any) -> Result:
    """What an infinitely wide network learns.

    Args:
        method: "mean_field" (the engine, any rule), "fixed_point" (Algorithm 1 of the paper),
            "linear" (closed algebra, linear networks), "lazy" (γ₀ → 0), or "auto".
        options: what the solver takes: samples, seeds, seed, tolerance, accuracy, progress, …
    """
    allowed = ("auto", *SOLVERS)
    require_one_of("method", method, allowed)
    require(isinstance(problem, Problem), "problem", type(problem).__name__, "a widefield.Problem")
    if method == "auto":
        method = choose_method(problem)
    if method in ("fixed_point", "linear"):
        size = problem.training.batch_size
        require(size == 0, "batch_size", size, f"0 (all points) for method {method}; mean_field takes minibatches")
    solver = SOLVERS[method]
    known = list(inspect.signature(solver).parameters)[1:]
    for name in options:
        require(name in known, f"option {name}", options[name], f"for method {method}: {', '.join(known)}")
    return solver(problem, **options)


def choose_method(problem: Problem) -> str:
    """The method "auto" takes; the result's `method` says which."""
    if problem.training.batch_size:
        return "mean_field"
    if closes(problem):
        return "linear"
    return "lazy" if problem.richness <= LAZY_RICHNESS else "mean_field"
