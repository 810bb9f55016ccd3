"""Solve the problem of the paper's Figure 1 for every position of the sliders in docs/static_explorer.md.

    python docs/build/explorer.py        # writes docs/explorer/data.js

The numbers are kept in the repository, so that building the site does not wait for them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import widefield as wf

PLACE = Path(__file__).parent.parent / "explorer" / "data.js"
START = "window.WIDEFIELD_EXPLORER = "
RICHNESS = (0.1, 0.5, 1.0, 2.0, 3.0)
RHO = (0.0, 0.25, 0.5, 0.75, 1.0)
RULES = {"gd": wf.rules.GD, "fa": wf.rules.FA, "gln": wf.rules.GLN, "hebb": wf.rules.Hebb}
OPTIONS: dict[str, Any] = {"samples": 2048, "seeds": 4}
CURVES = ("loss", "entk_alignment", "gradient_cosine")
KERNELS = ("phi", "g_tilde")
CURVE_STEPS = range(0, 61, 2)
KERNEL_STEPS = (0, 10, 20, 40, 60)


def settings() -> list[tuple[str, float | None, float]]:
    """Rule, ρ (None where the rule has none) and richness of every solution."""
    chosen = [(name, rho) for name in RULES for rho in (RHO if name == "fa" else (None,))]
    return [(name, rho, richness) for name, rho in chosen for richness in RICHNESS]


def problem_of(name: str, rho: float | None, richness: float) -> wf.Problem:
    """The problem of Figure 1: a two-layer ReLU network, ten random inputs, five of each class."""
    return wf.Problem(
        data=wf.Dataset(wf.datasets.random_gaussian(points=10, dimension=50).x, np.repeat([-1.0, 1.0], 5)),
        network=wf.MLP(depth=1, activation="relu"),
        rule=RULES[name]() if rho is None else RULES[name](rho=rho),
        richness=richness,
        training=wf.Training(steps=60, dt=0.025),
    )


def key(name: str, rho: float | None, richness: float) -> str:
    """How the page finds a solution; numbers as JavaScript writes them."""
    return "|".join((name, "" if rho is None else f"{rho:g}", f"{richness:g}"))


def numbers(values: Any, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in np.ravel(values)]


def stored(result: wf.Result) -> dict[str, list[Any]]:
    """Curves with their standard errors, and kernels row by row at some times."""
    found: dict[str, list[Any]] = {}
    for name in CURVES:
        curve = result.dataset[[name, f"{name}_se"]].isel(time=list(CURVE_STEPS)).squeeze()
        found[name], found[f"{name}_se"] = numbers(curve[name], 5), numbers(curve[f"{name}_se"], 2)
    for name in KERNELS:
        found[name] = [numbers(result[name].isel(time=step, layer=0), 3) for step in KERNEL_STEPS]
    return found


def main() -> None:
    runs: dict[str, dict[str, list[Any]]] = {}
    for one in settings():
        runs[key(*one)] = stored(wf.solve(problem_of(*one), **OPTIONS, progress=False))
        print(key(*one), flush=True)
    dt = problem_of("gd", None, 1.0).training.dt
    page = {
        "rules": list(RULES),
        "rho": RHO,
        "richness": RICHNESS,
        "time": numbers(np.array(CURVE_STEPS) * dt, 6),
        "kernel_time": numbers(np.array(KERNEL_STEPS) * dt, 6),
        "runs": runs,
    }
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(START + json.dumps(page, separators=(",", ":")) + ";\n", encoding="utf-8")


if __name__ == "__main__":
    main()
