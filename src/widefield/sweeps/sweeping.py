"""`wf.sweep`: a run for every combination of values, in one labelled dataset."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import xarray as xr

from ..atomic import require_path
from ..errors import ClusterError, ResultFileError, one_line
from ..problem.problem import Problem
from ..progress import Progress, Reporter, make_progress
from ..results.result import Result
from ..solvers.methods import solve
from .cells import Cell, Outcome
from .cluster import check_client, run_on_cluster
from .combine import about, combine, failures_in
from .grid import make_grid
from .local import run_here
from .store import Folder, Memory, Store

if TYPE_CHECKING:
    from distributed import Client


class SweepWarning(UserWarning):
    """Some cells of a sweep have no numbers."""


def sweep(
    problem: Problem,
    vary: Mapping[str, Any],
    run: Callable[..., Result | xr.Dataset] = solve,
    out: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    progress: bool | Progress | None = None,
    **options: Any,
) -> xr.Dataset:
    """Solve or simulate a problem for every combination of values of some of its fields.

    Args:
        problem: what is not varied.
        vary: lists of values by field: "richness", "network.depth", "rule.rho", "training.dt", … ; "rule" takes rules
            or their names, "data" takes a dictionary of data sets. Options of the run can be varied as well, e.g.
            "width" and "seeds" of `wf.simulate`. A dictionary {name: value} gives any values names of your choice.
        run: `wf.solve`, `wf.simulate`, or a function of (problem, *, progress, **options) that returns a `Result` or
            an `xarray.Dataset`.
        out: a folder for finished cells, made if it is not there. The same call later, or after an interruption, runs
            only what is missing; a change of the problem, the options or the code makes other cells. Default: memory.
        client: a `dask.distributed.Client`, whose workers then run the cells; `out` must be a folder they share.
        progress: as in `wf.solve`.
        options: options of the run.

    Returns:
        The variables of `Result.dataset` with a dimension per swept field in front, NaN where a cell failed, and
        `status`, which is "ok" or says why. Cells of different depth or length are filled up with NaN. Where training
        times differ, they are in `training_time`, and `time` counts records.

    Example:
        >>> wf.sweep(problem, {"richness": [0.3, 1, 3], "rule.rho": [0, 0.5, 1]}, out="cells")["loss"].isel(time=-1)
    """
    grid = make_grid(problem, vary, run, options)
    if client is not None:
        check_client(client)
    store = make_store(out)
    with make_progress(progress) as bar:
        outcomes = run_cells(grid.cells, store, bar, grid.title, client)
        dataset = combine(grid, outcomes)
        bar.update(1, 1, "")
    from .. import __version__

    failures = failures_in(grid, outcomes)
    dataset.attrs.update(about(grid, failures, options, __version__))
    if failures:
        named = "; ".join(f"{title}: {message}" for title, message in failures.items())
        warnings.warn(f"{len(failures)} of {len(outcomes)} cells failed: {named}", SweepWarning, stacklevel=2)
    return dataset


def make_store(out: str | os.PathLike[str] | None) -> Store:
    if out is None:
        return Memory()
    require_path("out", out)
    folder = Folder(out)
    folder.prepare()
    return folder


def run_cells(
    cells: Mapping[Any, Cell],
    store: Store,
    bar: Reporter,
    title: Callable[[Any], str] = str,
    client: Client | None = None,
) -> dict[Any, Outcome]:
    """What all cells ended with, by their keys; those that are finished already are read."""
    try:
        if client is None:
            return run_here(cells, store, bar, title)
        return run_on_cluster(cells, store, bar, title, client)
    except (ClusterError, ResultFileError) as error:
        if not isinstance(store, Folder):
            raise
        finished = sum(store.has(cell) for cell in cells.values())
        raise type(error)(
            f"{one_line(error)}; {finished} of {len(cells)} cells are finished and stay in {store.folder}, "
            "and the same call goes on from there"
        ) from error
