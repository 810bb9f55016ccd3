"""The page's plots: Bokeh figures whose data are replaced when a result arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColorBar, ColumnDataSource, LinearColorMapper
from bokeh.palettes import RdBu11
from bokeh.plotting import figure

from ..results.panels import kernel_over_time
from ..results.result import Result

# Who is drawn, in which colour and dash; readable on white and on black.
STYLES = {"A": ("#4c9bd6", "solid"), "B": ("#e0803a", "solid"), "networks": ("#8f8f8f", "dashed")}
CURVES = {
    "loss": "loss, summed over points",
    "entk_alignment": "alignment of K with yyᵀ",
    "phi_alignment": "alignment of Φ with yyᵀ",
    "gradient_cosine": "cosine of g and g̃",
}
KERNELS = {"entk": "K", "phi": "Φ", "g": "G", "g_tilde": "G̃"}
LABELS = {"A": "rule A", "B": "rule B", "networks": "networks"}
BINS = 40


def curve_data(result: Result | None, name: str, layer: int) -> dict[str, Any]:
    """A variable over time with a band of two standard errors."""
    if result is None or name not in result:
        return {key: np.zeros(0) for key in ("time", "value", "low", "high")}
    chosen = {"layer": min(layer, result.dataset.sizes["layer"])} if "layer" in result[name].dims else {}
    value, error = result[name].sel(chosen).values, result[f"{name}_se"].sel(chosen).values
    return {"time": result["time"].values, "value": value, "low": value - 2 * error, "high": value + 2 * error}


def density_data(result: Result | None, layer: int) -> dict[str, Any]:
    """Density of the layer's preactivations at the end of training, over neurons and points."""
    if result is None or "h_final" not in result:
        return {"h": np.zeros(0), "density": np.zeros(0)}
    values = result["h_final"].sel(layer=min(layer, result.dataset.sizes["layer"])).values.ravel()
    density, edges = np.histogram(values, bins=BINS, density=True)
    return {"h": (edges[1:] + edges[:-1]) / 2, "density": density}


def kernel_frames(result: Result, name: str, layer: int) -> np.ndarray:
    """A kernel (time, P, P) of one layer."""
    if "layer" in result[name].dims:
        return result[name].sel(layer=min(layer, result.dataset.sizes["layer"])).transpose("time", ...).values
    return kernel_over_time(result, name)


class Curves:
    """One plot of a variable over time, for everyone in `STYLES`."""

    def __init__(self, name: str):
        self.name = name
        self.figure = _plot(CURVES[name], "training time (steps × dt)", "log" if name == "loss" else "linear")
        self.sources: dict[str, ColumnDataSource] = {}
        for who, (colour, dash) in STYLES.items():
            source = ColumnDataSource(curve_data(None, name, 1), name=f"{name} {who}")
            self.figure.varea("time", "low", "high", source=source, fill_alpha=0.25, fill_color=colour)
            self.figure.line(
                "time", "value", source=source, color=colour, line_dash=dash, line_width=2, legend_label=LABELS[who]
            )
            self.sources[who] = source
        self.figure.legend.visible = name == "loss"

    def show(self, who: str, result: Result | None, layer: int) -> None:
        self.sources[who].data = curve_data(result, self.name, layer)


class Density:
    """Densities of preactivations."""

    def __init__(self) -> None:
        self.figure = _plot("density of h at the end", "h")
        self.sources: dict[str, ColumnDataSource] = {}
        for who, (colour, dash) in STYLES.items():
            source = ColumnDataSource(density_data(None, 1), name=f"density {who}")
            self.figure.line("h", "density", source=source, color=colour, line_dash=dash, line_width=2)
            self.sources[who] = source

    def show(self, who: str, result: Result | None, layer: int) -> None:
        self.sources[who].data = density_data(result, layer)


class Kernel:
    """One kernel at one training time; white is 0."""

    def __init__(self, who: str):
        self.source = ColumnDataSource({"image": [np.zeros((1, 1))], "size": [1]}, name=f"kernel {who}")
        self.figure = _plot(f"kernel, {who}", "sample", grid=False)
        self.figure.y_range.flipped = True
        self._colours = LinearColorMapper(palette=RdBu11, low=-1, high=1)
        self.figure.image("image", x=0, y=0, dw="size", dh="size", source=self.source, color_mapper=self._colours)
        self.figure.add_layout(ColorBar(color_mapper=self._colours, width=8), "right")

    def show(self, frames: np.ndarray, time: int, title: str) -> None:
        largest = float(np.abs(frames).max())  # one scale for the whole movie
        self._colours.low, self._colours.high = -(largest or 1.0), largest or 1.0
        frame = frames[min(time, len(frames) - 1)]
        self.source.data = {"image": [frame], "size": [len(frame)]}
        self.figure.title.text = title


def _plot(title: str, label: str, scale: Any = "linear", grid: bool = True) -> Any:
    made = figure(
        title=title, x_axis_label=label, y_axis_type=scale, width=320, height=260,
        tools="pan,wheel_zoom,box_zoom,reset,save", toolbar_location="right",
    )  # fmt: skip
    made.toolbar.logo = None
    made.grid.visible = grid
    return made
