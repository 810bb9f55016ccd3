"""Runs that were made once are read, not made again; those that are missing are made side by side."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import xarray as xr

from ..progress import Reporter
from ..results.netcdf import ROOT, write_groups
from ..results.result import Result
from .study import Call

# Compilation keeps one core busy and the runs the others, so two at a time fill two cores.
WORKERS = 2
_PARTS = 1000
_FREE = ("seed", "seeds", "networks", "keep")


def fingerprint(call: Call) -> str:
    """Hash of all that decides the result: the function, the whole problem, the options and the version."""
    from .. import __version__

    name = f"{call.function.__module__}.{call.function.__qualname__}"
    settings = [name, call.problem.to_toml(), sorted(call.options.items()), __version__]
    return hashlib.sha256(json.dumps(settings, default=str).encode()).hexdigest()[:24]


class Cache:
    """A folder of netCDF files, each named by the hash of its settings."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, call: Call) -> Path:
        return self.folder / f"{fingerprint(call)}.nc"

    def load(self, call: Call) -> xr.Dataset | None:
        """The result of an earlier run; None if there is none that can be read."""
        path = self.path(call)
        if not path.is_file():
            return None
        try:
            return xr.load_dataset(path, engine="h5netcdf", decode_times=False)
        except Exception:  # a damaged file may fail with almost any error; the run is made again
            return None

    def save(self, call: Call, dataset: xr.Dataset) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_groups(self.path(call), {ROOT: dataset})


class Stopped(Exception):
    """Raised inside a run whose result nobody waits for any more."""


class _Meter:
    """Progress of one of several runs; its next update ends the run once `stop` is set."""

    def __init__(self, overall: _Overall, name: str, stop: threading.Event):
        self._overall, self._name, self._stop = overall, name, stop

    def update(self, done: int, total: int, message: str = "") -> None:
        if self._stop.is_set():
            raise Stopped
        self._overall.set(self._name, done / max(total, 1))


class _Overall:
    """Adds up the shares of all runs; the bar itself is only ever touched by the main thread."""

    def __init__(self, bar: Reporter, names: list[str]):
        self._bar, self._shares = bar, dict.fromkeys(names, 0.0)
        self._last = ""

    def set(self, name: str, share: float) -> None:
        self._shares[name] = min(share, 1.0)
        self._last = name

    def show(self) -> None:
        done, total = sum(self._shares.values()), max(len(self._shares), 1)
        # A little below the end, which would take the bar away before the pictures are drawn.
        self._bar.update(min(int(_PARTS * done), _PARTS * total - 1), _PARTS * total, self._last)


def make_all(calls: Mapping[str, Call], cache: Cache, bar: Reporter) -> dict[str, xr.Dataset]:
    """The results of all calls; each is saved as soon as it is there, for a run after an interruption to go on from."""
    overall, stop = _Overall(bar, list(calls)), threading.Event()
    done: dict[str, xr.Dataset] = {}
    missing: dict[str, Call] = {}
    for name, call in calls.items():
        found = cache.load(call)
        if found is None:
            missing[name] = call
        else:
            done[name] = found
            overall.set(name, 1.0)
    overall.show()
    arrived: queue.SimpleQueue[tuple[str, xr.Dataset]] = queue.SimpleQueue()

    def work(names: list[str]) -> None:
        for name in names:
            if stop.is_set():
                raise Stopped
            call = missing[name]
            made = call.function(call.problem, **call.options, progress=_Meter(overall, name, stop))
            arrived.put((name, made.dataset if isinstance(made, Result) else made))

    def collect() -> None:
        while not arrived.empty():
            name, made = arrived.get()
            cache.save(missing[name], made)
            done[name] = made
            overall.set(name, 1.0)

    with ThreadPoolExecutor(WORKERS) as pool:
        running: set[Future[None]] = {pool.submit(work, names) for names in chains(missing)}
        try:
            while running:
                ready, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                collect()
                overall.show()
                for future in ready:
                    future.result()
        except BaseException:
            stop.set()
            raise
    return {name: done[name] for name in calls}


def chains(calls: Mapping[str, Call]) -> list[list[str]]:
    """Names of calls that share a compilation, to be made one after the other: side by side each would compile anew.

    Richness, step size and seeds are numbers to a compiled run, and seeds run one by one; the rest is its shape.
    """
    shapes: dict[str, list[str]] = {}
    for name, call in calls.items():
        problem = call.problem
        fixed = {option: value for option, value in sorted(call.options.items()) if option not in _FREE}
        shape = (problem.network, problem.rule, problem.data.x.shape, problem.training.steps, fixed)
        shapes.setdefault(repr(shape), []).append(name)
    return list(shapes.values())
