"""Which learning rule did this? Networks trained by five rules, a hundred recorded neurons, noisy trials.

Confusion matrix over networks that were not used to make predictions, ρ and γ₀ of feedback alignment with intervals,
and how many neurons it takes to tell rules apart.

    python examples/which_rule.py            # pictures in which_rule/
    python examples/which_rule.py --small    # less work, with larger errors
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import widefield as wf

RULES: dict[str, wf.rules.Rule] = {
    "GD": wf.rules.GD(),
    "FA, ρ = 0": wf.rules.FA(0.0),
    "DFA": wf.rules.DFA(),
    "Hebb": wf.rules.Hebb(),
    "GLN": wf.rules.GLN(),
}
STEPS = [0, 10, 20, 40]
TIME_SCALE = (0.67, 1.5)


@dataclass(frozen=True)
class Sizes:
    """How much is computed; theory with `samples` particles, `networks` per candidate, `tests` networks per rule."""

    width: int = 1000
    neurons: int = 100
    trials: int = 10
    noise: float = 0.3  # variance of a neuron's activity from trial to trial; that of its tuning is about as large
    samples: int = 2048
    networks: int = 16
    tests: int = 5
    rho: tuple[float, ...] = (0.0, 0.3, 0.6, 0.9)
    richness: tuple[float, ...] = (0.5, 1.0, 2.0)
    hidden: int = 6  # networks with unknown ρ and γ₀


SMALL = Sizes(width=300, samples=512, networks=6, tests=2, rho=(0.0, 0.5, 1.0), richness=(0.5, 2.0), hidden=2)


def make_problem(rule: wf.rules.Rule, richness: float = 1.0) -> wf.Problem:
    data = wf.datasets.sphere(6, dimension=10, seed=3)
    return wf.Problem(data, wf.MLP(depth=2, activation="tanh"), rule, richness, wf.Training(steps=STEPS[-1], dt=0.05))


def activity_of(moment: wf.Moment):
    """φ of all neurons, (layer, stimulus, neuron)."""
    return moment.phi


def record(problem: wf.Problem, sizes: Sizes, seed: int) -> wf.Observation:
    """Train one network, and record some of its neurons in noisy trials."""
    every = int(np.gcd.reduce(STEPS[1:]))
    options: dict[str, Any] = {"every": every, "record": [activity_of], "progress": False}
    trained = wf.simulate(problem, sizes.width, 1, seed=seed, **options)
    whole = trained["activity_of"].values[[step // every for step in STEPS]]  # (stage, layer, stimulus, neuron)
    rng = np.random.default_rng(seed)
    chosen = [whole[:, layer][..., rng.permutation(sizes.width)[: sizes.neurons]] for layer in range(whole.shape[1])]
    noise = np.sqrt(sizes.noise) * rng.standard_normal((*np.stack(chosen, 1).shape, sizes.trials))
    return wf.observe(np.stack(chosen, 1)[..., None] + noise, STEPS)


def confusion(candidates: wf.Candidates, rules: dict[str, wf.rules.Rule], sizes: Sizes) -> np.ndarray:
    """Mean posterior (row: rule that trained the network; column: candidate, the last being none of these)."""
    rows = []
    for number, (name, rule) in enumerate(rules.items()):
        answers = []
        for test in range(sizes.tests):
            found = wf.identify(record(make_problem(rule), sizes, 1000 + 100 * number + test), candidates)
            answers.append(found.posterior.values)
            print(f"  trained by {name:<10} answer {found.best:<14} probability {float(found.posterior.max()):.3f}")
        rows.append(np.mean(answers, 0))
    return np.array(rows)


def parameters(sizes: Sizes) -> list[tuple[float, float, wf.Identification]]:
    """Networks with random ρ and γ₀, and what is found of them."""
    print("theory over ρ and γ₀ …")
    grid = wf.candidates(
        make_problem(wf.rules.FA(0.5)), STEPS, vary={"rule.rho": sizes.rho, "richness": sizes.richness},
        width=sizes.width, networks=max(sizes.networks // 2, 4), time_scale=TIME_SCALE, samples=sizes.samples, seeds=4,
        progress=False,
    )  # fmt: skip
    rng, out = np.random.default_rng(1), []
    for number in range(sizes.hidden):
        rho = float(rng.uniform(sizes.rho[0], sizes.rho[-1]))
        richness = float(np.exp(rng.uniform(*np.log([sizes.richness[0], sizes.richness[-1]]))))
        seen = record(make_problem(wf.rules.FA(rho), richness), sizes, 3000 + number)
        found = wf.identify(seen, grid)
        said = "; ".join(
            f"{name} {value.mean:.2f} ({value.lower:.2f} to {value.upper:.2f})"
            for name, value in found.parameters.items()
        )
        print(f"  true ρ {rho:.2f}, γ₀ {richness:.2f}; found {said}")
        out.append((rho, richness, found))
    return out


def picture(
    names: Sequence[str], matrix: np.ndarray, found: list[tuple[float, float, wf.Identification]],
    plans: dict[str, wf.Power],
) -> Figure:  # fmt: skip
    figure = Figure(figsize=(13.5, 3.9), layout="constrained")
    left, rho, richness, right = figure.subplots(1, 4, width_ratios=[1.35, 1, 1, 1.1])
    image = left.imshow(matrix, vmin=0, vmax=1, cmap="Blues")
    left.set_xticks(range(len(names) + 1), [*names, "none"], rotation=60, fontsize="small")
    left.set_yticks(range(len(names)), names, fontsize="small")
    left.set(title="mean posterior", ylabel="trained by")
    figure.colorbar(image, ax=left, shrink=0.8)
    for axes, field, index, label in ((rho, "rule.rho", 0, "ρ"), (richness, "richness", 1, "γ₀")):
        true = np.array([entry[index] for entry in found])
        answers = [entry[2].parameters[field] for entry in found]
        mean, low, high = np.array([(a.mean, a.lower, a.upper) for a in answers]).T
        axes.errorbar(true, mean, np.clip([mean - low, high - mean], 0, None), fmt="o", markersize=4)
        both = [min(true.min(), low.min()), max(true.max(), high.max())]
        axes.plot(both, both, color="black", linewidth=0.8)
        axes.set(xlabel=f"true {label}", ylabel=f"found {label}, 90 % intervals")
    for name, plan in plans.items():
        table = plan.table.isel(trials=-1)
        right.plot(table["neurons"].values, table["probability"].values, "o-", markersize=3, label=name)
    right.set(xscale="log", ylim=(0, 1.02), xlabel="recorded neurons per layer",
              ylabel="probability of a posterior above 0.95")  # fmt: skip
    right.legend(frameon=False, fontsize="small")
    return figure


def main(
    folder: Path = Path("which_rule"), sizes: Sizes | None = None, rules: dict[str, wf.rules.Rule] = RULES
) -> tuple[np.ndarray, list[tuple[float, float, wf.Identification]], dict[str, wf.Power]]:
    sizes = sizes or Sizes()
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    print("theory and networks of every candidate …")
    candidates = wf.candidates(
        {name: make_problem(rule) for name, rule in rules.items()}, STEPS, width=sizes.width, networks=sizes.networks,
        time_scale=TIME_SCALE, samples=sizes.samples, seeds=4, progress=False,
    )  # fmt: skip
    matrix = confusion(candidates, rules, sizes)
    print(f"  mean posterior of the right rule: {np.mean(np.diag(matrix)):.3f}")
    found = parameters(sizes)
    names = list(rules)
    neurons = [n for n in (10, 20, 50, 100, 200, 500) if n <= sizes.width]
    plans = {}
    for other in names[1:]:
        pair = candidates.only([names[0], other])
        plans[f"{names[0]} or {other}"] = wf.power(pair, neurons=neurons, noise=sizes.noise, trials=[sizes.trials])
    for plan in plans.values():
        print(plan.summary())
    picture(names, matrix, found, plans).savefig(folder / "which_rule.png")
    found[0][2].plot().savefig(folder / "identification.png")
    print(f"\n{time.perf_counter() - started:.0f} s; in {folder}: which_rule.png and identification.png")
    return matrix, found, plans


if __name__ == "__main__":
    main(sizes=SMALL if "--small" in sys.argv[1:] else None)
