"""Pictures of the expansion in 1/N."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from ..results.panels import COLOURS, Picture, finish_curves, new_picture
from .expansion import FiniteWidth


def plot_expansion(found: FiniteWidth) -> Picture:
    """Loss with its shift and fluctuations at the smallest width; N·shift and N·variance against N."""
    panels = [name for name in ("loss",) if name in found.dataset]
    onset = found.onset is not None
    figure = new_picture(4.2 * (len(panels) + 2 * onset) or 4.2, 3.4)
    places = figure.subplots(1, len(panels) + 2 * onset, squeeze=False).ravel()
    for axes, name in zip(places, panels, strict=False):
        _curve(axes, found, name)
    if onset:
        _against_width(places[-2], found, "shift", "N·shift over its mean")
        _against_width(places[-1], found, "variance", "N·variance over its mean")
    return figure


def _curve(axes: Axes, found: FiniteWidth, name: str) -> None:
    width = found.widths[0]
    low = found.at(width, 0.9)
    time = found.dataset["time"].values
    axes.fill_between(time, low[f"{name}_lower"], low[f"{name}_upper"], color=COLOURS[0], alpha=0.25, linewidth=0)
    axes.plot(time, low[name], color=COLOURS[0], label=f"width {width}; 90 % of networks")
    axes.plot(time, found.dataset[name], color="black", linestyle="--", label="infinite width")
    finish_curves(axes, name)


def _against_width(axes: Axes, found: FiniteWidth, what: str, label: str) -> None:
    assert found.onset is not None
    shown = [str(name) for name in found.onset["variable"].values if name in ("f", "loss", "phi", "entk", "g_tilde")]
    for number, name in enumerate(shown):
        row = found.onset.sel(variable=name)
        wide = np.array(found.widths) * (1 + 0.03 * number)
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(wide, row[what], 2 * row[f"{what}_error"], fmt="o-", color=colour, label=name, markersize=3)
    axes.axhline(1, color="black", linewidth=0.5)
    axes.set_xscale("log")
    axes.set_xlabel("width N")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(fontsize="small", frameon=False)
