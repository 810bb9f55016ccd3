"""Processor time of `wf.solve` against dense networks that know f as well.

    python benchmarks/equal_error.py [--problems …] [--records f kernels] [--accuracy 0.01]

The error of the theory is the standard error of f that its own replicates give. Networks of width N have mean
f + B/N and scatter σ_N: n of them have the error √(σ_N²/n + |B|²/N²), and n is chosen to reach that of the theory. B
decides which widths will do at 0.1 %. It is fitted to the means of many narrow networks, whose shift is the largest,
and a theory of four times as many replicates. The best width is taken. Errors are root mean squares over time and
points, relative to the size of f. Compilation is excluded. Both sides record the same: f alone (`record=()`), and once
more what they record by default, all kernels, which then decide how many replicates the theory takes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import widefield as wf
from widefield.errors import StabilityWarning


def parity(points: int) -> wf.Dataset:
    """Even digits against odd ones."""
    digits = wf.datasets.digits(tuple(range(10)), points)
    return wf.Dataset(digits.x, np.where(np.argmax(digits.y, axis=1) % 2, 1.0, -1.0))


def problems() -> dict[str, wf.Problem]:
    data = {
        "10 points": (wf.datasets.sphere(10, 20), 3, wf.Training(100, 0.05)),
        "100 digits": (wf.datasets.digits((3, 8), 100), 2, wf.Training(60, 0.01)),
        "1000 digits": (parity(1000), 2, wf.Training(60, 0.0004)),
    }
    rules = {"GD": "gd", "FA(0.5)": wf.rules.FA(rho=0.5)}
    return {
        f"{name}, {rule}": wf.Problem(points, wf.MLP(depth, "tanh"), rules[rule], 1.0, training)
        for name, (points, depth, training) in data.items()
        for rule in rules
    }


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What the second of two calls returns, and its processor seconds; the first compiles."""
    call()
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


RECORDED: dict[str, Any] = {"f": (), "kernels": None}
NARROW = (40, 60, 90, 125)  # widths that B is fitted to: at 100 digits those from 40 to 250 agree on it
FEW = 6  # networks whose time is taken where all kernels are recorded, which would not fit into memory for many


class Theory(NamedTuple):
    """The solution, what it recorded, the relative error of f and its processor seconds."""

    result: wf.Result
    recorded: str
    error: float
    seconds: float


class Networks(NamedTuple):
    """Per width: processor seconds by what is recorded, and scatter of f, of one network; the size of B relative to
    that of f."""

    cost: dict[str, dict[int, float]]
    scatter: dict[int, float]
    slope: float

    def price(self, width: int, theory: Theory) -> float:
        """Processor seconds of as many networks as know f as well; infinite where the shift alone is larger."""
        left = theory.error**2 - (self.slope / width) ** 2
        cost = self.cost[theory.recorded][width]
        return cost * max(self.scatter[width] ** 2 / left, 1.0) if left > 0 else np.inf


def solved(problem: wf.Problem, recorded: str, accuracy: float) -> Theory:
    record = RECORDED[recorded]
    theory, seconds = timed(lambda: wf.solve(problem, accuracy=accuracy, record=record, progress=False))
    error, info = rms(theory["f_se"].values) / rms(theory["f"].values), theory.info
    print(
        f"  {recorded} to {accuracy:g}: {info['seeds']} × {info['samples']} particles, rank {info['rank']}: "
        f"{seconds:.2f} s, error of f {error:.3%}, of all {info['accuracy']:.2%}",
        flush=True,
    )
    return Theory(theory, recorded, error, seconds)


class Many(NamedTuple):
    """f of many networks: their number, processor seconds each, and mean and variance over networks."""

    count: int
    seconds: float
    mean: np.ndarray
    variance: float


