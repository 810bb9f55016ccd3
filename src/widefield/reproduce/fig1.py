"""Figure 1: a two-layer ReLU network under GD, FA, GLN and Hebb."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from scipy.special import ndtr

import widefield as wf

from .measures import measured, side_by_side, stack
from .study import Cell, Panel, Study, plan
from .style import LOSS, canvas, colours, curves, kernel, key, log_scale, title

RULES = {"GD": wf.rules.GD(), "FA": wf.rules.FA(rho=0.0), "GLN": wf.rules.GLN(), "Hebb": wf.rules.Hebb()}
RECORDED = ("entk", "phi", "g_tilde")


@dataclass(frozen=True)
class Size:
    width: int
    networks: int
    samples: int
    replicates: int
    steps: int
    points: int = 10
    dimension: int = 50
    dt: float = 0.025
    richness: float = 2.0


SIZES = {
    "tiny": Size(width=200, networks=6, samples=512, replicates=3, steps=8, points=4, dimension=6),
    "quick": Size(width=2000, networks=8, samples=4096, replicates=4, steps=60),
    "full": Size(width=2000, networks=32, samples=16384, replicates=8, steps=120, dt=0.0125),
}


def cells(size: Size) -> dict[str, Cell]:
    x = wf.datasets.random_gaussian(size.points, size.dimension).x
    y = np.repeat([-1.0, 1.0], size.points // 2)
    out: dict[str, Cell] = {}
    for name, rule in RULES.items():
        problem = wf.Problem(
            data=wf.Dataset(x, y),
            network=wf.MLP(depth=1, activation="relu"),
            rule=rule,
            richness=size.richness,
            training=wf.Training(steps=size.steps, dt=size.dt),
        )
        out[f"{name} theory"] = plan(wf.solve, problem, samples=size.samples, seeds=size.replicates)
        # Every rule has networks of its own, so that their errors are independent.
        networks = {"width": size.width, "seeds": size.networks, "seed": len(out)}
        out[f"{name} networks"] = plan(wf.simulate, problem, record=RECORDED, **networks)
    return out


def gather(size: Size, runs: dict[str, wf.Result]) -> xr.Dataset:
    parts = {}
    for name in RULES:
        theory, networks = runs[f"{name} theory"], runs[f"{name} networks"]
        both = side_by_side(measured(theory, **SHOWN), measured(networks, **SHOWN), tuple(SHOWN))
        shares = measured(networks, readout_share=_readout_share, layers_factor=_layers_factor)
        both = both.merge(shares, compat="no_conflicts")
        neurons = networks["h_final"].isel(layer=0).values
        both["h"] = (("sample", "neuron"), neurons)
        both["h_theory"] = (("sample", "particle"), theory["h_final"].isel(layer=0).values)
        both["gaussian_distance"], both["gaussian_distance_se"] = gaussian_distance(neurons)
        both["kurtosis"] = float(np.mean(stats.kurtosis(neurons, axis=1)))
        parts[name] = both
    return stack(parts, "rule")


def _mean_diagonal(kernels: xr.DataArray) -> xr.DataArray:
    """1/P Σ_μ G̃_μμ of the only hidden layer."""
    same = xr.DataArray(np.arange(kernels.sizes["sample"]), dims="point")
    return kernels.isel(layer=0, drop=True).isel(sample=same, sample_=same).mean("point")


SHOWN = {
    "loss": lambda n: n["loss"],
    "alignment": lambda n: n["entk_alignment"],
    "g_tilde": lambda n: _mean_diagonal(n["g_tilde"]),
    "phi_end": lambda n: n["phi"].isel(time=-1, layer=0, drop=True),
    "g_tilde_end": lambda n: n["g_tilde"].isel(time=-1, layer=0, drop=True),
}


def _readout_share(n: xr.Dataset) -> xr.DataArray:
    """The loss falls at the rate ΔᵀKΔ, and Φ is the last layer's part of K: its share over the whole training."""
    pair = n["delta"] * n["delta"].rename(sample="sample_")
    spent = [
        (kernels * pair).sum(("time", "sample", "sample_"))
        for kernels in (n["phi"].isel(layer=0, drop=True), n["entk"])
    ]
    return spent[0] / spent[1]


