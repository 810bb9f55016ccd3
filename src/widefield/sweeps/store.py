"""Where finished cells are kept: a folder of netCDF files, or memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Protocol

import xarray as xr

from ..atomic import check_writable, write_file
from ..errors import ResultFileError
from ..results.files import load_result
from ..results.netcdf import ROOT, read_groups, write_groups
from ..results.result import Result
from .cells import Cell, Failure, Outcome


class Store(Protocol):
    def load(self, cell: Cell) -> Outcome | None:
        """What the cell ended with, or None if it has yet to run."""
        ...

    def save(self, cell: Cell, made: Outcome) -> None: ...


class Memory:
    """Cells of this process only."""

    def __init__(self) -> None:
        self._kept: dict[str, Outcome] = {}

    def load(self, cell: Cell) -> Outcome | None:
        return self._kept.get(cell.name)

    def save(self, cell: Cell, made: Outcome) -> None:
        self._kept[cell.name] = made


class Folder:
    """One file per cell, which appears whole or not at all; several processes may use the same folder.

    `<name>.nc` holds what the run returned, `<name>.json` the error that it ended with, where that is the same
    whenever and wherever it runs.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder).absolute()

    def prepare(self) -> None:
        """Make the folder; raises a `ResultFileError` if it cannot be written to."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise ResultFileError(
                f"the folder {self.folder} cannot be made ({reason}); allowed: a folder you may write to"
            ) from error
        check_writable(self.folder / "cell.nc")

    def path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.nc"

    def _failure_path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"

    def has(self, cell: Cell) -> bool:
        return self.path(cell).is_file() or self._failure_path(cell).is_file()

    def load(self, cell: Cell) -> Outcome | None:
        """None as well for a file that cannot be read, e.g. one that a disk has damaged: the run is made again."""
        try:
            if self.path(cell).is_file():
                return _read(self.path(cell))
            if self._failure_path(cell).is_file():
                return Failure(json.loads(self._failure_path(cell).read_text(encoding="utf-8"))["error"], lasting=True)
        except Exception:  # a damaged file may fail with almost any error
            return None
        return None

    def save(self, cell: Cell, made: Outcome) -> None:
        if isinstance(made, Result):
            made.save(self.path(cell))
        elif isinstance(made, Failure):
            if made.lasting:
                write_file(self._failure_path(cell), json.dumps({"error": made.message}).encode())
        else:
            write_groups(self.path(cell), {ROOT: made})


def _read(path: Path) -> Result | xr.Dataset:
    """What the run returned. The file is named by a hash of the code, so nothing foreign is imported for it."""
    try:
        return load_result(path, trust=True)
    except ResultFileError:
        return read_groups(path)[ROOT]
