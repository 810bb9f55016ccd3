"""The contract of an observable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jax import Array

from .moment import Moment


@dataclass(frozen=True)
class Observable:
    """Something measured along training.

    Args:
        name: what it is called in a result.
        measure: its value at one step, from a `Moment`; None for what follows from others after the run.
        dims: its dimensions. The first is "time" for everything that is measured step by step. Default: "time" and
            one unnamed dimension per axis.
        meaning: one line that says what it is.
        gradients: whether it needs the true gradient, kept apart per output.
        weights: whether it needs the hidden matrices, and with them W(0).
        draws: single neurons rather than an average: no standard error, replicates are pooled along `neuron`.
    """

    name: str
    measure: Callable[[Moment], Array] | None = None
    dims: tuple[str, ...] | None = None
    meaning: str = ""
    gradients: bool = True
    weights: bool = False
    draws: bool = False