def _layers_factor(n: xr.Dataset) -> xr.DataArray:
    """tr K/tr Φ at initialisation: 1 where only the last layer learns."""
    traces = [_mean_diagonal(kernels) for kernels in (n["entk"].expand_dims("layer"), n["phi"])]
    return (traces[0] / traces[1]).isel(time=0, drop=True)


def gaussian_distance(neurons: np.ndarray, groups: int = 10) -> tuple[float, float]:
    """Kolmogorov–Smirnov distance of h_μ (P, neurons) from a Gaussian of the same mean and variance, mean over μ.

    The error is by the jackknife over groups of neurons. Some 0.6/√neurons is what a Gaussian would show.
    """

    def once(h: np.ndarray) -> float:
        standard = np.sort((h - h.mean(1, keepdims=True)) / h.std(1, keepdims=True), axis=1)
        below, step = ndtr(standard), 1 / h.shape[1]
        rank = step * np.arange(h.shape[1])
        return float(np.maximum(below - rank, rank + step - below).max(1).mean())

    which = np.arange(neurons.shape[1]) % groups
    left_out = np.array([once(neurons[:, which != group]) for group in range(groups)])
    return once(neurons), float(np.sqrt((groups - 1) * np.var(left_out)))


def draw(data: xr.Dataset) -> Figure:
    rules = [str(rule) for rule in data["rule"].values]
    palette = colours(len(rules))
    figure, axes = canvas((1, 0.62, 0.62), 4)
    shown = (
        ("loss", "a", "loss", LOSS),
        ("alignment", "b", "eNTK–target alignment", r"$A(K, yy^\top)$"),
        ("g_tilde", "c", r"$\tilde G$ dynamics", r"mean of $\tilde G_{\mu\mu}$"),
    )
    for place, (name, letter, text, label) in zip(axes[0], shown, strict=False):
        curves(place, data, name, "rule", palette)
        title(place, letter, text)
        place.set_ylabel(label)
    log_scale(axes[0, 0], data["loss"].values)
    _densities(axes[0, 3], data, palette)
    kernels = (("phi_end", "e", r"\Phi"), ("g_tilde_end", "f", r"\tilde G"))
    for row, (name, letter, symbol) in zip(axes[1:], kernels, strict=True):
        for position, rule in enumerate(rules):
            part = data.isel(rule=position)
            pair = [part[f"{name}_theory"].values, part[name].values]
            image = kernel(row[position], pair, rf"{rule}: final ${symbol}$")
            row[position].set_xlabel("theory | networks")
            figure.colorbar(image, ax=row[position])
        row[0].set_ylabel(rf"({letter}) sample $\mu$")
    key(figure, rules, palette)
    return figure


def _densities(axes: Axes, data: xr.Dataset, palette: list[str]) -> None:
    """(d) preactivations h_μ after training, all points of the class +1."""
    upper = slice(data.sizes["sample"] // 2, None)
    bins = np.linspace(-6, 6, 41)
    middle = (bins[1:] + bins[:-1]) / 2

    def density(h: np.ndarray) -> np.ndarray:
        found, _ = np.histogram(h, bins, density=True)
        return np.where(found > 0, found, np.nan)

    for position, colour in enumerate(palette):
        part, shift = data.isel(rule=position, sample=upper), 10.0**-position
        axes.plot(middle, shift * density(part["h"].values), color=colour)
        axes.plot(middle, shift * density(part["h_theory"].values), color="black", linestyle="--", linewidth=0.9)
    log_scale(axes)
    axes.set_xlabel(r"final preactivation $h$, points with $y=1$")
    axes.set_ylabel("density, moved down by rule")
    title(axes, "d", "final $h$ densities")


FIGURE = Study(
    name="fig1",
    title="Two-layer ReLU networks under four learning rules",
    chosen="Targets are −1 for the first half of the points and +1 for the others, inputs N(0, 1). The step, the "
    "number of steps and the seeds are ours. (c) shows the mean of the diagonal of G̃. (d): curves are moved "
    "down by a factor of 10 per rule. FA has ρ = 0.",
    sizes=SIZES,
    cells=cells,
    gather=gather,
    draw=draw,
    panels=(
        Panel("a", "loss", ("loss",)),
        Panel("b", "eNTK alignment", ("alignment",)),
        Panel("c", "G̃ dynamics", ("g_tilde",)),
        Panel("d", "final h densities"),
        Panel("e", "final Φ", ("phi_end",)),
        Panel("f", "final G̃", ("g_tilde_end",)),
    ),
)
