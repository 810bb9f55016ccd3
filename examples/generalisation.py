"""Test error against richness for every learning rule on handwritten digits: infinite width against networks.

How well each rule generalises as features move more is the question that the theory's authors leave open.

    python examples/generalisation.py            # picture and table in generalisation/, under 10 minutes on 2 cores
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import widefield as wf

RULES: dict[str, wf.rules.Rule] = {
    "GD": wf.rules.GD(),
    "FA, ρ = 0": wf.rules.FA(0.0),
    "FA, ρ = 0.5": wf.rules.FA(0.5),
    "DFA": wf.rules.DFA(),
    "GLN": wf.rules.GLN(),
    "Hebb": wf.rules.Hebb(),
    "traditional Hebb": wf.rules.TraditionalHebb(),
    "signed Hebb": wf.rules.SignedHebb(),
    "DRTP": wf.rules.DRTP(),
    "Kolen–Pollack": wf.rules.KolenPollack(),
    "readout only": wf.rules.ReadoutOnly(),
}
RICHNESS = (0.1, 0.3, 1.0, 3.0)
TOLERANCE = 0.05  # of a question; at 0.02 the test loss is the same within a tenth of its standard error


class Row(NamedTuple):
    """Errors at the end of training, per test point: half the squared error, and the fraction classified wrongly."""

    rule: str
    richness: float
    kind: str  # "theory" or "networks"
    train_loss: float
    test_loss: float
    test_loss_se: float
    wrong: float
    wrong_se: float


def measure(name: str, kind: str, result: wf.Result) -> Row:
    data, last = result.problem.data, result.dataset.isel(time=-1)
    tests = data.test_points
    return Row(
        name, result.problem.richness, kind, float(last["loss"]) / data.points,
        float(last["test_loss"]) / tests, float(last["test_loss_se"]) / tests,
        1 - float(last["test_accuracy"]), float(last["test_accuracy_se"]),
    )  # fmt: skip


def study(
    data: wf.Dataset, rules: dict[str, wf.rules.Rule], richness: Sequence[float], training: wf.Training, samples: int,
    width: int, seeds: int,
) -> list[Row]:  # fmt: skip
    """Theory and networks for every rule and richness; what is refused is left out, and said."""
    rows = []
    print(f"{'rule':<18}{'γ₀':>5}{'test loss, theory':>22}{'networks':>20}{'wrong, theory':>18}{'networks':>18}")
    for name, rule in rules.items():
        for gamma in richness:
            problem = wf.Problem(data, wf.MLP(depth=2, activation="tanh"), rule, gamma, training)
            try:
                theory = measure(name, "theory", wf.solve(problem, samples=samples, seeds=seeds, tolerance=TOLERANCE,
                                 record=(), every=training.steps, progress=False))  # fmt: skip
                nets = measure(name, "networks", wf.simulate(problem, width, seeds, record=(), engine="dense",
                               every=training.steps, progress=False))  # fmt: skip
            except (wf.errors.DivergenceError, wf.errors.TooFewSamplesError) as error:
                print(f"{name:<18}{gamma:5g}  {error}")
                continue
            rows += [theory, nets]
            losses = "".join(f"{f'{r.test_loss:.4f} ± {r.test_loss_se:.4f}':>21}" for r in (theory, nets))
            wrong = "".join(f"{f'{r.wrong:.3f} ± {r.wrong_se:.3f}':>18}" for r in (theory, nets))
            print(f"{name:<18}{gamma:5g}{losses}{wrong}", flush=True)
    return rows


def picture(rows: list[Row]) -> Figure:
    """One small panel per rule: theory as a line with its error, networks as points with theirs."""
    names = list(dict.fromkeys(row.rule for row in rows))
    columns = min(4, len(names))
    figure = Figure(figsize=(3.2 * columns, 2.8 * -(-len(names) // columns)), layout="constrained")
    axes = figure.subplots(-(-len(names) // columns), columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        theory, nets = ([r for r in rows if r.rule == name and r.kind == kind] for kind in ("theory", "networks"))
        gamma, mean, error = np.array([(r.richness, r.test_loss, r.test_loss_se) for r in theory]).T
        axis.fill_between(gamma, mean - 2 * error, mean + 2 * error, color="C0", alpha=0.3, linewidth=0)
        axis.plot(gamma, mean, color="C0", label="infinite width")
        axis.errorbar(
            [r.richness for r in nets], [r.test_loss for r in nets], [2 * r.test_loss_se for r in nets],
            fmt="o", color="black", markersize=3, label="networks",
        )  # fmt: skip
        axis.set(title=name, xscale="log")
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    figure.supxlabel("richness γ₀")
    figure.supylabel("test loss per point (bars: 2 standard errors)")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def main(
    folder: Path = Path("generalisation"),
    rules: dict[str, wf.rules.Rule] = RULES,
    richness: Sequence[float] = RICHNESS,
    points: int = 16,
    test_points: int = 24,
    training: wf.Training | None = None,
    samples: int = 2048,
    width: int = 500,
    seeds: int = 4,
) -> list[Row]:
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    data = wf.datasets.digits((3, 8), points, seed=0, test_points=test_points)
    training = training or wf.Training(steps=60, dt=0.03)
    rows = study(data, rules, richness, training, samples, width, seeds)
    if not rows:
        raise wf.errors.DivergenceError("every run diverged; lower dt or richness")
    picture(rows).savefig(folder / "generalisation.png")
    with open(folder / "generalisation.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(rows)
    print(f"\n{time.perf_counter() - started:.0f} s; in {folder}: generalisation.png and generalisation.csv")
    return rows


if __name__ == "__main__":
    main()
