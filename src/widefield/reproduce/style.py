"""How all figures look: networks in colours that everyone can tell apart, theory dashed black on top."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter, NullLocator

from widefield.results import COLOURS

# A panel is half a text column of 5.5 inches wide.
PANEL = (2.75, 2.2)
TIME = r"training time (steps $\times$ dt)"
LOSS = r"loss, $\frac{1}{2}|f-y|^2$"
_SETTINGS: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.formatter.useoffset": False,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "lines.linewidth": 1.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}


@contextmanager
def look() -> Iterator[None]:
    """Drawing and saving happen inside `with look():`."""
    fonts = logging.getLogger("fontTools")
    level = fonts.level
    fonts.setLevel(logging.ERROR)  # it warns about dates inside the fonts that PDF files embed
    try:
        with rc_context(_SETTINGS):
            yield
    finally:
        fonts.setLevel(level)


def colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def shades(count: int) -> list[Any]:
    """Colours of an ordered quantity, light to dark, readable also in grey."""
    return [colormaps["viridis_r"](v) for v in np.linspace(0.12, 0.95, count)]


def canvas(heights: Sequence[float], columns: int) -> tuple[Figure, np.ndarray]:
    """An empty figure and its axes (rows, columns); `heights` of the rows are in panels."""
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * sum(heights)), layout="constrained")
    rows = {"height_ratios": list(heights)}
    return figure, figure.subplots(len(heights), columns, squeeze=False, gridspec_kw=rows)


def title(axes: Axes, letter: str, text: str) -> None:
    axes.set_title(f"({letter}) {text}" if letter else text, loc="left")


def line(axes: Axes, x: Any, y: np.ndarray, se: np.ndarray | None, colour: Any, label: str | None = None) -> None:
    """Networks: a coloured line with a band of two standard errors."""
    axes.plot(x, y, color=colour, label=label)
    if se is not None:
        axes.fill_between(x, y - 2 * se, y + 2 * se, color=colour, alpha=0.25, linewidth=0)


def theory_line(axes: Axes, x: Any, y: np.ndarray, style: str = "--") -> None:
    axes.plot(x, y, color="black", linestyle=style, linewidth=0.9)


def curves(axes: Axes, data: xr.Dataset, name: str, dim: str, palette: Sequence[Any], **index: Any) -> None:
    """`name` over time for every entry of `dim`, networks and theory."""
    for position, colour in enumerate(palette):
        part = data.isel({dim: position, **index})
        line(axes, data["time"], part[name].values, part[f"{name}_se"].values, colour)
        theory_line(axes, data["time"], part[f"{name}_theory"].values)
    axes.set_xlabel(TIME)


def log_scale(axes: Axes, values: np.ndarray | None = None) -> None:
    """Logarithmic y axis, from the smallest of `values` on: error bands that reach below do not stretch it."""
    axes.set_yscale("log")
    if values is not None:
        axes.set_ylim(bottom=0.6 * float(np.nanmin(values)))
    low, high = axes.get_ylim()
    # Within two decades powers of ten alone would leave the axis nearly bare.
    subs = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(np.inf, np.inf)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def width_axis(axes: Axes, widths: np.ndarray) -> None:
    """Logarithmic x axis with a tick at every width, or at every second one of many; the largest has one."""
    axes.set_xscale("log")
    ticks = widths if len(widths) <= 4 else widths[(len(widths) - 1) % 2 :: 2]
    axes.set_xticks(ticks, [f"{width:g}" for width in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("width $N$ (neurons)")


def points(axes: Axes, x: Any, y: np.ndarray, se: np.ndarray, colour: Any, label: str | None = None) -> None:
    """Networks: points with bars of two standard errors."""
    axes.errorbar(x, y, yerr=2 * se, fmt="o", markersize=3, color=colour, label=label, linewidth=1, capsize=1.5)


def key(figure: Figure, labels: Iterable[str], palette: Sequence[Any], theory: Sequence[str] = ("theory",)) -> None:
    """One legend for the whole figure, below it."""
    handles = [Line2D([], [], color=colour, label=text) for colour, text in zip(palette, labels, strict=False)]
    styles = ("--", ":")
    handles += [
        Line2D([], [], color="black", linestyle=style, linewidth=0.9, label=text)
        for style, text in zip(styles, theory, strict=False)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6))


def legend_below(axes: Axes, columns: int = 3) -> None:
    """A legend under the axis label, where it covers nothing."""
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=columns, handlelength=1.3, columnspacing=1.0, borderpad=0
    )


def kernel(
    axes: Axes, parts: Sequence[np.ndarray], text: str, *, limit: float | None = None, cmap: str = "RdBu_r"
) -> Any:
    """Kernels side by side, on a scale from −limit to limit where white is 0; `cmap` viridis goes from 0 to limit."""
    limit = float(np.abs(parts).max()) if limit is None else limit
    lowest = -limit if cmap == "RdBu_r" else 0.0
    image = axes.imshow(np.hstack(parts), cmap=cmap, vmin=lowest, vmax=limit, interpolation="nearest", aspect="auto")
    for edge in range(1, len(parts)):
        axes.axvline(edge * parts[0].shape[1] - 0.5, color="black", linewidth=1)
    axes.set_title(text)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    return image
