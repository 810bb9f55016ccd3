"""Figure 5: the exactly solvable two-layer linear network on whitened data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import widefield as wf

from .measures import measured, power_law, side_by_side, stack
from .study import Cell, Panel, Study, plan
from .style import LOSS, canvas, colours, curves, key, log_scale, points, title

RULES = {"GD": wf.rules.GD(), "FA ρ=0": wf.rules.FA(rho=0.0), "FA ρ=1": wf.rules.FA(rho=1.0), "Hebb": wf.rules.Hebb()}
Y = np.array([1.0, -0.8, 0.6, -1.4])
NORM = float(np.linalg.norm(Y))
# Losses below this are not compared. Finite networks also err across y, by a square of order 1/N that decays slower
# than the loss along y: GD of width 4000 has 3.3e-10 along and 2.6e-10 across at the end, and theory 3.4e-10.
LOWEST_LOSS = 1e-4


@dataclass(frozen=True)
class Size:
    width: int
    networks: int
    steps: int
    dt: float
    every: int
    moved: tuple[float, ...]  # richness of the networks in (c)
    richness: float = 2.0
    step_scale: float = 0.08  # dt in (c) is this over 1 + γ₀|y|


SIZES = {
    "tiny": Size(width=200, networks=6, steps=60, dt=0.01, every=5, moved=(1.0,), step_scale=0.25),
    "quick": Size(width=2000, networks=8, steps=300, dt=0.005, every=5, moved=(0.25, 1.0, 4.0)),
    "full": Size(
        width=4000, networks=32, steps=800, dt=0.002, every=20, moved=(0.125, 0.25, 0.5, 1.0, 2.0, 4.0), step_scale=0.04
    ),
}


def cells(size: Size) -> dict[str, Cell]:
    out: dict[str, Cell] = {}

    def networks(rule: wf.rules.Rule, richness: float, dt: float) -> Cell:
        problem = wf.Problem(
            data=wf.Dataset(x=2 * np.eye(4), y=Y),  # |x|² = D: K^x is the identity
            network=wf.MLP(depth=1, activation="linear"),
            rule=rule,
            richness=richness,
            # The exact solution is for gradient flow; a second-order step leaves no visible error.
            training=wf.Training(steps=size.steps, dt=dt, integrator="ab2"),
        )
        options = {"width": size.width, "seeds": size.networks, "every": size.every, "record": ("phi",)}
        # Every run has networks of its own, so that their errors are independent.
        return plan(wf.simulate, problem, seed=len(out), **options)

    for name, rule in RULES.items():
        out[name] = networks(rule, size.richness, size.dt)
        for richness in size.moved if name != "Hebb" else ():
            out[f"{name}, γ₀={richness:g}"] = networks(rule, richness, size.step_scale / (1 + richness * NORM))
    return out


def gather(size: Size, runs: dict[str, wf.Result]) -> xr.Dataset:
    y = xr.DataArray(Y / NORM, dims="sample")

    def h_y(n: xr.Dataset) -> xr.DataArray:
        return (n["phi"].isel(layer=0, drop=True) * y * y.rename(sample="sample_")).sum(("sample", "sample_"))

    def alignment(n: xr.Dataset) -> xr.DataArray:
        same = xr.DataArray(np.arange(len(Y)), dims="sample")
        return h_y(n) / n["phi"].isel(layer=0, sample=same, sample_=same, drop=True).sum("sample")

    def moved(n: xr.Dataset) -> xr.DataArray:
        return h_y(n).isel(time=-1, drop=True) - h_y(n).isel(time=0, drop=True)

    parts, movements = {}, {}
    for name, rule in RULES.items():
        theory = exact(rule, size.richness, runs[name]["time"].values)
        networks = measured(runs[name], loss=lambda n: n["loss"], alignment=alignment)
        both = side_by_side(theory, networks, ("loss", "alignment"))
        telling = both["loss_theory"] > LOWEST_LOSS
        parts[name] = both.assign({n: both[n].where(telling) for n in ("loss", "loss_se", "loss_theory")})
        if name != "Hebb":
            per_richness = {r: measured(runs[f"{name}, γ₀={r:g}"], moved=moved) for r in size.moved}
            movement = stack(per_richness, "trained_richness")
            values = [wf.exact.feature_movement(rule, r, NORM) for r in size.moved]
            movement["moved_theory"] = ("trained_richness", np.array(values))
            movement["moved_theory_se"] = xr.zeros_like(movement["moved_theory"])
            movements[name] = movement.merge(_movement_law(rule), compat="no_conflicts")
    moves = stack(movements, "rule").reindex(rule=list(RULES))
    return xr.merge([stack(parts, "rule"), moves, _by_correlation(size.richness)], compat="no_conflicts")


def _by_correlation(richness: float) -> xr.Dataset:
    """Where FA ends for every initial correlation ρ."""
    rhos = np.linspace(0, 1, 41)
    ends = [wf.exact.fixed_point(wf.rules.FA(rho=rho), richness, NORM) for rho in rhos]
    values = {
        "end_h_y": ("rho", np.array([e.h_y for e in ends])),
        "end_g_tilde": ("rho", np.array([e.g_tilde for e in ends])),
    }
    return xr.Dataset(values, coords={"rho": rhos})


def exact(rule: wf.rules.Rule, richness: float, times: np.ndarray) -> xr.Dataset:
    """Loss and task alignment yᵀHy/(|y|² tr H) of the exact flow; Hebb is solved point by point."""
    if isinstance(rule, wf.rules.Hebb):
        flows = [wf.exact.two_layer_linear(rule, richness, abs(y), times) for y in Y]
        kernels = np.stack([flow.h_y for flow in flows])
        loss = sum(flow.delta**2 for flow in flows) / 2
        alignment = (Y**2 @ kernels) / NORM**2 / kernels.sum(0)
    else:
        flow = wf.exact.two_layer_linear(rule, richness, NORM, times)
        loss, alignment = flow.delta**2 / 2, flow.h_y / (flow.h_y + len(Y) - 1)
    return xr.Dataset({"loss": ("time", loss), "alignment": ("time", alignment)}, coords={"time": times})


def _movement_law(rule: wf.rules.Rule) -> xr.Dataset:
    """ΔH_y over richness, and its exponents, fitted to the first and to the last decade."""
    richness = np.logspace(-3, 5, 81)
    movement = np.array([wf.exact.feature_movement(rule, r, NORM) for r in richness])
    out = xr.Dataset({"movement": ("gamma", movement)}, coords={"gamma": richness})
    for name, part in (("small", slice(0, 11)), ("large", slice(-11, None))):
        out[f"exponent_{name}"], out[f"exponent_{name}_se"] = power_law(richness[part], movement[part])
    return out


def draw(data: xr.Dataset) -> Figure:
    names = [str(name) for name in data["rule"].values]
    palette = colours(len(names))
    figure, axes = canvas((1.1,), 3)
    curves(axes[0, 0], data, "loss", "rule", palette)
    log_scale(axes[0, 0], data["loss"].values)
    axes[0, 0].set_ylabel(LOSS)
    title(axes[0, 0], "a", "loss")
    curves(axes[0, 1], data, "alignment", "rule", palette)
    axes[0, 1].set_ylabel(r"$y^\top H y / (|y|^2\,\mathrm{tr} H)$")
    title(axes[0, 1], "b", "kernel–task alignment")
    place = axes[0, 2]
    for position, colour in enumerate(palette[:3]):
        part = data.isel(rule=position)
        place.loglog(data["gamma"], part["movement"], color="black", linestyle="--", linewidth=0.9)
        points(place, data["trained_richness"], part["moved"].values, part["moved_se"].values, colour)
    place.set_xlim(1e-2, 1e3)
    place.set_ylim(1e-5, 1e4)
    for text, at in (
        (r"$\propto\gamma_0^{2}$", (0.012, 2e-2)),
        (r"$\propto\gamma_0$", (15, 400)),
        (r"$\propto\gamma_0^{2/3}$", (100, 5)),
    ):
        place.annotate(text, at)
    place.set_xlabel(r"richness $\gamma_0$")
    place.set_ylabel(r"$\Delta H_y$ after training")
    title(place, "c", "feature learning against richness")
    key(figure, names, palette, ("theory (exact)",))
    return figure


FIGURE = Study(
    name="fig5",
    title="Exactly solvable two-layer linear networks",
    chosen="Four whitened points with targets (1, −0.8, 0.6, −1.4), |y| = 1.99; richness, width, step and time are "
    "ours. Networks take second-order (Adams–Bashforth) steps towards gradient flow. GD is dΔ/dt = −2H_yΔ: the "
    "main text lacks the 2. (a): losses below 1e-4 are left out: there errors of order 1/N across y, which decay more "
    "slowly, add to those of the theory. (b): tr H of GD and FA is H_y + P − 1.",
    sizes=SIZES,
    cells=cells,
    gather=gather,
    draw=draw,
    panels=(
        Panel("a", "loss", ("loss",)),
        Panel("b", "kernel–task alignment", ("alignment",)),
        Panel("c", "ΔH_y against γ₀", ("moved",)),
    ),
)
