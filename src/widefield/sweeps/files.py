"""A sweep on disk."""

from __future__ import annotations

import os

import xarray as xr

from ..atomic import atomic_file


def save_sweep(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """Write to a netCDF file, atomically; `xarray.load_dataset(path, decode_times=False)` reads it."""
    with atomic_file(os.fspath(path)) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")
