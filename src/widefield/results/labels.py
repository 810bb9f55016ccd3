"""Dimensions and descriptions of variables; the one place where results look into the table of observables."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..observables import OBSERVABLES, Observable, dims_in, long_name, look_up
from ..problem.problem import Problem

NAMES = tuple(OBSERVABLES)


def full_dims(name: str, problem: Problem) -> tuple[str, ...]:
    """Dimensions of a variable while it is computed: those of outputs are always there."""
    return dims_in(look_up(name), problem)


def dims_of(name: str, problem: Problem) -> tuple[str, ...]:
    """Dimensions of a variable in a result; those of outputs are dropped where there is one output only."""
    return _without_single_output(full_dims(name, problem), problem)


def _without_single_output(dims: tuple[str, ...], problem: Problem) -> tuple[str, ...]:
    return tuple(d for d in dims if problem.outputs > 1 or d not in ("output", "output_"))


def label(observable: Observable, value: np.ndarray, problem: Problem, leading: tuple[str, ...] = ()) -> xr.Variable:
    """`value` with its dimensions, after those of `leading`; output axes of length 1 are dropped."""
    value = np.asarray(value)
    dims = (*leading, *dims_in(observable, problem, value.ndim - len(leading)))
    kept = _without_single_output(dims, problem)
    if value.ndim == len(dims) and len(kept) < len(dims):
        value = value.reshape([n for n, d in zip(value.shape, dims, strict=True) if d in kept])
    return xr.Variable(kept, value, {"long_name": long_name(observable)})
