"""Pictures of one result and of two side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from ..errors import InputError, require, require_integer
from .comparison import Comparison
from .panels import (
    COLOURS,
    Picture,
    draw_curve,
    draw_density,
    draw_kernel,
    final_kernel,
    finish_curves,
    grid,
    kernel_over_time,
    limit_of,
    new_picture,
)
from .result import Result

_KERNELS = {"entk": r"$K$", "phi": r"$\Phi^L$", "g_tilde": r"$\tilde G^L$"}
_SYMBOLS = {
    "entk": "K",
    "phi": r"\Phi",
    "g": "G",
    "g_tilde": r"\tilde G",
    "g_tilde_tilde": r"\tilde{\tilde G}",
}
_CURVES = ("loss", "test_loss")
_ALIGNMENTS = ("entk_alignment", "phi_alignment")


def plot_result(result: Result) -> Picture:
    """Loss, alignments, gradient cosine and the final kernels; what the result does not hold is left out."""
    panels: list[Callable[[Axes], None]] = []
    if "loss" in result:
        panels.append(partial(_losses, {"": result}))
    elif "f" in result:
        panels.append(partial(_outputs, result))
    if any(name in result for name in _ALIGNMENTS):
        panels.append(partial(_alignments, {"": result}))
    if "gradient_cosine" in result:
        panels.append(partial(_cosines, {"": result}))
    panels += [partial(_kernel, result, name) for name in _KERNELS if name in result and "time" in result[name].dims]
    if not panels:
        raise InputError("the result holds nothing that can be drawn; allowed: results with a loss, f or kernels")
    return _titled(result, panels)


def thumbnail(result: Result) -> Picture | None:
    """The curves of `plot_result` in one row, or None where there are none."""
    drawn = ((_losses, _CURVES[:1]), (_alignments, _ALIGNMENTS), (_cosines, ("gradient_cosine",)))
    panels = [partial(draw, {"": result}) for draw, needed in drawn if any(name in result for name in needed)]
    if not panels:
        return None
    figure = grid(panels)
    figure.set_dpi(60)
    return figure


def plot_loss(result: Result) -> Picture:
    """The loss over training time."""
    _require_one(result, "a loss", _CURVES)
    return _titled(result, [partial(_losses, {"": result})])


def plot_alignments(result: Result) -> Picture:
    """Alignments with the targets, and the gradient cosine."""
    _require_one(result, "an alignment", (*_ALIGNMENTS, "gradient_cosine"))
    drawn = ((_alignments, _ALIGNMENTS), (_cosines, ("gradient_cosine",)))
    panels = [partial(draw, {"": result}) for draw, needed in drawn if any(name in result for name in needed)]
    return _titled(result, panels)


def plot_kernels(result: Result, name: str, times: int) -> Picture:
    """A kernel at evenly spaced times (columns) in every layer (rows), on one colour scale."""
    require_kernel(result, name)
    require_integer("times", times, 1)
    layers = layers_of(result, name)
    kernels = [kernel_over_time(result, name, position) for position, _ in layers]
    limit, chosen = limit_of(*kernels), evenly(len(result["time"]), times)
    figure = new_picture(2.4 * len(chosen) + 1.0, 2.4 * len(layers) + 0.5)
    places = figure.subplots(len(layers), len(chosen), squeeze=False)
    for row, kernel, (_, layer) in zip(places, kernels, layers, strict=True):
        for axes, index in zip(row, chosen, strict=True):
            image = draw_kernel(axes, kernel[index], "", limit)
        row[0].set_ylabel(kernel_symbol(name, layer))
    for axes, index in zip(places[0], chosen, strict=True):
        axes.set_title(f"time {result['time'].values[index]:.3g}", fontsize="medium")
    figure.colorbar(image, ax=places, shrink=0.85)
    figure.suptitle(_title(result))
    return figure


def plot_densities(result: Result) -> Picture:
    """Densities of preactivations, one panel per layer."""
    _require_one(result, "preactivations", ("h_final",))

    def panel(layer: int, axes: Axes) -> None:
        if "h_particles" in result:
            start = result["h_particles"].isel(time=0).sel(layer=layer).values
            draw_density(axes, start, color="0.5", linestyle="--", label="start")
        draw_density(axes, result["h_final"].sel(layer=layer).values, color=COLOURS[0], label="end")
        finish_curves(axes, "density", legend=len(axes.lines) > 1)
        axes.set_xlabel(f"preactivation $h^{{{layer}}}$")

    return _titled(result, [partial(panel, int(layer)) for layer in result["layer"].values])


def require_kernel(result: Result, name: str) -> None:
    """Raise if `name` is no kernel that the result holds along training."""
    known = [kernel for kernel in _SYMBOLS if kernel in result and "time" in result[kernel].dims]
    require(bool(known), "the result", "one without kernels", "results with kernels along training")
    require(name in known, "name", name, f"one of {', '.join(known)}")


def layers_of(result: Result, name: str) -> list[tuple[int, int | None]]:
    """The layers of a kernel: place along the axis, and number; of K, which has none, a single entry."""
    if "layer" not in result[name].dims:
        return [(-1, None)]
    return [(place, int(layer)) for place, layer in enumerate(result[name]["layer"].values)]


def kernel_symbol(name: str, layer: int | None) -> str:
    return f"${_SYMBOLS[name]}$" if layer is None else f"${_SYMBOLS[name]}^{{{layer}}}$"


def evenly(count: int, wanted: int) -> np.ndarray:
    """Up to `wanted` of 0 … count − 1, evenly spaced; the last is always among them."""
    return np.unique(np.linspace(count - 1, 0, min(wanted, count)).round().astype(int))


def plot_comparison(comparison: Comparison) -> Picture:
    """Curves in one, final kernels side by side with their difference, and the numbers."""
    a, b, numbers = comparison.a, comparison.b, repr(comparison)
    names = _names(a, b)
    results = dict(zip(names, (a, b), strict=True))
    curves: list[Callable[[Axes], None]] = []
    for draw, needed in ((_losses, _CURVES[:1]), (_alignments, _ALIGNMENTS), (_cosines, ("gradient_cosine",))):
        if any(name in a and name in b for name in needed):
            curves.append(partial(draw, results))
    kernels = [name for name in _KERNELS if name in a and name in b and "time" in a[name].dims]
    if not curves and not kernels:
        raise InputError("a and b have nothing in common that can be drawn; allowed: results of the same problem")
    rows = bool(curves) + len(kernels)
    figure = new_picture(12.6, 3.4 * rows + 0.18 * (numbers.count("\n") + 3))
    places = figure.subplots(rows, 3, squeeze=False)
    if curves:
        for place, panel in zip(places[0], curves, strict=False):
            panel(place)
        for place in places[0][len(curves) :]:
            place.set_axis_off()
    for row, name in zip(places[bool(curves) :], kernels, strict=True):
        _kernel_row(figure, row, results, name)
    figure.supxlabel(f"\n{names[0]} − {names[1]}\n{numbers}", family="monospace", size="small", ha="center")
    return figure


def _names(a: Result, b: Result) -> tuple[str, str]:
    first, second = (_title(result) for result in (a, b))
    return (first, second) if first != second else (f"A: {first}", f"B: {second}")


def _titled(result: Result, panels: Sequence[Callable[[Axes], None]]) -> Picture:
    figure = grid(panels)
    figure.suptitle(_title(result))
    return figure


def _require_one(result: Result, what: str, names: Sequence[str]) -> None:
    if not any(name in result for name in names):
        raise InputError(f"the result holds no {' or '.join(names)}; allowed: results with {what}")


def _title(result: Result) -> str:
    width = result.info.get("width")
    return result.method if width is None else f"{result.method}, width {width}"


def _losses(results: dict[str, Result], axes: Axes) -> None:
    for number, (label, result) in enumerate(results.items()):
        for name, style in zip(_CURVES, ("-", ":"), strict=True):
            if name in result:
                text = " ".join(part for part in (label, "test" if name == "test_loss" else "") if part) or "training"
                draw_curve(axes, result, name, color=COLOURS[number], linestyle=style, label=text)
    finish_curves(axes, "loss, summed over points", log=True, legend=len(axes.lines) > 1)


def _outputs(result: Result, axes: Axes) -> None:
    f = result["f"]
    axes.plot(result["time"].values, f.values.reshape(f.sizes["time"], -1), color=COLOURS[0], alpha=0.6, linewidth=1)
    finish_curves(axes, r"outputs $f_\mu$", legend=False)


def _alignments(results: dict[str, Result], axes: Axes) -> None:
    for number, result in enumerate(results.values()):
        if "entk_alignment" in result:
            colour = _colour(number, 0, results)
            draw_curve(axes, result, "entk_alignment", color=colour, label="$K$" if number == 0 else None)
        if "phi_alignment" in result:
            _layers(axes, results, number, "phi_alignment", r"\Phi", offset=1)
    finish_curves(axes, r"alignment with $yy^\top$")


def _cosines(results: dict[str, Result], axes: Axes) -> None:
    for number in range(len(results)):
        _layers(axes, results, number, "gradient_cosine", r"\ell=", offset=0)
    finish_curves(axes, r"cosine of $g$ and $\tilde g$")


def _layers(axes: Axes, results: dict[str, Result], number: int, name: str, symbol: str, offset: int) -> None:
    """One curve per layer. Colour tells layers apart, or, where there are two results, the results (style: layers)."""
    result = list(results.values())[number]
    for position, layer in enumerate(result["layer"].values):
        text = f"${symbol}{layer}$" if symbol.endswith("=") else f"${symbol}^{{{layer}}}$"
        style = "-" if len(results) == 1 else ("--", ":", "-.")[position % 3]
        colour = _colour(number, position + offset, results)
        draw_curve(
            axes, result, name, layer=position, color=colour, linestyle=style, label=text if number == 0 else None
        )


def _colour(number: int, position: int, results: dict[str, Result]) -> str:
    return COLOURS[(position if len(results) == 1 else number) % len(COLOURS)]


def _kernel(result: Result, name: str, axes: Axes) -> None:
    kernel = final_kernel(result, name)
    image = draw_kernel(axes, kernel, f"final {_KERNELS[name]}", limit_of(kernel))
    axes.figure.colorbar(image, ax=axes, shrink=0.85)


def _kernel_row(figure: Picture, row: list[Axes], results: dict[str, Result], name: str) -> None:
    kernels = [final_kernel(result, name) for result in results.values()]
    limit = limit_of(*kernels)
    for axes, kernel, label in zip(row, kernels, results, strict=False):
        image = draw_kernel(axes, kernel, f"final {_KERNELS[name]}, {label}", limit)
    figure.colorbar(image, ax=list(row[:2]), shrink=0.85)
    gap = kernels[0] - kernels[1]
    image = draw_kernel(row[2], gap, f"difference of {_KERNELS[name]}", limit_of(gap))
    figure.colorbar(image, ax=row[2], shrink=0.85)
