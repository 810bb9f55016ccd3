"""`wf.finite_width`: the expansion in 1/N along training."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from ..errors import InputError, require, require_integer
from ..problem.problem import Problem
from ..problem.training import recorded_steps
from ..progress import Progress
from ..results.result import Result
from ..simulation import simulate
from ..solvers.methods import choose_method, solve
from .expansion import FiniteWidth

WIDTHS = (500, 1000, 2000)


def finite_width(
    problem: Problem,
    widths: Sequence[int] = WIDTHS,
    seeds: int = 8,
    *,
    seed: int = 0,
    every: int = 1,
    record: Sequence[str] | None = None,
    accuracy: float | None = None,
    theory: Result | None = None,
    progress: bool | Progress | None = None,
) -> FiniteWidth:
    """Mean m + b/N and covariance C/N of f, loss and kernels along training.

    Infinite width gives m; `seeds` networks of each width, which have the law of dense ones at any width, give b and C.
    Linear networks have their m in closed form. Cost: one solve and len(widths)·seeds networks.

    Args:
        problem: what is trained.
        widths: one or more; two or more also say whether 1/N has set in.
        seeds: networks of each width.
        seed: the same seed gives the same numbers.
        every, record: as in `wf.simulate`.
        accuracy: of infinite width, as in `wf.solve`.
        theory: infinite width, if it is there already: a result of `wf.solve` with the same `every`.
        progress: as in `wf.solve`.

    Example:
        >>> found = wf.finite_width(problem, widths=(250, 500, 1000))
        >>> found.at(400)["loss"], found.at(400)["loss_sd"]
    """
    require(isinstance(problem, Problem), "problem", type(problem).__name__, "a widefield.Problem")
    chosen = _check_widths(widths)
    require_integer("seeds", seeds, 2)
    require_integer("seed", seed, 0)
    require_integer("every", every, 1)
    if theory is None:
        method = choose_method(problem)
        options = {"seed": seed, "accuracy": accuracy, "every": every, "record": record}
        known = {"mean_field": options, "lazy": {"every": every, "record": record}}.get(method, {})
        theory = solve(problem, method, progress=progress, **known)
        if method == "linear" and every > 1:
            theory = _thinned(theory, every)
    else:
        require(isinstance(theory, Result), "theory", type(theory).__name__, "a widefield.Result, or None")
        require(accuracy is None, "accuracy", accuracy, "None where theory is given")
    networks = {
        width: simulate(
            problem, width, seeds, seed=seed + number, every=every, record=record, neurons=1, progress=progress
        )
        for number, width in enumerate(chosen)
    }
    first = next(iter(networks.values()))
    if (
        first["time"].size != theory["time"].size
        or not (abs(first["time"].values - theory["time"].values) < 1e-9).all()
    ):
        raise InputError("theory was recorded at other times than every= says; allowed: the same every in both")
    return FiniteWidth(theory, networks)


def _check_widths(widths: Sequence[int]) -> tuple[int, ...]:
    listed = isinstance(widths, Sequence) and not isinstance(widths, str)
    require(listed and len(widths) > 0, "widths", widths, "one width or more, e.g. (500, 1000, 2000)")
    for width in widths:
        good = isinstance(width, Integral) and not isinstance(width, bool) and width >= 2
        require(good, "widths", widths, "whole numbers, 2 or more")
    require(len(set(widths)) == len(widths), "widths", widths, "different widths")
    return tuple(sorted(int(width) for width in widths))


def _thinned(theory: Result, every: int) -> Result:
    kept = recorded_steps(theory["time"].size - 1, every)
    return Result(theory.runs.isel(time=kept), theory.problem)
