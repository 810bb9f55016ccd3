"""Runs that were made once are read, not made again; those that are missing are made side by side."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import widefield as wf
from widefield.errors import ResultFileError
from widefield.progress import Reporter

from .study import Call

# Compilation keeps one core busy and the runs the others, so two at a time fill two cores.
WORKERS = 2
_PARTS = 1000
_FREE = ("seed", "seeds")
# Parts of the package that no run depends on.
_NO_NUMBERS = ("reproduce", "cli")
_LIBRARIES = ("jax", "jaxlib", "numpy", "scipy")


def fingerprint(call: Call) -> str:
    """Hash of all that decides the result: the function, the whole problem, the options and the code."""
    name = f"{call.function.__module__}.{call.function.__qualname__}"
    settings = [name, call.problem.to_toml(), sorted(call.options.items()), code_fingerprint(Path(wf.__file__).parent)]
    return hashlib.sha256(json.dumps(settings, default=str).encode()).hexdigest()[:24]


@lru_cache
def code_fingerprint(package: Path) -> str:
    """Hash of the source files that compute, and of the versions of the libraries that they stand on."""
    digest = hashlib.sha256(json.dumps([version(name) for name in _LIBRARIES]).encode())
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        if place.parts[0] not in _NO_NUMBERS:
            digest.update(f"{place.as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


class Cache:
    """A folder of results, each named by the hash of its settings and of the code."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, call: Call) -> Path:
        return self.folder / f"{fingerprint(call)}.nc"

    def load(self, call: Call) -> wf.Result | None:
        """The result of an earlier run; None if there is none that can be read."""
        if not self.path(call).is_file():
            return None
        try:
            return wf.load(self.path(call))
        except ResultFileError:  # damaged: the run is made again
            return None

    def save(self, call: Call, result: wf.Result) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        result.save(self.path(call))


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


def make_all(calls: Mapping[str, Call], cache: Cache, bar: Reporter) -> dict[str, wf.Result]:
    """The results of all calls; each is saved as soon as it is there, for a run after an interruption to go on from."""
    overall, stop = _Overall(bar, list(calls)), threading.Event()
    done: dict[str, wf.Result] = {}
    missing: dict[str, Call] = {}
    for name, call in calls.items():
        found = cache.load(call)
        if found is None:
            missing[name] = call
        else:
            done[name] = found
            overall.set(name, 1.0)
    overall.show()
    arrived: queue.SimpleQueue[tuple[str, wf.Result]] = queue.SimpleQueue()

    def work(names: list[str]) -> None:
        for name in names:
            if stop.is_set():
                raise Stopped
            call = missing[name]
            arrived.put((name, call.function(call.problem, **call.options, progress=_Meter(overall, name, stop))))

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
