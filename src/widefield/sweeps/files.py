"""A sweep on disk."""

from __future__ import annotations

import os

import xarray as xr

from ..results.netcdf import ROOT, write_groups


def save_sweep(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """Write to a netCDF file, atomically; `xarray.load_dataset(path, decode_times=False)` reads it."""
    write_groups(path, {ROOT: dataset})
