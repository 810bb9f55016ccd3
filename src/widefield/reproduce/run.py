"""From the names of figures to pictures, data and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

import widefield as wf
from widefield.atomic import check_writable
from widefield.errors import IncompleteError, ResultFileError, require
from widefield.progress import Progress, make_progress
from widefield.results import read_groups, save_picture, write_groups
from widefield.sweeps import Cell, Failure, Folder, Outcome, run_cells

from .claims import Claim, Verdict, evaluate
from .fig1 import FIGURE as FIG1
from .fig2 import FIGURE as FIG2
from .fig3 import FIGURE as FIG3
from .fig4 import FIGURE as FIG4
from .fig5 import FIGURE as FIG5
from .fig6 import FIGURE as FIG6
from .fig7 import FIGURE as FIG7
from .page import write_page
from .study import SIZES, Study
from .style import look

FIGURES: dict[str, Study] = {study.name: study for study in (FIG1, FIG2, FIG3, FIG4, FIG5, FIG6, FIG7)}


@dataclass(frozen=True)
class Reproduction:
    """The page, the data behind every figure on it, and the claims with their verdicts."""

    page: Path
    data: dict[str, xr.Dataset]
    claims: list[tuple[Claim, Verdict]]


def reproduce(
    figures: Sequence[str] = (), *, size: str = "full", folder: str | Path, progress: bool | Progress | None = None
) -> Reproduction:
    """Compute figures of the paper (default: all) into `folder`: PNG, PDF and netCDF of each, and `index.html`.

    Runs are kept in `folder/cache`, so that a second call, or one after an interruption, makes only those that are
    missing. The page also shows figures of the same size that earlier calls left in the folder.
    """
    for name in figures:
        require(name in FIGURES, "figure", name, f"some of {', '.join(FIGURES)}, or none for all")
    require(size in SIZES, "size", size, f"one of {', '.join(SIZES)}")
    folder = Path(folder)
    _make(folder)
    wanted = [study for name, study in FIGURES.items() if name in figures or not figures]
    cells: dict[str, Cell] = {}
    for study in wanted:
        named = study.cells(study.sizes[size])
        cells |= {f"{study.name}: {name}": cell for name, cell in named.items()}
    store = Folder(folder / "cache")
    store.prepare()
    with make_progress(progress) as bar:
        runs = complete(run_cells(cells, store, bar))
        for study in wanted:
            start = f"{study.name}: "
            own = {name.removeprefix(start): run for name, run in runs.items() if name.startswith(start)}
            _finish(study, size, own, folder)
    data = {name: found for name in FIGURES if (found := _left_in(folder, name, size)) is not None}
    claims = evaluate(data)
    page = folder / "index.html"
    write_page(page, {name: FIGURES[name] for name in data}, data, claims, size)
    return Reproduction(page, data, claims)


def complete(outcomes: dict[str, Outcome]) -> dict[str, wf.Result]:
    """The results; a figure needs all of its runs."""
    failed = [f"{name}: {made.message}" for name, made in outcomes.items() if isinstance(made, Failure)]
    if failed:
        raise IncompleteError(f"{len(failed)} of {len(outcomes)} runs failed: {'; '.join(failed)}")
    return {name: made for name, made in outcomes.items() if isinstance(made, wf.Result)}


def _finish(study: Study, size: str, runs: dict[str, wf.Result], folder: Path) -> None:
    """Data, then pictures."""
    data = study.gather(study.sizes[size], runs)
    data.attrs.update(figure=study.name, size=size, settings=json.dumps(study.settings(size)))
    write_groups(folder / f"{study.name}.nc", {"/": data})
    with look():
        picture = study.draw(data)
        for ending in ("png", "pdf"):
            save_picture(picture, folder / f"{study.name}.{ending}")


def _left_in(folder: Path, name: str, size: str) -> xr.Dataset | None:
    """A figure's data in the folder, if it has this size and its picture is there."""
    path = folder / f"{name}.nc"
    if not path.is_file() or not path.with_suffix(".png").is_file():
        return None
    try:
        data = read_groups(path)["/"]
    except ResultFileError as error:
        raise ResultFileError(f"{path} cannot be read; remove it, or reproduce {name} again") from error
    same = json.dumps(FIGURES[name].settings(size))
    return data if data.attrs.get("size") == size and data.attrs.get("settings") == same else None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultFileError(
            f"the folder {folder} cannot be made ({error.strerror}); allowed: a folder you may write to"
        ) from error
    check_writable(folder / "index.html")
