"""Pictures of a sweep: small multiples along one field, heat maps over two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ..errors import InputError, require
from .panels import COLOURS, Picture, finish_curves, grid

# Scalars at the end of training, the last layer's where there are several.
_FINAL = {
    "loss": "final loss",
    "test_loss": "final test loss",
    "entk_alignment": r"final alignment of $K$",
    "phi_alignment": r"final alignment of $\Phi^L$",
    "gradient_cosine": r"final cosine of $g^L$ and $\tilde g^L$",
}
_COLUMNS = 4


def plot_sweep(dataset: xr.Dataset) -> Picture:
    """The loss for every value of one swept field, or final scalars over two of them."""
    require("vary" in dataset.attrs, "dataset", "without an attribute vary", "what wf.sweep returns")
    swept = list(json.loads(dataset.attrs["vary"]))
    fields = [field for field in swept if dataset.sizes.get(field, 1) > 1] or swept[:1]
    check_fields(fields)
    rest = {field: 0 for field in swept if field not in fields and field in dataset.dims}
    dataset = dataset.isel(rest)
    if "loss" not in dataset:
        raise InputError("the sweep holds no loss; allowed: sweeps with one finished cell or more of a run with a loss")
    return _multiples(dataset, fields[0]) if len(fields) == 1 else _maps(dataset, *fields)


def check_fields(fields: Iterable[str]) -> None:
    """Raise if there is no picture of so many swept fields with more than one value."""
    several = list(fields)
    require(len(several) <= 2, "fields with several values", several, "one or two for a picture")


def _multiples(dataset: xr.Dataset, field: str) -> Picture:
    """One panel per value: its loss in colour, that of the others in grey."""
    curves = [_curve(dataset.isel({field: i})) for i in range(dataset.sizes[field])]
    positive = all(np.all(loss[np.isfinite(loss)] > 0) for _, loss, _ in curves)

    def panel(number: int, axes: Axes) -> None:
        for other, (time, loss, _) in enumerate(curves):
            if other != number:
                axes.plot(time, loss, color="0.8", linewidth=0.8, zorder=1)
        time, loss, error = curves[number]
        if np.isfinite(loss).any():
            axes.plot(time, loss, color=COLOURS[0], zorder=2)
            axes.fill_between(time, loss - 2 * error, loss + 2 * error, color=COLOURS[0], alpha=0.25, linewidth=0)
        else:
            axes.text(0.5, 0.5, "failed", transform=axes.transAxes, ha="center", color=COLOURS[1])
        finish_curves(axes, "loss, summed over points", legend=False)
        if positive:
            axes.set_yscale("log")
            smallest = min((np.nanmin(loss) for _, loss, _ in curves if np.isfinite(loss).any()), default=1.0)
            axes.set_ylim(bottom=0.5 * smallest)  # error bands that reach below 0 must not stretch the axis
        axes.set_title(f"{field} = {_short(dataset[field].values[number])}", fontsize="medium")

    panels: list[Callable[[Axes], None]] = [partial(panel, number) for number in range(len(curves))]
    return grid(panels, columns=_COLUMNS)


def _curve(cell: xr.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Time, loss and its standard error of one cell."""
    loss = cell["loss"].values
    error = cell["loss_se"].values if "loss_se" in cell else np.zeros_like(loss)
    time = cell["training_time"].values if "training_time" in cell.coords else cell["time"].values
    return time, loss, np.nan_to_num(error)


def _maps(dataset: xr.Dataset, rows: str, columns: str) -> Picture:
    """One heat map per scalar; cells that failed are white."""

    def panel(name: str, axes: Axes) -> None:
        values = final(dataset[name]).transpose(rows, columns).values
        scale = "log" if name.endswith("loss") and np.all(values[np.isfinite(values)] > 0) else "linear"
        image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis", norm=scale, interpolation="nearest")
        axes.set_xticks(range(dataset.sizes[columns]), [_short(v) for v in dataset[columns].values], rotation=45)
        axes.set_yticks(range(dataset.sizes[rows]), [_short(v) for v in dataset[rows].values])
        axes.set_xlabel(columns)
        axes.set_ylabel(rows)
        axes.set_title(_FINAL[name], fontsize="medium")
        axes.figure.colorbar(image, ax=axes, shrink=0.85)

    panels: list[Callable[[Axes], None]] = [partial(panel, name) for name in _FINAL if name in dataset]
    return grid(panels)


def final(variable: xr.DataArray) -> xr.DataArray:
    """A variable at the last recorded time, in the last layer, of every cell: cells may have different ones."""
    for dim in ("time", "layer"):
        if dim in variable.dims:
            there = variable.notnull().any([d for d in ("time", "layer") if d in variable.dims and d != dim])
            last = (there * xr.DataArray(np.arange(variable.sizes[dim]), dims=dim)).max(dim)
            variable = variable.isel({dim: last})
    return variable


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float, np.number)) else str(value)
