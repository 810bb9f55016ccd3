"""Cells one after another in this process; replicates within a cell use its cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..progress import Reporter
from .cells import Cell, Failure, Outcome, by_compilation
from .store import Store

PARTS = 1000  # of a cell, on the progress bar


class Meter:
    """Progress of one cell as a part of that of all."""

    def __init__(self, bar: Reporter, before: int, cells: int, name: str):
        self._bar, self._before, self._cells, self._name = bar, before, cells, name

    def update(self, done: int, total: int, message: str = "") -> None:
        part = min(PARTS * done // max(total, 1), PARTS)
        # A little below the end, which would take the bar away before the cells are gathered.
        whole = PARTS * self._cells
        self._bar.update(min(PARTS * self._before + part, whole - 1), whole, self._name)


def run_here(cells: Mapping[Any, Cell], store: Store, bar: Reporter, title: Callable[[Any], str]) -> dict[Any, Outcome]:
    """What all cells ended with; each is kept as soon as it is there, for a run after an interruption to go on from.

    Raises what the store raises, e.g. on a full disk; an error of a run is its cell's outcome.
    """
    outcomes = {key: found for key, cell in cells.items() if (found := store.load(cell)) is not None}
    missing = {key: cell for key, cell in cells.items() if key not in outcomes}
    for key in by_compilation(missing):
        cell = missing[key]
        outcome = store.load(cell)  # two cells may be the same
        if outcome is None:
            meter = Meter(bar, len(outcomes), len(cells), title(key))
            meter.update(0, 1)
            outcome = make(cell, store, meter)
        outcomes[key] = outcome
    return {key: outcomes[key] for key in cells}


def make(cell: Cell, store: Store, progress: Any = False) -> Outcome:
    """Run a cell and keep what it ended with."""
    try:
        made = cell.compute(progress)
    except Exception as error:  # whatever it is, the other cells go on
        failure = Failure.of(error)
        store.save(cell, failure)
        return failure
    store.save(cell, made)
    return made
