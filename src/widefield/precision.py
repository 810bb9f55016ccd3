"""64-bit numbers for the duration of a call. The rest of the process keeps the precision that it chose.

Kernels of rich training lose their small directions in 32-bit numbers. JAX's switch is local to a thread and part of
the key of its compiled functions, so a user's own 32-bit code runs beside a solve, and before and after it, untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

try:
    from jax import enable_x64
except ImportError:  # JAX before 0.8
    from jax.experimental import enable_x64  # type: ignore[attr-defined, no-redef]

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["double_precision", "enable_x64"]


def double_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with JAX's 64-bit numbers; what it returns must be NumPy. About a microsecond per call.

    Every public function that runs JAX carries it, also where it only evaluates a user's function on an example. What
    imports a user's module stays outside: the module keeps the user's precision.
    """

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with enable_x64(True):
            return function(*args, **kwargs)

    return wrapped
