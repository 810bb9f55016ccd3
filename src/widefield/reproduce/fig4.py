"""Figure 4: feedback alignment with correlation ρ in a deep linear network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import widefield as wf

from .measures import measured, side_by_side, stack
from .study import Cell, Panel, Study, plan
from .style import LOSS, canvas, curves, key, log_scale, shades, title

RECORDED = ("entk", "phi", "g_tilde")


@dataclass(frozen=True)
class Size:
    rhos: tuple[float, ...]
    width: int
    networks: int
    steps: int
    points: int = 4
    dimension: int = 10
    dt: float = 0.02
    depth: int = 3
    richness: float = 2.0


SIZES = {
    "tiny": Size(rhos=(0.0, 1.0), width=200, networks=6, steps=10),
    "quick": Size(rhos=(0.0, 0.5, 1.0), width=4000, networks=6, steps=80),
    "full": Size(rhos=(0.0, 0.25, 0.5, 0.75, 1.0), width=4000, networks=12, steps=150),
}


def cells(size: Size) -> dict[str, Cell]:
    x = wf.datasets.sphere(size.points, size.dimension).x
    y = np.repeat([-1.0, 1.0], size.points // 2)
    out: dict[str, Cell] = {}
    for rho in size.rhos:
        problem = wf.Problem(
            data=wf.Dataset(x, y),
            network=wf.MLP(depth=size.depth, activation="linear"),
            rule=wf.rules.FA(rho=rho),
            richness=size.richness,
            training=wf.Training(steps=size.steps, dt=size.dt),
        )
        out[f"ρ={rho:g} theory"] = plan(wf.solve, problem, method="linear")
        # Every ρ has networks of its own, so that their errors are independent.
        networks = {"width": size.width, "seeds": size.networks, "seed": len(out)}
        out[f"ρ={rho:g} networks"] = plan(wf.simulate, problem, record=RECORDED, **networks)
    return out


def gather(size: Size, runs: dict[str, wf.Result]) -> xr.Dataset:
    y = xr.DataArray(np.repeat([-1.0, 1.0], size.points // 2), dims="sample")
    both = y * y.rename(sample="sample_")
    functions = {
        "loss": lambda n: n["loss"],
        "alignment": lambda n: n["entk_alignment"],
        # g does not depend on the point in a linear network, so that one entry of G̃ is all of it.
        "g_tilde": lambda n: n["g_tilde"].isel(sample=0, sample_=0),
        "overlap": lambda n: (n["phi"] * both).sum(("sample", "sample_")) / size.points,
        "speed": lambda n: (n["entk"] * both).isel(time=0, drop=True).sum(("sample", "sample_")),
    }
    parts = {}
    for rho in size.rhos:
        theory, networks = (measured(runs[f"ρ={rho:g} {kind}"], **functions) for kind in ("theory", "networks"))
        parts[rho] = side_by_side(theory, networks, tuple(functions))
    return stack(parts, "rho")


def draw(data: xr.Dataset) -> Figure:
    palette = shades(data.sizes["rho"])
    depth = data.sizes["layer"]
    figure, axes = canvas((1, 1), depth + 1)
    curves(axes[0, 0], data, "loss", "rho", palette)
    log_scale(axes[0, 0], data["loss"].values)
    axes[0, 0].set_ylabel(LOSS)
    title(axes[0, 0], "a", "loss")
    curves(axes[1, 0], data, "alignment", "rho", palette)
    axes[1, 0].set_ylabel(r"$A(K, yy^\top)$")
    title(axes[1, 0], "c", "eNTK–task alignment")
    for row, (name, letter, symbol) in enumerate((("g_tilde", "b", r"\tilde G"), ("overlap", "d", "H"))):
        for layer in range(depth):
            place = axes[row, layer + 1]
            curves(place, data, name, "rho", palette, layer=layer)
            title(
                place,
                letter,
                rf"${symbol}^{{{layer + 1}}}$" if row == 0 else rf"overlap of $H^{{{layer + 1}}}$ with $y$",
            )
        axes[row, 1].set_ylabel(r"$\tilde G^\ell$" if row == 0 else r"$y^\top H^\ell y/|y|^2$")
    key(figure, [rf"$\rho={rho:g}$" for rho in data["rho"].values], palette, ("theory (closed algebra)",))
    return figure


FIGURE = Study(
    name="fig4",
    title="Deep linear networks under ρ-aligned feedback",
    chosen="Inputs on the sphere |x|² = D, targets −1 for the first half of the points and +1 for the others. "
    "Richness, width, points, dimension, step and number of steps are ours. Theory: the closed algebra of App. "
    "E, no sampling.",
    sizes=SIZES,
    cells=cells,
    gather=gather,
    draw=draw,
    panels=(
        Panel("a", "loss", ("loss",)),
        Panel("b", "G̃ per layer", ("g_tilde",)),
        Panel("c", "eNTK alignment", ("alignment",)),
        Panel("d", "overlap of H with y", ("overlap",)),
    ),
)
