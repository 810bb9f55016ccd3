"""Figure 3: direct feedback alignment in a deep tanh network, from lazy to rich."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

import widefield as wf
from widefield.results import Estimate

from .measures import measured, power_law, side_by_side, squared_error, stack
from .study import Cell, Panel, Study, plan
from .style import LOSS, PANEL, curves, kernel, key, legend_below, log_scale, points, shades, title, width_axis

# What the panels show of single networks and replicates.
SHOWN = {
    "loss": lambda n: n["loss"],
    "entk_alignment": lambda n: n["entk_alignment"],
    "alignment": lambda n: n["phi_alignment"].isel(layer=-1, drop=True),
    "cosine": lambda n: n["gradient_cosine"].mean("layer"),
    "entk_start": lambda n: n["entk"].isel(time=0, drop=True),
    "entk_end": lambda n: n["entk"].isel(time=-1, drop=True),
    "phi_start": lambda n: n["phi"].isel(time=0, layer=-1, drop=True),
    "phi_end": lambda n: n["phi"].isel(time=-1, layer=-1, drop=True),
}

# Tolerance of conditioned networks; the error of width 10⁵ is ten times as large.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Size:
    richness: tuple[float, ...]
    width: int
    networks: int
    samples: int
    replicates: int
    steps: int
    points: int
    widths: tuple[int, ...]  # of (e), with `members` networks each
    members: int
    dimension: int = 20
    dt: float = 0.05
    depth: int = 3
    lazy: float = 0.02  # richness that stands for the lazy limit, in theory only


SIZES = {
    "tiny": Size((0.2, 4.0), 256, 4, 512, 3, 20, 4, widths=(64, 256), members=12, dimension=5, depth=2, dt=0.1),
    "quick": Size((0.2, 1.0, 3.0), 4000, 4, 4096, 4, 40, 6, widths=(100, 300, 900), members=16),
    "full": Size((0.2, 0.5, 1.0, 3.0), 4000, 8, 16384, 8, 50, 8, (100, 300, 1000, 3000, 10_000, 100_000), members=6),
}


def cells(size: Size) -> dict[str, Cell]:
    x = wf.datasets.sphere(size.points, size.dimension).x
    y = np.repeat([-1.0, 1.0], size.points // 2)

    def problem_at(richness: float) -> wf.Problem:
        return wf.Problem(
            data=wf.Dataset(x, y),
            network=wf.MLP(depth=size.depth, activation="tanh"),
            rule=wf.rules.DFA(),
            richness=richness,
            training=wf.Training(steps=size.steps, dt=size.dt),
        )

    theory = {"samples": size.samples, "seeds": size.replicates}
    out: dict[str, Cell] = {"lazy theory": plan(wf.solve, problem_at(size.lazy), **theory)}
    for richness in size.richness:
        problem = problem_at(richness)
        out[f"γ₀={richness:g} theory"] = plan(wf.solve, problem, **theory)
        out[f"γ₀={richness:g} networks"] = plan(wf.simulate, problem, width=size.width, seeds=size.networks, seed=1)
        for width in size.widths:
            # Networks without N×N arrays have the same law and reach N = 10⁵.
            engine = "dense" if width <= 1000 else "conditioned"
            out[f"γ₀={richness:g}, N={width}"] = plan(
                wf.simulate,
                problem,
                width=width,
                seeds=size.members,
                seed=100,
                engine=engine,
                tolerance=TOLERANCE * min(1.0, richness),
                record=("entk",),
            )
    return out


def gather(size: Size, runs: dict[str, wf.Result]) -> xr.Dataset:
    parts = {}
    for richness in size.richness:
        theory, networks = (runs[f"γ₀={richness:g} {kind}"] for kind in ("theory", "networks"))
        both = side_by_side(measured(theory, **SHOWN), measured(networks, **SHOWN), tuple(SHOWN))
        dims = ("time", "sample", "sample_")
        errors = {w: squared_error(runs[f"γ₀={richness:g}, N={w}"], theory.dataset, "entk", dims) for w in size.widths}
        both = both.merge(stack(errors, "width"), compat="no_conflicts")
        fit = power_law(np.array(size.widths), both["error"].values, both["error_se"].values)
        both["exponent"], both["exponent_se"] = fit.value, fit.error
        parts[richness] = both
    lazy = measured(runs["lazy theory"], lazy_cosine=SHOWN["cosine"])
    return stack(parts, "richness").merge(lazy, compat="no_conflicts")


def draw(data: xr.Dataset) -> Figure:
    richness = data["richness"].values
    palette = shades(len(richness))
    figure = Figure(figsize=(3 * PANEL[0], 2.5 * PANEL[1]), layout="constrained")
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.0, 1.35))
    upper, lower = parts[0, 0], parts[1, 0]
    shown = (
        ("loss", "a", "DFA training loss", LOSS),
        ("alignment", "b", r"$\Phi^L$ alignment", r"$A(\Phi^L, yy^\top)$"),
        ("cosine", "c", r"correlation of $g$ and $\tilde g$", r"corr$(g, \tilde g)$"),
    )
    for place, (name, letter, text, label) in zip(upper.subplots(1, 3), shown, strict=True):
        curves(place, data, name, "richness", palette)
        title(place, letter, text)
        place.set_ylabel(label)
    left, right = lower.subfigures(1, 2, squeeze=False, width_ratios=(1.7, 1.0))[0]
    _kernels(left, data)
    _convergence(right.subplots(), data, palette)
    key(figure, [rf"$\gamma_0={r:g}$" for r in richness], palette)
    return figure


def _kernels(part: SubFigure, data: xr.Dataset) -> None:
    """(d) final eNTKs on one scale."""
    count = data.sizes["richness"]
    places = part.subplots(-(-count // 2), 2, squeeze=False).ravel()
    limit = float(np.abs(data["entk_end"]).max())
    for position, place in enumerate(places[:count]):
        one = data.isel(richness=position)
        pair = [one["entk_end_theory"].values, one["entk_end"].values]
        image = kernel(place, pair, rf"final $K$, $\gamma_0={float(one['richness']):g}$", limit=limit)
        place.set_xlabel("theory | networks")
    for empty in places[count:]:
        empty.set_axis_off()
    places[0].set_ylabel(r"(d) sample $\mu$")
    part.colorbar(image, ax=places.tolist(), shrink=0.8)


def _convergence(axes: Axes, data: xr.Dataset, palette: list) -> None:
    """(e) squared error of the eNTK over all of training."""
    widths = data["width"].values
    for position, colour in enumerate(palette):
        one = data.isel(richness=position)
        slope = f"slope {Estimate(float(one['exponent']), float(one['exponent_se']))}"
        label = rf"$\gamma_0={float(one['richness']):g}$, {slope}"
        points(axes, widths, one["error"].values, one["error_se"].values, colour, label)
        axes.plot(widths, one["error"].values, color=colour, linewidth=0.8)
    guide = 1.5 * float(data["error"].isel(width=0).max()) * widths[0] / widths
    axes.plot(widths, guide, color="black", linestyle="--", linewidth=0.9, label="slope −1")
    log_scale(axes)
    width_axis(axes, widths)
    axes.set_ylabel(r"$\langle|K_N-K_\infty|^2\rangle_t / \langle|K_\infty|^2\rangle_t$")
    title(axes, "e", "eNTK dynamics against width")
    legend_below(axes, 1)


FIGURE = Study(
    name="fig3",
    title="Deep tanh networks under direct feedback alignment, lazy to rich",
    chosen="Inputs on the sphere |x|² = D, targets −1 for the first half of the points and +1 for the others. Points, "
    "dimension, step, number of steps and the richness values are ours. Widths above 1000 in (e) are "
    "conditioned networks. The sampling noise of the theory is taken off the error in (e).",
    sizes=SIZES,
    cells=cells,
    gather=gather,
    draw=draw,
    panels=(
        Panel("a", "loss", ("loss",)),
        Panel("b", "Φ^L alignment", ("alignment",)),
        Panel("c", "gradient correlation", ("cosine",)),
        Panel("d", "final eNTK", ("entk_end",)),
        Panel("e", "eNTK error against width"),
    ),
)
