"""Arrays that a user gives: real, finite numbers, and nothing that would become them silently."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError, shown

# Losses and alignments take fourth powers, which stay finite up to here.
LARGEST = 1e50


def real_array(argument: str, value: Any, *, largest: float = LARGEST, missing: bool = False) -> np.ndarray:
    """`value` as an array of 64-bit floats.

    Masks, dates, text and complex numbers are refused, because they would lose their meaning. So are NaN, infinity and
    numbers above `largest` (infinity is allowed where that is infinite; NaN where numbers may be `missing`).
    """
    allowed = "an array of real numbers"
    parts = value if isinstance(value, (list, tuple)) else ()
    if np.ma.isMaskedArray(value) or any(np.ma.isMaskedArray(part) for part in parts):
        raise InputError(f"{argument} is a masked array, whose mask would be lost; allowed: {allowed}")
    try:
        given = np.asarray(value)
    except Exception as error:  # ragged lists, and whatever an object's own conversion raises
        raise InputError(f"{argument} is {type(value).__name__}; allowed: {allowed}") from error
    if given.dtype.kind not in "fiub":
        what = f"of type {given.dtype}" if given.dtype.kind != "O" else type(value).__name__
        raise InputError(f"{argument} is {what}; allowed: {allowed}")
    with np.errstate(over="ignore"):
        array = given.astype(np.float64)
    good = np.abs(array) <= largest
    bad = np.argwhere(~(good | np.isnan(array)) if missing else ~good)
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        limit = "finite numbers" if largest == LARGEST and not np.isfinite(array[where]) else f"up to {largest:g}"
        at = f" at index {where}" if where else ""
        raise InputError(f"{argument} is {shown(float(array[where]))}{at}; allowed: {limit}")
    return array
