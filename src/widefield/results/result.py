"""The labelled answer of every solver and simulation."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ..extras import require_extra
from ..problem.problem import Problem
from .variables import DESCRIPTIONS, DIMS, DRAWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Result:
    """Labelled data of one run (`dataset`), with the whole problem and how it was solved in its attributes."""

    dataset: xr.Dataset

    def __getitem__(self, name: str) -> xr.DataArray:
        return self.dataset[name]

    def __contains__(self, name: str) -> bool:
        return name in self.dataset

    @property
    def problem(self) -> Problem:
        return Problem.from_toml(self.dataset.attrs["problem"])

    @property
    def method(self) -> str:
        return self.dataset.attrs["method"]

    @property
    def info(self) -> dict[str, Any]:
        """How the run went: samples, seeds, ranks, times, iterations, …"""
        return json.loads(self.dataset.attrs["info"])

    def save(self, path: str | Path) -> None:
        """Write to a netCDF file, atomically: an existing file is replaced whole or not at all."""
        from .files import save_result

        save_result(self, path)

    def summary(self) -> str:
        """What was learnt, in a few lines."""
        from .summary import summarise

        return summarise(self)

    def plot(self) -> Figure:
        """Loss, alignments and kernels as a Matplotlib figure."""
        require_extra("plot", "a picture")
        from .pictures import plot_result

        return plot_result(self)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from .summary import summarise_html

        return summarise_html(self)


def make_result(
    problem: Problem,
    method: str,
    replicates: Mapping[str, np.ndarray] | None = None,
    exact: Mapping[str, np.ndarray] | None = None,
    *,
    steps: np.ndarray,
    errors: Mapping[str, np.ndarray] | None = None,
    seed: int | None = None,
    info: Mapping[str, Any] | None = None,
    coordinates: Mapping[str, np.ndarray] | None = None,
) -> Result:
    """Label raw arrays.

    Args:
        replicates: variables with a leading axis over independent runs; mean and standard
            error (over that axis, two or more runs) are stored. Axes follow `DIMS`, output axes included.
        exact: variables without a leading axis, stored as they are.
        steps: the training steps at which time-dependent variables were recorded.
        errors: standard errors to store for variables of `exact`.
        coordinates: further coordinates, e.g. {"step": …} of two-time objects.
    """
    outputs = problem.data.outputs
    variables: dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]] = {}

    def add(name: str, value: np.ndarray, suffix: str = "") -> None:
        dims = DIMS[name]
        kept = tuple(d for d in dims if outputs > 1 or d not in ("output", "output_"))
        value = np.asarray(value)
        if value.ndim == len(dims) and len(kept) < len(dims):
            value = value.reshape([n for n, d in zip(value.shape, dims, strict=True) if d in kept])
        describes = DESCRIPTIONS.get(name, name.replace("_", " "))
        variables[name + suffix] = (kept, value, {"long_name": ("standard error of " if suffix else "") + describes})

    for name, value in (replicates or {}).items():
        value = np.asarray(value)
        if name in DRAWS:
            # Runs are pooled along the last axis, neurons.
            add(name, np.moveaxis(value, 0, -2).reshape(*value.shape[1:-1], -1))
            continue
        add(name, value.mean(0))
        if len(value) > 1:
            add(name, value.std(0, ddof=1) / np.sqrt(len(value)), "_se")
    for name, value in (exact or {}).items():
        add(name, value)
    for name, value in (errors or {}).items():
        add(name, value, "_se")

    coords: dict[str, Any] = {
        "time": (
            "time",
            np.asarray(steps) * problem.training.dt,
            {"long_name": "training time", "units": "steps × dt"},
        ),
        "layer": ("layer", np.arange(1, problem.network.depth + 1)),
    }
    coords.update({name: (name, np.asarray(value)) for name, value in (coordinates or {}).items()})
    dataset = xr.Dataset(variables, coords=coords)
    dataset.attrs.update(
        problem=problem.to_toml(),
        method=method,
        versions=json.dumps(_versions()),
        info=json.dumps(dict(info or {})),
    )
    if seed is not None:
        dataset.attrs["seed"] = seed
    return Result(dataset)


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("widefield", "jax", "jaxlib", "numpy", "scipy", "xarray")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
