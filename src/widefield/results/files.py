"""Results on disk.

A netCDF file holds the variables of single runs, along `seed`, with the attributes of the result; its group `data`
holds the points x, y, x_test and y_test of the problem. Means and standard errors are derived when a file is read.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import xarray as xr

from ..atomic import check_writable, require_path
from ..errors import InputError, ResultFileError, one_line, printable, require
from ..problem.dataset import Dataset
from ..problem.toml import split_header
from .netcdf import ROOT, read_groups, write_groups
from .result import Result
from .stored import ARRAYS, StoredProblem
from .validity import check_runs

__all__ = ["check_writable", "load_result", "save_result"]

# 1 (unnamed in the file): means and standard errors, the problem with its data as text. 2: single runs, data as arrays.
FORMAT = 2
_GROUP = "data"


def save_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Write `result` to `path`, atomically; raises a `ResultFileError` where that cannot be."""
    groups = {ROOT: result.runs.assign_attrs(format=FORMAT)}
    if result.data is not None:
        groups[_GROUP] = _as_dataset(result.data)
    write_groups(path, groups)


def load_result(path: str | os.PathLike[str], trust: bool = False) -> Result:
    """Read what `Result.save` wrote.

    Args:
        path: the file.
        trust: whether `result.problem` may import modules that the file names: rules, activations and losses that are
            not part of widefield. Importing runs their code, so trust only files of people you trust.

    Raises:
        ResultFileError: for a file that is missing, damaged, of a later version or something else.
    """
    require_path("path", path)
    require(isinstance(trust, bool), "trust", trust, "True or False")
    groups = read_groups(path)
    runs, data = groups[ROOT], groups.get(_GROUP)
    _check_format(path, runs.attrs)
    runs.attrs.pop("format", None)
    try:
        check_runs(runs)
        header, text = split_header(runs.attrs["problem"])
        points = (text or None) if data is None else _as_points(data)
        return Result(_plain(runs).assign_attrs(problem=header), StoredProblem(header, points, trust))
    except InputError as error:
        raise ResultFileError(f"{path} is not a widefield result, or damaged: {one_line(error)}") from error


def _as_dataset(data: Dataset) -> xr.Dataset:
    """x (point, x_1, …), y (point, output) and the same of test points."""
    arrays = {name: getattr(data, name) for name in ARRAYS if getattr(data, name) is not None}
    dims = {"x": ("point",), "y": ("point",), "x_test": ("test_point",), "y_test": ("test_point",)}
    return xr.Dataset(
        {
            name: ((*dims[name], *(f"{name[0]}_{axis}" for axis in range(1, array.ndim))), array)
            for name, array in arrays.items()
        }
    )


def _as_points(data: xr.Dataset) -> Dataset:
    missing = {"x", "y"} - set(map(str, data.data_vars))
    require(not missing, "data", f"without {', '.join(sorted(missing))}", "x and y")
    return Dataset(**{name: data[name].values for name in ARRAYS if name in data})


def _check_format(path: str | os.PathLike[str], attributes: dict[str, Any]) -> None:
    found = attributes.get("format", 1)
    if isinstance(found, (int, np.integer)) and 1 <= found <= FORMAT:
        return
    try:
        written = json.loads(attributes["versions"])["widefield"]
    except (KeyError, TypeError, ValueError, RecursionError):
        written = "unknown"
    raise ResultFileError(
        f"{path} was written by another version of widefield ({printable(str(written))[:40]}), in a format that this "
        "one does not know; update widefield"
    )


def _plain(runs: xr.Dataset) -> xr.Dataset:
    """Descriptions without control characters, which a terminal would obey."""
    runs = runs.copy()
    for array in runs.variables.values():
        array.attrs = {printable(str(k)): printable(v) if isinstance(v, str) else v for k, v in array.attrs.items()}
    return runs
