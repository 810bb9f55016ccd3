"""Long programs that are compiled for many shapes."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, lru_cache, update_wrapper
from typing import Any

import jax

# XLA's compiler for the CPU takes 2.5 times less for a training step with these, and the step runs as fast.
QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


class Compiled:
    """`jax.jit(function, **options)` that compiles quickly on the CPU; not to be called inside another one."""

    def __init__(self, function: Callable[..., Any], **options: Any):
        self._function, self._options = function, options
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jitted(*args, **kwargs)

    @cached_property
    def jitted(self) -> Any:
        return jax.jit(self._function, **self._options, **quick_options())


@lru_cache(maxsize=1)
def quick_options() -> dict[str, Any]:
    """Arguments of `jax.jit`: none where the device or the version of JAX does not know them; what the user has set in
    XLA_FLAGS stays."""
    said = os.environ.get("XLA_FLAGS", "")
    options: dict[str, Any] = {"compiler_options": {name: value for name, value in QUICK.items() if name not in said}}
    if jax.default_backend() != "cpu" or not options["compiler_options"]:
        return {}
    try:
        jax.jit(lambda: 0.0, **options)()
    except Exception:  # a TypeError of jax.jit, or an error of the compiler, whose class is not public
        return {}
    return options


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Compiled]:
    """A decorator with the options of `jax.jit`."""
    return lambda function: Compiled(function, **options)