def many(problem: wf.Problem, width: int, budget: float) -> Many:
    """As many networks of this width as `budget` seconds on two processors allow."""

    def simulate(count: int, seed: int) -> np.ndarray:
        result = wf.simulate(problem, width, count, engine="dense", record=(), seed=seed, progress=False)
        return result.replicates["f"].values

    _, each = timed(lambda: simulate(2, 0))
    count = int(np.clip(2 * 2 * budget / each, 4, 100))
    rounds = int(np.clip(2 * budget / each / 50, 1, 100))
    began = time.process_time()
    values = np.concatenate([simulate(count, 1 + k) for k in range(rounds)])
    seconds = (time.process_time() - began) / len(values)
    return Many(len(values), seconds, values.mean(0), rms(values.std(0, ddof=1)) ** 2)


def shift(problem: wf.Problem, theory: wf.Result, budget: float) -> float:
    """B by weighted least squares of mean_N − f = B/N; the theory's own error is part of B's."""
    info = theory.info
    options = {"samples": info["samples"], "seeds": 4 * info["seeds"], "tolerance": info["tolerance"]}
    reference = wf.solve(problem, record=(), seed=1, progress=False, **options)
    f, known = reference["f"].values, rms(reference["f_se"].values)
    found = {width: many(problem, width, budget) for width in NARROW}
    weights = {width: one.count / one.variance for width, one in found.items()}
    total, share = (sum(weight / width**power for width, weight in weights.items()) for power in (2, 1))
    slope = np.sum([weights[w] / w * (found[w].mean - f) for w in NARROW], axis=0) / total
    noise = 1 / total + (known * share / total) ** 2
    size = rms(f)
    slope_size = float(np.sqrt(max(rms(slope) ** 2 - noise, 0.0))) / size
    print(f"  networks: shift {slope_size:.2f}/N, known to ±{np.sqrt(noise) / size:.2f}/N", flush=True)
    return slope_size


def trained(
    problem: wf.Problem, theory: wf.Result, records: Sequence[str], widths: Sequence[int], budget: float
) -> Networks:
    """Networks of every width, for `budget` seconds on two processors each."""
    size, scatter = rms(theory["f"].values), {}
    cost: dict[str, dict[int, float]] = {recorded: {} for recorded in ("f", *records)}
    for width in widths:
        found = many(problem, width, budget)
        cost["f"][width], scatter[width] = found.seconds, np.sqrt(found.variance) / size
        for recorded in set(records) - {"f"}:
            options: dict[str, Any] = {"engine": "dense", "record": RECORDED[recorded], "seed": 0, "progress": False}
            _, seconds = timed(lambda w=width, o=options: wf.simulate(problem, w, FEW, **o))
            cost[recorded][width] = seconds / FEW
    return Networks(cost, scatter, shift(problem, theory, budget))


def compare(
    problem: wf.Problem, records: Sequence[str], accuracies: Sequence[float], widths: Sequence[int], budget: float
) -> None:
    theories = [solved(problem, recorded, accuracy) for recorded in records for accuracy in accuracies]
    networks = trained(problem, min(theories, key=lambda one: one.error).result, records, widths, budget)
    for width in widths:
        costs = ", ".join(f"{networks.cost[r][width]:.4f} s ({r})" for r in records)
        print(f"  width {width:5d}: {costs}, scatter {networks.scatter[width]:.2%}", flush=True)
    for theory in theories:
        prices = {width: networks.price(width, theory) for width in widths}
        best = min(prices, key=lambda w: prices[w])
        print(
            f"  {theory.recorded}, at an error of {theory.error:.3%}: {prices[best]:.1f} s of width {best}, "
            f"{theory.seconds:.2f} s of theory: ratio {prices[best] / theory.seconds:.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=list(problems()), default=list(problems()))
    parser.add_argument("--records", nargs="+", choices=list(RECORDED), default=list(RECORDED), help="what is recorded")
    parser.add_argument("--accuracy", nargs="+", type=float, default=[0.01], help="what the theory aims at")
    parser.add_argument("--widths", nargs="+", type=int, default=[125, 250, 350, 500, 750, 1000, 2000])
    parser.add_argument("--seconds", type=float, default=30.0, help="per width")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", StabilityWarning)
    for name in chosen.problems:
        print(name, flush=True)
        compare(problems()[name], chosen.records, chosen.accuracy, chosen.widths, chosen.seconds)


if __name__ == "__main__":
    main()
