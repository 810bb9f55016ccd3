"""What every run has in common: plain numbers in, a warning about a step that is too large, no exploded result out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from .errors import DivergenceError, StabilityWarning, plain

if TYPE_CHECKING:
    from .results.result import Result

P = ParamSpec("P")


def guarded(run: Callable[P, Result]) -> Callable[P, Result]:
    """Watch over a function of a problem that returns a result.

    NumPy numbers among the arguments become Python's. A dt above the largest stable one at the start is warned of. A
    result with numbers that are not finite, or a loss that has exploded, is a `DivergenceError`.
    """

    @wraps(run)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Result:
        from .problem.problem import Problem
        from .results.growth import check_growth

        args = tuple(plain(value) for value in args)  # type: ignore[assignment]
        kwargs = {name: plain(value) for name, value in kwargs.items()}  # type: ignore[assignment]
        problem = args[0] if args else kwargs.get("problem")
        if not isinstance(problem, Problem):
            return run(*args, **kwargs)  # which says what is wrong
        stable = _warn(problem)
        try:
            result = run(*args, **kwargs)
            check_growth(result, problem.training)
            return result
        except DivergenceError as error:
            if not math.isfinite(stable) or "at step 0," in str(error):
                raise
            raise DivergenceError(f"{error}; at the start, steps dt above about {stable:.2g} are unstable") from error

    return wrapped


def _warn(problem) -> float:
    from .engine.stability import stable_step

    stable = stable_step(problem)
    if problem.training.dt > stable:
        warnings.warn(
            f"dt is {problem.training.dt:g}, above the largest stable step at the start, about "
            f"{stable:.2g} (2/λ_max(K) for plain steps); the run may diverge",
            StabilityWarning,
            stacklevel=4,
        )
    return stable
