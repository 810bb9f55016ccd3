"""Dimensions and descriptions of variables; the one place where results look into the table of variables."""

from __future__ import annotations

import numpy as np
import xarray as xr

from .variables import DESCRIPTIONS, DIMS

NAMES = tuple(DIMS)


def full_dims(name: str) -> tuple[str, ...]:
    """Dimensions of a variable while it is computed: those of outputs are always there."""
    return DIMS[name]


def dims_of(name: str, outputs: int) -> tuple[str, ...]:
    """Dimensions of a variable in a result; those of outputs are dropped where there is one output only."""
    return tuple(d for d in full_dims(name) if outputs > 1 or d not in ("output", "output_"))


def label(name: str, value: np.ndarray, outputs: int, leading: tuple[str, ...] = ()) -> xr.Variable:
    """`value` with its dimensions, after those of `leading`; output axes of length 1 are dropped."""
    value = np.asarray(value)
    dims, kept = (*leading, *full_dims(name)), (*leading, *dims_of(name, outputs))
    if value.ndim == len(dims) and len(kept) < len(dims):
        value = value.reshape([n for n, d in zip(value.shape, dims, strict=True) if d in kept])
    return xr.Variable(kept, value, {"long_name": DESCRIPTIONS.get(name, name.replace("_", " "))})
