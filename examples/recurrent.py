"""A memory task and five learning rules in a recurrent network: infinite width against networks.

Two numbers come, silence follows, and their sum is asked for. The picture shows how fast each rule learns, how far back
in the sequence its pseudo-gradient points along the gradient, and the outlier that learning adds to the spectrum of W.

    python examples/recurrent.py            # picture in recurrent/
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import widefield as wf

RULES: dict[str, wf.rules.Rule] = {
    "backpropagation through time": wf.rules.GD(),
    "feedback alignment, ρ = 0.5": wf.rules.FA(0.5),
    "RFLO": wf.rules.RFLO(),
    "e-prop": wf.rules.EProp(),
    "Hebb": wf.rules.Hebb(),
}
RECORD = ("g", "g_tilde", "g_tilde_tilde", "outliers_real", "outliers_imaginary")


class Pair(NamedTuple):
    theory: wf.Result
    networks: wf.Result


def study(data: wf.Dataset, training: wf.Training, samples: int, width: int, seeds: int) -> dict[str, Pair]:
    """Theory and networks for every rule."""
    found = {}
    print(f"{'rule':<30}{'loss, theory':>20}{'networks':>20}{'cosine at frame 1':>20}{'outlier':>10}")
    for name, rule in RULES.items():
        network = wf.RNN("tanh", leak=0.5, gain=1.2)
        problem = wf.Problem(data, network, rule, richness=1.5, training=training)
        every = max(training.steps // 10, 1)
        theory = wf.solve(problem, samples=samples, seeds=seeds, record=RECORD, every=every, progress=False)
        nets = wf.simulate(problem, width, seeds, engine="dense", record=RECORD, every=every, progress=False)
        found[name] = Pair(theory, nets)
        losses = "".join(f"{_last(result, 'loss'):>20}" for result in found[name])
        cosine, outlier = float(theory["gradient_cosine"][-1, 0, 0]), outliers(theory)[-1]
        print(f"{name:<30}{losses}{cosine:20.3f}{outlier:10.2f}", flush=True)
    return found


def _last(result: wf.Result, name: str) -> str:
    return f"{float(result[name][-1]):.4f} ± {float(result[f'{name}_se'][-1]):.4f}"


def outliers(result: wf.Result) -> np.ndarray:
    """Modulus of the largest eigenvalue of what was learnt, over training time."""
    return np.hypot(result["outliers_real"].values[:, 0], result["outliers_imaginary"].values[:, 0])


def picture(found: dict[str, Pair]) -> Figure:
    """Theory as lines, networks as points: loss, cosine by frame at the end of training, and outlier."""
    figure = Figure(figsize=(11, 3.6), dpi=130, layout="constrained")
    loss, cosine, outlier = figure.subplots(1, 3)
    for number, (name, pair) in enumerate(found.items()):
        colour = f"C{number}"
        times = pair.theory["time"].values
        _draw(loss, times, [_estimate(result, "loss") for result in pair], colour, name)
        frames = pair.theory["frame"].values
        values = [_estimate(result, "gradient_cosine", time=-1, layer=0) for result in pair]
        _draw(cosine, frames, values, colour, name)
        _draw(outlier, times, [(outliers(result), np.zeros(len(times))) for result in pair], colour, name)
    loss.set(title="loss", xlabel="training time", yscale="log")
    cosine.set(title="cosine of gradient and pseudo-gradient", xlabel="frame of the sequence", ylim=(-0.15, 1.05))
    outlier.set(title="largest |eigenvalue| of W(t) − W(0)", xlabel="training time", ylim=(0, None))
    outlier.set_yscale("symlog", linthresh=1)  # Hebb's grows to a hundred times that of the others
    figure.legend(
        *loss.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize="small"
    )
    return figure


def _estimate(result: wf.Result, name: str, **index: int) -> tuple[np.ndarray, np.ndarray]:
    return result[name].isel(index).values, result[f"{name}_se"].isel(index).values


def _draw(axes: Axes, x: np.ndarray, estimates: list[tuple[np.ndarray, np.ndarray]], colour: str, name: str) -> None:
    (mean, error), networks = estimates
    axes.plot(x, mean, color=colour, label=name)
    axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.25, linewidth=0)
    axes.errorbar(x, networks[0], 2 * networks[1], fmt="o", markersize=3, color=colour)


def main(
    folder: Path = Path("recurrent"), points: int = 5, delay: int = 3, steps: int = 80, samples: int = 4096,
    width: int = 1000, seeds: int = 4,
) -> dict[str, Pair]:  # fmt: skip
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    data = wf.datasets.delayed_sum(points, delay, seed=2)
    found = study(data, wf.Training(steps=steps, dt=0.05), samples, width, seeds)
    picture(found).savefig(folder / "recurrent.png")
    print(f"\n{time.perf_counter() - started:.0f} s; the picture is {folder / 'recurrent.png'}")
    return found


if __name__ == "__main__":
    main()
