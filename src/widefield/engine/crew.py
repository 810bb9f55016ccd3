"""Networks of a run that are trained side by side: in threads, on several devices and in several processes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from ..errors import WidefieldError
from ..precision import enable_x64
from .devices import Place, exchange, raise_together

if TYPE_CHECKING:
    from .interpretation import Room
    from .run import Leg, Run

    Trained = tuple[dict[str, np.ndarray], Leg]

_COUNTS = "rank, directions and room"


class Crew:
    """Trains the networks of a run and adds up their steps for its report; an error or Ctrl-C stops all of them."""

    def __init__(self, run: Run):
        self._run, self._stop = run, threading.Event()
        self._lock, self._done = threading.Lock(), {}

    def train_all(self, where: Sequence[Place], room: Room | None) -> list[Trained]:
        """What is kept of every network, and its last leg. Network i is trained at place i modulo their number.

        Where all are at one place, nobody knows the buffers' sizes and networks take long, the first finds them, so
        that one compilation serves all others. Several places have programs of their own; none waits for another.
        """
        if len(where) > 1:
            return self._at_many(where, room)
        run = self._run.at(where[0])
        found = []
        if room is None and run.short:
            room = run.first_room()
        elif room is None:
            found = self._train(run, [0], None)
            room = run.next_room(found[0][1], max(len(run.keys) - 1, 1))
        others = [(run, [number]) for number in range(len(found), len(run.keys))]
        return [*found, *(one for [one] in self._side_by_side(others, room, run.workers(room, len(others))))]

    def _at_many(self, where: Sequence[Place], room: Room | None) -> list[Trained]:
        run, count = self._run, len(self._run.keys)
        processes = [place.devices[0].process_index for place in where]
        own = {n: range(n, count, len(where)) for n, place in enumerate(where) if place.writes}
        tasks = [(run.at(where[n]), numbers) for n, numbers in own.items()]
        found, error = [], None
        try:
            found = self._side_by_side(tasks, room, len(tasks))
        except WidefieldError as raised:
            if len(set(processes)) == 1:
                raise
            error = raised
        mine = {n: one for (_, numbers), lane in zip(tasks, found, strict=False)
                for n, one in zip(numbers, lane, strict=True)}  # fmt: skip
        if len(set(processes)) == 1:
            return [mine[number] for number in range(count)]
        raise_together(error)
        return _with_others(mine, [processes[number % len(where)] for number in range(count)])

    def _side_by_side(
        self, tasks: Sequence[tuple[Run, Sequence[int]]], room: Room | None, workers: int
    ) -> list[list[Trained]]:
        if not tasks:
            return []
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(self._train, run, numbers, room) for run, numbers in tasks]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _train(self, run: Run, numbers: Sequence[int], room: Room | None) -> list[Trained]:
        """Some networks one after another, each in the buffers that the one before has come to need."""
        found = []
        with enable_x64(True):  # a setting of the thread
            for number in numbers:
                trainer = run.trainer or type(run).train
                found.append(trainer(run, number, room, partial(self._watch, number)))
                room = found[-1][1].kind.room
        return found

    def _watch(self, number: int, leg: Leg) -> None:
        run = self._run
        with self._lock:
            self._done[number] = leg.done
            what = f"{run.kind.kind}, width {run.kind.width}, {len(run.keys)} runs"
            run.report(sum(self._done.values()), len(run.keys) * run.total, what)
        if self._stop.is_set():
            raise KeyboardInterrupt


def _with_others(mine: dict[int, Trained], owners: Sequence[int]) -> list[Trained]:
    """All networks, from this process and from others; `owners` are their processes."""
    arrays = {}
    for number, (records, leg) in mine.items():
        counts = np.array([leg.rank, leg.directions, *jax.tree.leaves(leg.kind.room)], np.int32)
        arrays[number] = records | {_COUNTS: counts}
    _, like = next(iter(mine.values()))
    found = []
    for records in exchange(arrays, owners):
        rank, directions, *sizes = map(int, records.pop(_COUNTS))
        room = jax.tree.unflatten(jax.tree.structure(like.kind.room), sizes)
        leg = replace(like, kind=replace(like.kind, room=room), rank=rank, directions=directions)
        found.append((records, leg))
    return found
