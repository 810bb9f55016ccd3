"""Results on disk: netCDF 4 by way of h5netcdf."""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from ..atomic import atomic_file, check_writable
from ..errors import ResultFileError, one_line
from .result import Result

__all__ = ["check_writable", "load_result", "save_result"]

_NEEDED = ("problem", "method", "info", "versions")


def save_result(result: Result, path: str | Path) -> None:
    """Write `result` to `path`, atomically; raises a `ResultFileError` where that cannot be."""
    with atomic_file(path) as temporary:
        result._runs.to_netcdf(temporary, engine="h5netcdf")


def load_result(path: str | Path) -> Result:
    """Read what `Result.save` wrote; raises a `ResultFileError` for a file that is missing, broken or foreign."""
    if not Path(path).is_file():
        raise ResultFileError(f"{path} cannot be read: there is no such file; allowed: a file written by Result.save")
    try:
        # Our time is a plain number: no calendar is to be guessed from its units.
        dataset = xr.load_dataset(path, engine="h5netcdf", decode_times=False)
    except Exception as error:  # a damaged HDF5 file may fail with almost any error
        raise ResultFileError(
            f"{path} cannot be read as netCDF: it is damaged or something else ({one_line(error)})"
        ) from error
    missing = [name for name in _NEEDED if name not in dataset.attrs]
    if missing:
        raise ResultFileError(
            f"{path} is not a widefield result: it has no {', '.join(missing)}; allowed: a file written by Result.save"
        )
    return Result(dataset)
