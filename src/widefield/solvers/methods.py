"""Infinite-width theory: `wf.solve`, one door to every solver."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import require, require_one_of
from ..guard import guarded
from ..precision import double_precision
from ..problem.problem import Problem
from ..progress import Progress
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
def solve(
    problem: Problem,
    method: str = "mean_field",
    *,
    accuracy: float | None = None,
    samples: int | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    tolerance: float | None = None,
    precision: str | None = None,
    extrapolate: bool | None = None,
    record: Any = None,
    every: int | None = None,
    neurons: int | None = None,
    two_time: int | bool | None = None,
    damping: float | None = None,
    max_iterations: int | None = None,
    convergence: float | None = None,
    responses: str | None = None,
    checkpoint: str | Path | None = None,
    devices: Any = None,
    progress: bool | Progress | None = None,
    **others: Any,
) -> Result:
    """Compute what an infinitely wide network learns.

    Without further arguments the answer has a relative standard error of 1 %. An option that a method does not have is
    refused.

    Args:
        problem: data, network, learning rule, richness and training.
        method: "mean_field" (any network, any rule), "fixed_point" (Algorithm 1 of the paper), "linear" (closed
            algebra, linear networks), "lazy" (γ₀ → 0), or "auto", which takes "linear" or "lazy" where they hold.
        accuracy: mean_field: relative standard error of f and of the kernels that is aimed at, by choosing particles
            and replicates; default 0.01. lazy: largest relative error of a Gaussian average; default 1e-8.
        samples: S, particles per layer; with `seeds` it fixes what `accuracy` would choose. mean_field, fixed_point.
        seeds: independent replicates, from which standard errors follow. mean_field, fixed_point.
        seed: the same seed gives the same numbers. mean_field, fixed_point.
        tolerance: relative size below which the new part of a field is replaced by its conditional mean; kernels err by
            about half its square. Default: from the accuracy, larger for questions backward. mean_field, fixed_point.
        precision: "float64", or "float32" for large arrays; default: single where the accuracy allows it. mean_field.
        extrapolate: remove the O(1/S) bias with a second run at half the particles. mean_field.
        record: what to record: names of observables, `wf.Observable`s, or functions of the fields (`wf.Moment`).
            Default all kernels (with several outputs, or where they would take too much memory, fewer).
            mean_field, lazy.
        every: record every k-th step, and the last. mean_field, lazy.
        neurons: how many particles `h_final` and trajectories of single particles keep. mean_field.
        two_time: kernels at two times: every k-th step, 0 for none; 1 gives the responses as well. mean_field, linear.
        damping: β in (0, 1]; an iteration keeps 1−β of the old kernels. fixed_point.
        max_iterations: by default as many as causality can make necessary. fixed_point.
        convergence: stop when kernels change by less than this share of their sampling error. fixed_point.
        responses: "regression" or "jacobian". fixed_point.
        checkpoint: a folder to which replicates are written every five minutes and when they are done; the same call
            goes on from there, with the numbers of a run that was never stopped. mean_field.
        devices: list of JAX devices to use; default all, those of other processes included where `jax.distributed`
            joins them. Replicates run on one device each, or share all where they are few and large. mean_field.
        progress: True for a bar, False for silence, or an object with update(done, total, message). Default: a
            bar on a terminal and in Jupyter, else lines in the log `widefield` (level INFO).
        others: no other options exist; an unknown name raises an error that lists those that do.

    Returns:
        A `Result`: `dataset` with means and standard errors, `replicates`, `summary()`, `plot()`, `save(path)`.

    Raises:
        InputError: an argument has a value that is not allowed; raised before any work.
        DivergenceError: training diverged; the message says at which step and what to change.
        TooFewSamplesError, NotConvergedError, MemoryBudgetError: with what to change.

    Example:
        >>> theory = wf.solve(problem)
        >>> theory["entk_alignment"].plot()
    """
    options = {name: value for name, value in locals().items() if name not in ("problem", "method", "others")}
    given = {name: value for name, value in options.items() if value is not None} | others
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
    for name, value in given.items():
        require(name in known, f"option {name}", value, f"for method {method}: {', '.join(known)}")
    return solver(problem, **given)


def choose_method(problem: Problem) -> str:
    """The method "auto" takes; the result's `method` says which."""
    if problem.training.batch_size:
        return "mean_field"
    if closes(problem):
        return "linear"
    return "lazy" if problem.richness <= LAZY_RICHNESS else "mean_field"
