"""Checkpoints: a long run that was killed goes on from its last one, with the numbers of an uninterrupted run.

A checkpoint is a folder: one file per network, which appears whole or not at all and holds the network on its way or
what is kept of it at its end, and `identity.json`, which says of which run. Nothing in it is executed when it is read.
"""

from __future__ import annotations

import dataclasses
import io
import json
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..atomic import check_writable, require_path, write_file
from ..digest import code_version, digest
from ..errors import InputError, ResultFileError, one_line, require_number
from ..problem.problem import Problem
from .devices import Device, Place, is_key, wait_for_all
from .interpretation import Room
from .run import Leg, Run
from .state import State

INTERVAL = 300.0  # seconds
_IDENTITY = "identity.json"


def identity(problem: Problem, options: Mapping[str, Any]) -> dict[str, str]:
    """All that decides the numbers of a run, by name, for people to read."""
    from .. import __version__

    said: dict[str, str] = {}
    for name in (field.name for field in dataclasses.fields(problem)):
        part = getattr(problem, name)
        inner = [field.name for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
        said |= {f"{name}.{field}": _text(getattr(part, field)) for field in inner}
        if name in ("network", "rule") or not inner:
            said[name] = _text(part)
    said |= {name: _text(value) for name, value in options.items()}
    sources = {"widefield": f"{__version__} ({code_version()})", "jax": jax.__version__, "numpy": np.__version__}
    return said | sources | {"backend": jax.default_backend()}


def _text(value: Any) -> str:
    plain = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if plain else f"{' '.join(repr(value).split())[:40]} ({digest(value)[:8]})"


class Checkpoint:
    """The checkpoint of one call of `wf.solve` or `wf.simulate`.

    Args:
        path: the folder; made if it is not there.
        identity: what decides the numbers, by name; a folder of another run is refused.
        interval: seconds between two checkpoints of a network.
        devices: those of the run; all their processes must see the folder.
    """

    def __init__(
        self, path: str | Path, identity: Mapping[str, str], interval: float = INTERVAL,
        devices: Sequence[Device] = (),
    ):  # fmt: skip
        require_path("checkpoint", path)
        require_number("interval", interval, "seconds, 0 or more", at_least=0)
        self.folder, self.interval = Path(path), interval
        if Place(tuple(devices)).writes:
            self._open(dict(identity))
        wait_for_all(devices, "checkpoint")
        self._compare(dict(identity))

    def _open(self, identity: dict[str, str]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise ResultFileError(f"checkpoint {self.folder} cannot be made ({reason}); allowed: a folder") from error
        note = self.folder / _IDENTITY
        if note.is_file():
            self._compare(identity)
            return
        if any(not file.name.startswith(".") for file in self.folder.iterdir()):
            raise InputError(f"checkpoint is {self.folder}, a folder of something else; allowed: a new or empty folder")
        check_writable(note)
        write_file(note, json.dumps(identity, indent=1).encode())

    def _compare(self, identity: dict[str, str]) -> None:
        """Refuse the checkpoint of another problem, of other options or of another version."""
        try:
            there = dict(json.loads((self.folder / _IDENTITY).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ResultFileError(f"checkpoint {self.folder} cannot be read ({one_line(error)}); remove it") from error
        differ = [name for name in {**there, **identity} if there.get(name) != identity.get(name)]
        if differ:
            told = "; ".join(f"{name} is {there.get(name)} there and {identity.get(name)} here" for name in differ[:4])
            more = f"; and {len(differ) - 4} more" if len(differ) > 4 else ""
            raise InputError(
                f"checkpoint {self.folder} is of another run: {told}{more}; allowed: the same call, or another folder"
            )

    def train(
        self, run: Run, number: int, room: Room | None = None, watch: Callable[[Leg], None] = lambda leg: None
    ) -> tuple[dict[str, np.ndarray], Leg]:
        """What is kept of network `number` at its end, and its last leg without arrays.

        Read where it has been at its end before; else from the last checkpoint on, or from the start in buffers of
        `room`. `watch` sees every leg and may raise.
        """
        path = self.folder / f"{_name(run, number)}.npz"
        leg, saved = None, time.monotonic()
        if run.place.agreed(path.is_file()):
            about, arrays = _read(path)
            if about["finished"]:
                return arrays, _leg_of(run, number, about)
            leg = _restored(run, number, about, arrays, path)
            del arrays
            watch(leg)
        else:
            leg = run.start(number, room)
        while leg.done < run.total:
            leg = run.advance(leg)
            watch(leg)
            if leg.done < run.total and run.place.agreed(time.monotonic() - saved >= self.interval):
                arrays = _on_its_way(*run.place.read((leg.state, leg.records)))
                if run.place.writes:
                    self._write(path, leg, arrays, finished=False)
                saved = time.monotonic()
        records = run.records_of(leg)
        if run.place.writes:
            self._write(path, leg, records, finished=True)
        return records, dataclasses.replace(leg, state=None, records={})  # type: ignore[arg-type]

    def __call__(
        self, run: Run, number: int, room: Room | None, watch: Callable[[Leg], None]
    ) -> tuple[dict[str, np.ndarray], Leg]:
        """The `trainer` of a run."""
        return self.train(run, number, room, watch)

    def _write(self, path: Path, leg: Leg, arrays: Mapping[str, np.ndarray], finished: bool) -> None:
        """A checkpoint that cannot be written is no reason to lose the run."""
        about = {"finished": finished, "done": leg.done, "chunk": leg.chunk, "rank": leg.rank,
                 "directions": leg.directions, "room": leg.kind.room}  # fmt: skip
        content: dict[str, Any] = {**arrays, _ABOUT: np.array(json.dumps(about))}
        try:
            buffer = io.BytesIO()
            np.savez(buffer, **content)
            write_file(path, buffer.getbuffer())
        except (ResultFileError, OSError) as error:
            warnings.warn(f"{one_line(error)}; the run goes on without this checkpoint", stacklevel=3)


_ABOUT = "about this file"


def _name(run: Run, number: int) -> str:
    """One call may run several widths, tolerances and seeds; each network of each has its own file."""
    key = np.asarray(jax.random.key_data(run.keys[number]))
    tolerances = float(run.inputs.tolerance), float(run.inputs.tolerance_back)
    return digest(run.kind.kind, run.kind.width, run.kind.dtype, *tolerances, run.steps, key)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return json.loads(str(arrays.pop(_ABOUT))), arrays
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ResultFileError(f"checkpoint {path} is damaged ({one_line(error)}); remove it") from error


def _on_its_way(state: State, records: Mapping[str, Any]) -> dict[str, np.ndarray]:
    leaves = {f"state {place}": _plain(leaf) for place, leaf in enumerate(jax.tree.leaves(state))}
    return leaves | {f"record {name}": np.asarray(value) for name, value in records.items()}


def _leg_of(run: Run, number: int, about: Mapping[str, Any]) -> Leg:
    """The leg that a file is about, without its arrays."""
    matrices, feedbacks, sources = about["room"]
    room = Room(tuple((forward, backward) for forward, backward in matrices), tuple(feedbacks), tuple(sources))
    counts = {name: about[name] for name in ("done", "chunk", "rank", "directions")}
    return Leg(number, dataclasses.replace(run.kind, room=room), None, {}, **counts)  # type: ignore[arg-type]


def _restored(run: Run, number: int, about: Mapping[str, Any], arrays: dict[str, np.ndarray], path: Path) -> Leg:
    """A new network in the same buffers gives the structure, which the saved numbers then fill."""
    bare = _leg_of(run, number, about)
    new = run.start(number, bare.kind.room)
    leaves, structure = jax.tree.flatten(new.state)
    names, records = sorted(new.records), new.records
    del new
    filled: list[Any] = []
    for place in range(len(leaves)):
        filled.append(_like(run, leaves[place], arrays.get(f"state {place}"), path))
        leaves[place] = None  # so that there are never two networks in memory
    records = {name: _like(run, records[name], arrays.get(f"record {name}"), path) for name in names}
    return dataclasses.replace(bare, state=jax.tree.unflatten(structure, filled), records=records)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def _like(run: Run, leaf: Any, value: np.ndarray | None, path: Path) -> Any:
    """`value` as an array of the kind of `leaf`, where the run is."""
    wanted = jax.random.key_data(leaf) if is_key(leaf) else leaf
    if value is None or value.shape != wanted.shape or value.dtype != wanted.dtype:
        raise ResultFileError(f"checkpoint {path} does not fit this run; remove it")
    put = run.place.put(value, run.kind.width)
    return jax.random.wrap_key_data(put, impl=jax.random.key_impl(leaf)) if is_key(leaf) else put
