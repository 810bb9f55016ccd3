"""The pieces that all pictures are made of: a figure, a curve with its error band, a kernel."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..atomic import check_writable, require_path, write_file
from ..errors import InputError
from .result import Result

# Okabe and Ito's colours, which stay apart for every kind of colour vision (their yellow is too light for lines).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DIVERGING = "RdBu_r"


class Picture(Figure):
    """A figure outside pyplot's global state, which Jupyter shows all the same."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=self.get_dpi())
        return buffer.getvalue()

    def to_html(self, text: str = "") -> str:
        """An <img> element that holds the picture itself; `text` is what is read aloud in its place."""
        data = base64.b64encode(self._repr_png_()).decode()
        return f'<img src="data:image/png;base64,{data}" alt="{html.escape(text)}" style="max-width:100%">'


def new_picture(width: float, height: float) -> Picture:
    return Picture(figsize=(width, height), dpi=130, layout="constrained")


def check_picture(path: str | Path) -> None:
    """Raise before any work if a picture cannot be written to `path`."""
    require_path("path", path)
    allowed = Figure().canvas.get_supported_filetypes()
    suffix = Path(path).suffix[1:].lower()
    if suffix not in allowed:
        raise InputError(f"the picture is '{path}'; allowed endings: {', '.join(sorted(allowed))}")
    check_writable(path)


def save_picture(figure: Figure, path: str | Path) -> None:
    """Write a figure, atomically; the ending of `path` says in which format."""
    check_picture(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=Path(path).suffix[1:].lower())
    write_file(path, buffer.getbuffer())


def estimate(result: Result, name: str, **index: Any) -> tuple[np.ndarray, np.ndarray]:
    """The values of a variable and their standard errors (0 where there are none), at an index."""
    value = result[name].isel(index).values
    se = result[f"{name}_se"].isel(index).values if f"{name}_se" in result else np.zeros_like(value)
    return value, se


def last_frames(result: Result, name: str) -> dict[str, int]:
    """The index of the last frame, for a variable of a recurrent network."""
    return {dim: -1 for dim in ("frame", "frame_", "read", "read_") if dim in result[name].dims}


def draw_curve(axes: Axes, result: Result, name: str, *, layer: int | None = None, **line: Any) -> None:
    """A variable over time with a band of two standard errors; `layer` counts from 0, frames are the last."""
    index = {} if layer is None or "layer" not in result[name].dims else {"layer": layer}
    index |= last_frames(result, name)
    value, se = estimate(result, name, **index)
    time = result["time"].values
    (drawn,) = axes.plot(time, value, **line)
    if np.any(se > 0):
        axes.fill_between(time, value - 2 * se, value + 2 * se, color=drawn.get_color(), alpha=0.25, linewidth=0)


def finish_curves(axes: Axes, label: str, *, log: bool = False, legend: bool = True) -> None:
    axes.set_xlabel("training time (steps × dt)")
    axes.set_ylabel(label)
    if log and all(np.all(np.asarray(line.get_ydata()) > 0) for line in axes.lines):
        axes.set_yscale("log")
        # Error bands that reach below 0 must not stretch the axis.
        axes.set_ylim(
            bottom=0.5
            * min(float(np.min(line.get_ydata())) for line in axes.lines if len(np.asarray(line.get_ydata())))
        )
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small", frameon=False)


def kernel_over_time(result: Result, name: str, layer: int = -1) -> np.ndarray:
    """A kernel (time, sample, sample_) at the last frame, averaged over outputs; `layer` counts from 0."""
    kernel = result[name].isel(last_frames(result, name))
    if "layer" in kernel.dims:
        kernel = kernel.isel(layer=layer)
    if "output" in kernel.dims:
        same = xr.DataArray(np.arange(kernel.sizes["output"]), dims="both")
        kernel = kernel.isel(output=same, output_=same).mean("both")
    return kernel.transpose("time", "sample", "sample_").values


def final_kernel(result: Result, name: str) -> np.ndarray:
    return kernel_over_time(result, name)[-1]


def draw_kernel(axes: Axes, kernel: np.ndarray, title: str, limit: float) -> Any:
    """A kernel on a colour scale from −limit to limit; white is 0."""
    image = axes.imshow(kernel, cmap=_DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set_title(title, fontsize="medium")
    axes.set_xticks([])
    axes.set_yticks([])
    return image


def draw_density(axes: Axes, values: np.ndarray, **line: Any) -> None:
    """The density of all values, as a histogram's outline; the outermost 0.1 % on either side are left out."""
    low, high = np.quantile(values, [0.001, 0.999])
    edges = np.linspace(low, high, 61)
    heights, _ = np.histogram(values, bins=edges, density=True)
    axes.plot((edges[1:] + edges[:-1]) / 2, heights, **line)


def limit_of(*kernels: np.ndarray) -> float:
    largest = max(float(np.max(np.abs(kernel))) for kernel in kernels)
    return largest if np.isfinite(largest) and largest > 0 else 1.0


def grid(panels: Sequence[Callable[[Axes], None]], columns: int = 3) -> Picture:
    """A picture with the panels in reading order."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_picture(4.2 * columns, 3.4 * rows)
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    for place, panel in zip(places, panels, strict=False):
        panel(place)
    for place in places[len(panels) :]:
        place.set_axis_off()
    return figure
