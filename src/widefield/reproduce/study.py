"""What a figure of the paper is made of: runs of the public interface, the data behind it, a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import xarray as xr
from matplotlib.figure import Figure

import widefield as wf
from widefield.sweeps import Cell

# Sizes by name: `tiny` is for tests, `quick` for a look, `full` as in the paper.
SIZES = ("tiny", "quick", "full")


def plan(run: Callable[..., wf.Result], problem: wf.Problem, **options: Any) -> Cell:
    """A run to be made later, or to be read if it is there: `plan(wf.solve, problem, samples=4096)`."""
    return Cell(run, problem, options)


class Panel(NamedTuple):
    """A part of a figure and the variables whose theory is held against networks in it."""

    letter: str
    title: str
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """One figure.

    Attributes:
        chosen: what the paper does not say, and what was taken here.
        sizes: settings by the name of a size; each is a dataclass.
        cells: settings to named runs.
        gather: settings and the runs' results to the data behind the figure.
    """

    name: str
    title: str
    chosen: str
    sizes: Mapping[str, Any]
    cells: Callable[[Any], dict[str, Cell]]
    gather: Callable[[Any, dict[str, wf.Result]], xr.Dataset]
    draw: Callable[[xr.Dataset], Figure]
    panels: tuple[Panel, ...]

    def settings(self, size: str) -> dict[str, Any]:
        return asdict(self.sizes[size])
