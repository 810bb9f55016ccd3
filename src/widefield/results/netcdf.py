"""Labelled arrays as netCDF 4, in memory: HDF5 itself does not survive a full disk."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

import h5netcdf
import h5py
import xarray as xr

from ..atomic import check_writable, write_file
from ..errors import ResultFileError, one_line
from ..numerics.memory import check_memory

ROOT = "/"


def write_groups(path: str | os.PathLike[str], groups: Mapping[str, xr.Dataset]) -> None:
    """Write datasets to `path`, each into its group of the file (`ROOT` is the file itself), atomically."""
    check_writable(path)
    size = sum(dataset.nbytes for dataset in groups.values())
    check_memory(size, f"writing {path}", "free some memory, or keep less of the run (record=, every=)")
    buffer = io.BytesIO()
    try:
        with h5netcdf.File(buffer, "w") as file:
            for name, dataset in groups.items():
                _write_group(file if name == ROOT else file.create_group(name), dataset)
    except Exception as error:  # what HDF5 cannot hold may fail with almost any error
        raise ResultFileError(f"{path} cannot be written ({one_line(error)})") from error
    write_file(path, buffer.getbuffer())


def read_groups(path: str | os.PathLike[str]) -> dict[str, xr.Dataset]:
    """Everything in a file by group; raises a `ResultFileError` for a file that is missing or cannot be read."""
    if not os.path.isfile(path):
        raise ResultFileError(f"{path} cannot be read: there is no such file; allowed: a file written by Result.save")
    try:
        # One open file for all groups: another process may put a new file in its place meanwhile.
        with open(path, "rb") as file:
            # By h5py first: h5netcdf writes to the terminal where the root is damaged.
            with h5py.File(file, "r") as content:
                names = [ROOT, *(name for name, item in content.items() if isinstance(item, h5py.Group))]
            # Our time is a plain number: no calendar is to be guessed from its units.
            return {name: xr.load_dataset(file, engine="h5netcdf", decode_times=False, group=name) for name in names}
    except Exception as error:  # a damaged HDF5 file may fail with almost any error
        raise ResultFileError(
            f"{path} cannot be read as netCDF: it is damaged or something else ({one_line(error)})"
        ) from error


def _write_group(group: Any, dataset: xr.Dataset) -> None:
    group.dimensions = {str(name): size for name, size in dataset.sizes.items()}
    for name, array in dataset.variables.items():
        values = array.values
        text = {"dtype": h5py.string_dtype()} if values.dtype.kind in "OU" else {}
        values = values.astype(object) if text else values
        variable = group.create_variable(str(name), tuple(map(str, array.dims)), data=values, **text)
        variable.attrs.update(array.attrs)
    group.attrs.update(dataset.attrs)
    # By the netCDF conventions: these are labels, though no dimension has their names.
    labels = " ".join(sorted(str(name) for name in dataset.coords if name not in dataset.dims))
    if labels:
        group.attrs["coordinates"] = labels
