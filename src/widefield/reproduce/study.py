"""What a figure of the paper is made of: runs of the public interface, the data behind it, a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import xarray as xr
from matplotlib.figure import Figure

import widefield as wf

# Sizes by name: `tiny` is for tests, `quick` for a look, `full` as in the paper.
SIZES = ("tiny", "quick", "full")


@dataclass(frozen=True)
class Call:
    """One run: `function` is `wf.solve`, `wf.simulate` or anything with (problem, *, progress, **options)."""

    function: Callable[..., wf.Result]
    problem: wf.Problem
    options: Mapping[str, Any]


def plan(function: Callable[..., wf.Result], problem: wf.Problem, **options: Any) -> Call:
    """A run to be made later, or to be read from the cache: `plan(wf.solve, problem, samples=4096)`."""
    return Call(function, problem, options)


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
        calls: settings to named runs.
        gather: settings and the runs' results to the data behind the figure.
    """

    name: str
    title: str
    chosen: str
    sizes: Mapping[str, Any]
    calls: Callable[[Any], dict[str, Call]]
    gather: Callable[[Any, dict[str, wf.Result]], xr.Dataset]
    draw: Callable[[xr.Dataset], Figure]
    panels: tuple[Panel, ...]

    def settings(self, size: str) -> dict[str, Any]:
        return asdict(self.sizes[size])
