"""Figure 6: feature kernels of deep nonlinear ρ-FA, by the engine and by the paper's Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import widefield as wf

from .measures import side_by_side, stack
from .study import Cell, Panel, Study, plan
from .style import TIME, canvas, kernel, key, line, shades, theory_line, title


@dataclass(frozen=True)
class Size:
    width: int
    networks: int
    samples: int
    replicates: int
    algorithm_samples: int
    steps: int
    dt: float
    points: int
    rhos: tuple[float, ...] = (0.0, 1.0)
    dimension: int = 10
    depth: int = 2
    richness: float = 1.0


SIZES = {
    "tiny": Size(256, 4, 512, 3, 256, steps=3, dt=0.2, points=2, rhos=(1.0,), dimension=4),
    "quick": Size(3000, 4, 4096, 4, 1000, steps=12, dt=0.2, points=4),
    "full": Size(3000, 16, 16384, 8, 4000, steps=30, dt=0.1, points=6),
}


def cells(size: Size) -> dict[str, Cell]:
    x = wf.datasets.sphere(size.points, size.dimension).x
    y = np.repeat([-1.0, 1.0], size.points // 2)
    out: dict[str, Cell] = {}
    for rho in size.rhos:
        problem = wf.Problem(
            data=wf.Dataset(x, y),
            network=wf.MLP(depth=size.depth, activation="tanh"),
            rule=wf.rules.FA(rho=rho),
            richness=size.richness,
            training=wf.Training(steps=size.steps, dt=size.dt),
        )
        out[f"ρ={rho:g} theory"] = plan(wf.solve, problem, samples=size.samples, seeds=size.replicates)
        out[f"ρ={rho:g} algorithm 1"] = plan(
            wf.solve, problem, method="fixed_point", samples=size.algorithm_samples, seeds=size.replicates
        )
        out[f"ρ={rho:g} networks"] = plan(wf.simulate, problem, width=size.width, seeds=size.networks, seed=1)
    return out


def gather(size: Size, runs: dict[str, wf.Result]) -> xr.Dataset:
    parts = {}
    for rho in size.rhos:
        theory, algorithm, networks = (
            runs[f"ρ={rho:g} {kind}"].dataset for kind in ("theory", "algorithm 1", "networks")
        )
        both = side_by_side(theory, networks, ("phi", "loss"))
        # Algorithm 1 in the place of the networks: the two theories are held against each other.
        solvers = side_by_side(theory, algorithm, ("phi", "loss"))
        parts[rho] = both.merge(
            solvers.rename({name: f"algorithm_{name}" for name in solvers.data_vars}), compat="no_conflicts"
        )
    return stack(parts, "rho")


def draw(data: xr.Dataset) -> Figure:
    depth = data.sizes["layer"]
    figure, axes = canvas((0.55, 1.0) * data.sizes["rho"], depth)
    pairs = _pairs(data.sizes["sample"])
    palette = shades(len(pairs))
    for position, rho in enumerate(data["rho"].values):
        part = data.isel(rho=position)
        for layer in range(depth):
            above, below = axes[2 * position, layer], axes[2 * position + 1, layer]
            triple = [part[name].isel(time=-1, layer=layer).values for name in ("phi_theory", "algorithm_phi", "phi")]
            image = kernel(above, triple, rf"final $\Phi^{layer + 1}$, $\rho={rho:g}$")
            above.set_xlabel("mean field | Alg. 1 | networks")
            figure.colorbar(image, ax=above)
            for (m, n), colour in zip(pairs, palette, strict=True):
                one = part.isel(layer=layer, sample=m, sample_=n)
                line(below, data["time"], one["phi"].values, one["phi_se"].values, colour)
                theory_line(below, data["time"], one["phi_theory"].values)
                theory_line(below, data["time"], one["algorithm_phi"].values, ":")
            below.set_xlabel(TIME)
            below.set_ylabel(rf"$\Phi^{layer + 1}_{{\mu\nu}}(t)$")
            title(below, "", rf"dynamics, $\rho={rho:g}$")
        axes[2 * position, 0].set_ylabel(rf"({'ac'[position]}) sample $\mu$")
        title(axes[2 * position + 1, 0], "bd"[position], rf"dynamics, $\rho={rho:g}$")
    labels = [rf"$\mu,\nu={m + 1},{n + 1}$" for m, n in pairs]
    key(figure, labels, palette, ("mean field", "Algorithm 1"))
    return figure


def _pairs(points: int) -> list[tuple[int, int]]:
    """A point with itself, with one of its class and with one of the other."""
    half = points // 2
    return [(0, 0), (0, half - 1), (0, points - 1)] if half > 1 else [(0, 0), (0, 1)]


FIGURE = Study(
    name="fig6",
    title="Deep tanh networks under ρ-aligned feedback",
    chosen="Depth 3 is L = 2 hidden layers, as depth 4 is L = 3 elsewhere in the paper. Data, step and number of steps "
    'are ours. Dashed: one pass in time with `mean_field`; dotted: Algorithm 1, `method="fixed_point"`.',
    sizes=SIZES,
    cells=cells,
    gather=gather,
    draw=draw,
    panels=(
        Panel("a–d", "Φ of all layers and times", ("phi",)),
        Panel("a–d", "loss", ("loss",)),
        Panel("a–d", "Algorithm 1 against mean field: Φ", ("algorithm_phi",)),
        Panel("a–d", "Algorithm 1 against mean field: loss", ("algorithm_loss",)),
    ),
)
