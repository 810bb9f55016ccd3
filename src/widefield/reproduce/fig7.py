"""Figure 7: how the kernels of ReLU networks fluctuate from one initialisation to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import widefield as wf

from .measures import power_law
from .study import Cell, Panel, Study, plan
from .style import canvas, kernel, legend_below, log_scale, points, shades, title, width_axis

KERNELS = ("phi", "g")


@dataclass(frozen=True)
class Size:
    width: int
    networks: int
    widths: tuple[int, ...]  # of (c) and (d), with `members` networks each
    members: int
    depth: int = 10


SIZES = {
    "tiny": Size(width=64, networks=100, widths=(32, 256), members=200, depth=3),
    "quick": Size(width=200, networks=150, widths=(100, 200, 400), members=120),
    "full": Size(width=1000, networks=500, widths=(50, 100, 200, 400, 800, 1600), members=400),
}


def network(size: Size) -> wf.MLP:
    return wf.MLP(depth=size.depth, activation="relu")


def cells(size: Size) -> dict[str, Cell]:
    problem = wf.Problem(
        data=wf.Dataset(x=np.ones((1, 4)), y=np.ones(1)),  # one point, K^x = 1
        network=network(size),
        rule=wf.rules.GD(),
        richness=1.0,
        training=wf.Training(steps=1, dt=1e-6),  # initialisation is all that is wanted
    )

    def options(width: int) -> dict[str, Any]:
        # Networks without N×N arrays have the same law, and are faster where they are wide.
        return {"record": KERNELS, "neurons": 1, "engine": "dense" if width <= 512 else "conditioned"}

    def networks(width: int, count: int, seed: int) -> Cell:
        return plan(wf.simulate, problem, width=width, seeds=count, seed=seed, **options(width))

    out = {"covariance": networks(size.width, size.networks, 1000)}
    return out | {f"N={width}": networks(width, size.members, 0) for width in size.widths}


def gather(size: Size, runs: dict[str, wf.Result]) -> xr.Dataset:
    layers = np.arange(1, size.depth + 1)
    theory = wf.fluctuations.kernel_covariance(network(size), np.ones((1, 4)))
    out = xr.Dataset(coords={"layer": layers, "layer_": layers, "width": list(size.widths)})
    for name, exact in zip(KERNELS, (theory.phi_phi, theory.g_g), strict=True):

        def covariance_of(call: str, name: str = name) -> tuple[np.ndarray, np.ndarray]:
            return jackknife_covariance(runs[call].replicates[name].isel(time=0, sample=0, sample_=0).values)

        covariance, error = covariance_of("covariance")
        out[f"{name}_covariance"] = (("layer", "layer_"), size.width * covariance)
        out[f"{name}_covariance_se"] = (("layer", "layer_"), size.width * error)
        out[f"{name}_covariance_theory"] = (("layer", "layer_"), exact[..., 0, 0, 0, 0])
        out[f"{name}_covariance_theory_se"] = (("layer", "layer_"), np.zeros((size.depth, size.depth)))
        by_width = [covariance_of(f"N={width}") for width in size.widths]
        variance, error = (np.stack([np.diag(part) for part in parts]) for parts in zip(*by_width, strict=True))
        out[f"{name}_variance"] = (("width", "layer"), variance)
        out[f"{name}_variance_se"] = (("width", "layer"), error)
        leading = np.diag(exact[..., 0, 0, 0, 0])[None] / np.array(size.widths)[:, None]
        out[f"{name}_variance_theory"] = (("width", "layer"), leading)
        out[f"{name}_variance_theory_se"] = (("width", "layer"), np.zeros_like(leading))
        fits = [power_law(np.array(size.widths), v, e) for v, e in zip(variance.T, error.T, strict=True)]
        out[f"{name}_exponent"] = ("layer", np.array([fit.value for fit in fits]))
        out[f"{name}_exponent_se"] = ("layer", np.array([fit.error for fit in fits]))
    return out


def jackknife_covariance(values: np.ndarray, groups: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Covariance over the first axis (networks, layers) and its standard error, leaving out a group at a time."""
    which = np.arange(len(values)) % groups
    left_out = np.stack([np.cov(values[which != group].T) for group in range(groups)])
    return np.cov(values.T), np.sqrt((groups - 1) * left_out.var(0))


def draw(data: xr.Dataset) -> Figure:
    figure, axes = canvas((0.8, 1.25), 2)
    shown = zip(KERNELS, (r"\Phi", "G"), ("ac", "bd"), strict=True)
    for column, (name, symbol, letters) in enumerate(shown):
        theory, seen = data[f"{name}_covariance_theory"].values, data[f"{name}_covariance"].values
        image = kernel(axes[0, column], [theory, seen], "", cmap="viridis")
        axes[0, column].set_xlabel("theory | networks")
        axes[0, column].set_ylabel(r"layer $\ell$")
        title(axes[0, column], letters[0], rf"$N\,$Cov$({symbol}^\ell, {symbol}^{{\ell'}})$")
        figure.colorbar(image, ax=axes[0, column])
        place = axes[1, column]
        chosen = sorted({0, data.sizes["layer"] // 2, data.sizes["layer"] - 1})
        for layer, colour in zip(chosen, shades(len(chosen)), strict=True):
            part = data.isel(layer=layer)
            label = rf"$\ell={layer + 1}$: {float(part[f'{name}_exponent']):.2f}"
            points(
                place, data["width"], part[f"{name}_variance"].values, part[f"{name}_variance_se"].values, colour, label
            )
            place.plot(data["width"], part[f"{name}_variance_theory"], color="black", linestyle="--", linewidth=0.9)
        log_scale(place)
        width_axis(place, data["width"].values)
        place.set_ylabel(rf"Var $\,{symbol}^\ell$")
        title(place, letters[1], rf"${symbol}^\ell$ variance (dashed: theory)")
        legend_below(place, 2)
    return figure


FIGURE = Study(
    name="fig7",
    title="Kernel fluctuations of deep ReLU networks",
    chosen="One input with K^x = 1; the widths are ours. Theory is the leading order in 1/N: at depth L its relative "
    "error is of order 5L/(2N), 1% at N = 2500 and 25% at N = 100, which (c) and (d) show. Numbers in the "
    "legends are fitted exponents.",
    sizes=SIZES,
    cells=cells,
    gather=gather,
    draw=draw,
    panels=(
        Panel("a", "Φ covariance", ("phi_covariance",)),
        Panel("b", "G covariance", ("g_covariance",)),
        Panel("c", "Φ variance against N", ("phi_variance",)),
        Panel("d", "G variance against N", ("g_variance",)),
    ),
)
