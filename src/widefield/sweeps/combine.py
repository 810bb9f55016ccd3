"""One labelled dataset of many: cells side by side, NaN where a cell has nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..numerics.memory import check_memory
from ..results.result import Result
from .cells import OK, Failure, Outcome
from .grid import Grid, Index

TIME = "time"
# Training times of cells with different steps dt: `time` then counts records.
TIMES = "training_time"
STATUS = "status"


def combine(grid: Grid, outcomes: Mapping[Index, Outcome]) -> xr.Dataset:
    """Variables of all cells along the swept fields, then their own dimensions.

    Cells of different lengths (layers, samples, recorded steps, neurons) start at the same entry and end with NaN.
    A variable of a cell with the name of a swept field has a `_` at its end.
    `status` says "ok", or what went wrong. Where cells have different training times, these are in `training_time`.
    """
    fields = tuple(axis.field for axis in grid.axes)
    datasets = {i: made.dataset if isinstance(made, Result) else made for i, made in outcomes.items()}
    found = {i: _apart(made, (*fields, STATUS)) for i, made in datasets.items() if isinstance(made, xr.Dataset)}
    lengths = _lengths(found)
    names = list(dict.fromkeys(str(name) for made in found.values() for name in made.data_vars))
    variables: dict[str, xr.Variable] = {}
    for name in names:
        variables[name] = _stack(grid, lengths, {i: made[name].variable for i, made in found.items() if name in made})
    coordinates: dict[str, Any] = {axis.field: axis.coordinate for axis in grid.axes}
    for dim in lengths:
        labels = {i: made[dim].variable for i, made in found.items() if dim in made.coords and made[dim].dims == (dim,)}
        if labels:
            coordinates |= _labels(grid, lengths, dim, labels)
    status = np.full(grid.shape, "not run", dtype=object)
    for index, made in outcomes.items():
        status[index] = made.message if isinstance(made, Failure) else OK
    variables[STATUS] = xr.Variable(fields, status.astype(str), {"long_name": "ok, or what went wrong"})
    return xr.Dataset(variables, coordinates)


def failures_in(grid: Grid, outcomes: Mapping[Index, Outcome]) -> dict[str, str]:
    """What went wrong, by the names of cells."""
    return {grid.title(index): made.message for index, made in outcomes.items() if isinstance(made, Failure)}


def about(grid: Grid, failures: Mapping[str, str], options: Mapping[str, Any], version: str) -> dict[str, str]:
    """Attributes of the dataset: what was varied, what was run, what failed."""
    run = next(iter(grid.cells.values())).run
    return {
        "vary": json.dumps({axis.field: axis.labels for axis in grid.axes}),
        "run": f"{run.__module__}.{getattr(run, '__qualname__', repr(run))}",
        "options": json.dumps(dict(options), default=repr),
        "failures": json.dumps(dict(failures)),
        "widefield": version,
    }


def _apart(made: xr.Dataset, taken: tuple[str, ...]) -> xr.Dataset:
    return made.rename({name: f"{name}_" for name in taken if name in made.variables or name in made.dims})


def _lengths(found: Mapping[Index, xr.Dataset]) -> dict[str, int]:
    """The largest length of every dimension."""
    lengths: dict[str, int] = {}
    for made in found.values():
        for dim, size in made.sizes.items():
            lengths[str(dim)] = max(size, lengths.get(str(dim), 0))
    return lengths


def _stack(grid: Grid, lengths: Mapping[str, int], parts: Mapping[Index, xr.Variable]) -> xr.Variable:
    """One array of a variable's cells; a cell without one of its dimensions has it with one entry."""
    dims = list(max((part.dims for part in parts.values()), key=len))
    shape = (*grid.shape, *(lengths[str(dim)] for dim in dims))
    check_memory(8 * int(np.prod(shape)), "the table of a sweep", "record less (record=, every=), or vary less")
    numbers = all(part.dtype.kind in "fiub" for part in parts.values())
    whole = np.full(shape, np.nan if numbers else "", dtype=float if numbers else object)
    for index, part in parts.items():
        values = part.set_dims({dim: part.sizes.get(dim, 1) for dim in dims}).transpose(*dims).values
        whole[(*index, *(slice(n) for n in values.shape))] = values
    fields = tuple(axis.field for axis in grid.axes)
    return xr.Variable((*fields, *dims), whole, next(iter(parts.values())).attrs)


def _labels(grid: Grid, lengths: Mapping[str, int], dim: str, labels: Mapping[Index, xr.Variable]) -> dict[str, Any]:
    """The coordinate of a dimension: the longest, if all others are its beginning."""
    longest = max(labels.values(), key=lambda label: label.size)
    if all(np.array_equal(label.values, longest.values[: label.size]) for label in labels.values()):
        return {dim: longest} if longest.size == lengths[dim] else {}
    return {TIMES: _stack(grid, lengths, labels)} if dim == TIME else {}
