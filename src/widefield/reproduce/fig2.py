"""Figure 2: lazy kernels over the angle between inputs, and how networks approach them with width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import widefield as wf

from .measures import power_law, squared_error, stack
from .study import Cell, Panel, Study, plan
from .style import canvas, legend_below, log_scale, points, shades, title, width_axis

RHOS = (0.0, 0.25, 0.5, 0.75, 1.0)
DEPTHS = (1, 2, 4, 8)
ANGLE_DEPTH = 4
KERNELS = ("entk", "phi", "g")


@dataclass(frozen=True)
class Size:
    widths: tuple[int, ...]
    networks: int
    cases: tuple[tuple[int, float], ...]  # depth and ρ
    points: int = 3
    dimension: int = 10
    angles: int = 201


SIZES = {
    "tiny": Size(widths=(16, 128), networks=160, cases=((2, 0.5),), angles=21),
    "quick": Size(widths=(32, 128, 512), networks=64, cases=((3, 0.0), (3, 0.5), (3, 1.0), (1, 0.5))),
    "full": Size(
        widths=(32, 64, 128, 256, 512, 1024, 2048),
        networks=200,
        cases=((4, 0.0), (4, 0.5), (4, 1.0), (2, 0.5), (8, 0.5)),
    ),
}


def case_name(depth: int, rho: float) -> str:
    return f"L={depth}, ρ={rho:g}"


def problem_of(size: Size, depth: int, rho: float) -> wf.Problem:
    """Kernels at initialisation are all that is wanted: one short step."""
    return wf.Problem(
        data=wf.datasets.sphere(size.points, size.dimension),
        network=wf.MLP(depth=depth, activation="relu"),
        rule=wf.rules.FA(rho=rho),
        richness=1.0,
        training=wf.Training(steps=1, dt=1e-6),
    )


def cells(size: Size) -> dict[str, Cell]:
    return {
        f"{case_name(*case)}, N={width}": plan(
            wf.simulate,
            problem_of(size, *case),
            width=width,
            seeds=size.networks,
            # Networks without N×N arrays have the same law, and are faster where they are wide.
            engine="dense" if width <= 512 else "conditioned",
            record=KERNELS,
            neurons=1,
        )
        for case in size.cases
        for width in size.widths
    }


def gather(size: Size, runs: dict[str, wf.Result]) -> xr.Dataset:
    data = _over_angles(size)
    errors = xr.concat([_errors_of_case(size, runs, *case) for case in size.cases], dim="case", join="outer")
    data = data.merge(errors.assign_coords(case=[case_name(*case) for case in size.cases]), compat="no_conflicts")
    return data.assign_coords(
        case_depth=("case", [d for d, _ in size.cases]), case_rho=("case", [r for _, r in size.cases])
    )


def _over_angles(size: Size) -> xr.Dataset:
    angles = np.linspace(0, np.pi, size.angles)

    def relu(depth: int) -> wf.MLP:
        return wf.MLP(depth=depth, activation="relu")

    fa = [wf.lazy.angle_kernel(relu(ANGLE_DEPTH), wf.rules.FA(rho=rho), angles) for rho in RHOS]
    deep = [wf.lazy.angle_kernel(relu(depth), wf.rules.FA(rho=0.5), angles) for depth in DEPTHS]
    gated = [wf.lazy.angle_kernel(relu(depth), wf.rules.GLN(), angles) for depth in DEPTHS]
    line = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    gd = wf.lazy.kernels(line[:1], relu(ANGLE_DEPTH), "gd", line, outputs=("entk", "phi"))
    return xr.Dataset(
        {
            "fa_by_rho": (("rho", "angle"), np.stack(fa)),
            "fa_by_depth": (("depth", "angle"), np.stack(deep)),
            "gln_by_depth": (("depth", "angle"), np.stack(gated)),
            "nngp": ("angle", gd.phi[-1, 0]),
            "ntk": ("angle", gd.entk[0]),
        },
        coords={"angle": angles, "rho": list(RHOS), "depth": list(DEPTHS)},
    )


def _errors_of_case(size: Size, runs: dict[str, wf.Result], depth: int, rho: float) -> xr.Dataset:
    """Squared errors of Φ^ℓ, G^ℓ and K against the lazy kernels, and their fitted exponents."""
    problem = problem_of(size, depth, rho)
    lazy = wf.lazy.kernels(problem.data.x, problem.network, problem.rule, outputs=KERNELS)
    theory = xr.Dataset(
        {
            "entk": (("sample", "sample_"), lazy.entk),
            **{name: (("layer", "sample", "sample_"), getattr(lazy, name)) for name in ("phi", "g")},
        },
        coords={"layer": np.arange(1, depth + 1)},
    )
    out: dict[str, xr.DataArray] = {}
    for name in KERNELS:
        found = stack(
            {
                width: squared_error(
                    runs[f"{case_name(depth, rho)}, N={width}"], theory, name, ("sample", "sample_"), time=0
                )
                for width in size.widths
            },
            "width",
        )
        out[f"{name}_error"], out[f"{name}_error_se"] = found["error"], found["error_se"]
        value, se = out[f"{name}_error"].transpose("width", ...), out[f"{name}_error_se"].transpose("width", ...)
        fits = [
            power_law(np.array(size.widths), v, s)
            for v, s in zip(
                value.values.reshape(len(size.widths), -1).T, se.values.reshape(len(size.widths), -1).T, strict=True
            )
        ]
        shape, dims = value.shape[1:], value.dims[1:]
        out[f"{name}_exponent"] = xr.DataArray(np.array([f.value for f in fits]).reshape(shape), dims=dims)
        out[f"{name}_exponent_se"] = xr.DataArray(np.array([f.error for f in fits]).reshape(shape), dims=dims)
    return xr.Dataset(out).drop_vars("time", errors="ignore")


def draw(data: xr.Dataset) -> Figure:
    figure, axes = canvas((1.3, 1.3), 3)
    shown = (
        ("fa_by_rho", "rho", r"$\rho$", "a", rf"ReLU FA, $L={ANGLE_DEPTH}$"),
        ("fa_by_depth", "depth", "$L$", "b", r"ReLU FA, $\rho=0.5$"),
        ("gln_by_depth", "depth", "$L$", "c", "ReLU GLN"),
    )
    for place, (name, dim, symbol, letter, text) in zip(axes[0], shown, strict=True):
        values = data[name] / data[name].isel(angle=0)
        for colour, (label, curve) in zip(shades(data.sizes[dim]), values.groupby(dim), strict=True):
            place.plot(data["angle"], curve.values.ravel(), color=colour, label=f"{symbol} = {label:g}")
        place.set_xticks([0, np.pi / 2, np.pi], ["0", r"$\pi/2$", r"$\pi$"])
        place.set_xlabel(r"angle $\theta$ between inputs (rad)")
        place.set_ylabel(r"$K(\theta)/K(0)$")
        title(place, letter, text)
        legend_below(place)
    deepest = data.isel(case=int(np.argmax(data["case_depth"].values)))
    for place, name, letter, symbol in ((axes[1, 0], "phi", "d", r"\Phi"), (axes[1, 1], "g", "e", "G")):
        layers = int(deepest["case_depth"])
        for layer, colour in enumerate(shades(layers)):
            _error_line(place, data["width"], deepest.isel(layer=layer), name, colour, rf"$\ell={layer + 1}$")
        title(place, letter, rf"${symbol}^\ell$, $L={layers}$")
    for position, colour in enumerate(shades(data.sizes["case"])):
        case = data.isel(case=position)
        _error_line(axes[1, 2], data["width"], case, "entk", colour, str(case["case"].values))
    title(axes[1, 2], "f", "eNTK")
    for place, symbol in zip(axes[1], (r"\Phi", "G", "K"), strict=True):
        _guide(place, data["width"].values)
        log_scale(place)
        width_axis(place, data["width"].values)
        place.set_ylabel(rf"$|{symbol}_N-{symbol}_\infty|^2/|{symbol}_\infty|^2$")
        legend_below(place, 2)
    return figure


def _error_line(axes, widths, part: xr.Dataset, name: str, colour, label: str) -> None:
    value, se = part[f"{name}_error"].values, part[f"{name}_error_se"].values
    points(axes, widths, value, se, colour, f"{label}: {float(part[f'{name}_exponent']):.2f}")
    axes.plot(widths, value, color=colour, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")


def _guide(axes, widths: np.ndarray) -> None:
    """A line of slope −1 below the data, as the theory has it."""
    low, _ = axes.get_ylim()
    axes.plot(widths, low * widths[-1] / widths, color="black", linestyle="--", linewidth=0.9, label="slope −1")


FIGURE = Study(
    name="fig2",
    title="Lazy kernels, and their convergence with width",
    chosen="Kernels are shown relative to θ = 0. Networks are at initialisation, on a few points of the sphere |x|² = "
    "D, and the numbers in the legends of (d)–(f) are fitted exponents of the squared error. The GLN kernel has "
    "the factor L+1 that Table 2 lacks, which the ratio hides.",
    sizes=SIZES,
    cells=cells,
    gather=gather,
    draw=draw,
    panels=(
        Panel("a", "FA, varying ρ"),
        Panel("b", "FA, varying L"),
        Panel("c", "GLN, varying L"),
        Panel("d", "Φ convergence"),
        Panel("e", "G convergence"),
        Panel("f", "eNTK convergence"),
    ),
)
