"""Processor time of `wf.solve` against dense networks that know f as well.

    python benchmarks/equal_error.py [--problems …] [--records f kernels] [--accuracy 0.01]

The error of the theory is the standard error of f that its own replicates give. Networks of width N have mean
f + B/N and scatter σ_N: n of them have the error √(σ_N²/n + |B|²/N²), and n is chosen to reach that of the theory. B is
fitted to the means over all widths; they need many networks, since at 0.1 % the shift decides which widths will do.
The best width is taken. Errors are root mean squares over time and points, relative to the size of f. Compilation is
excluded. Both sides record the same: f alone (`record=()`), and once more what they record by default, all kernels,
which then decide how many replicates the theory takes.
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
FEW = 6  # networks whose time is taken where all kernels are recorded, which would not fit into memory for many


class Theory(NamedTuple):
    """The solution, what it recorded, the relative error of f and its processor seconds."""

    result: wf.Result
    recorded: str
    error: float
    seconds: float


class Networks(NamedTuple):
    """Per width: processor seconds by what is recorded, and scatter of f, of one network; B of all widths, relative to
    the size of f."""

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


def trained(
    problem: wf.Problem, theory: wf.Result, records: Sequence[str], widths: Sequence[int], budget: float
) -> Networks:
    """Networks of every width, for `budget` seconds on two processors each."""
    f, known = theory["f"].values, rms(theory["f_se"].values)
    size, scatter, means, weights = rms(f), {}, {}, {}
    cost: dict[str, dict[int, float]] = {recorded: {} for recorded in ("f", *records)}

    def simulate(width: int, count: int, seed: int, recorded: str = "f") -> np.ndarray:
        record = RECORDED[recorded]
        result = wf.simulate(problem, width, count, engine="dense", record=record, seed=seed, progress=False)
        return result.replicates["f"].values

    for width in widths:
        _, each = timed(lambda w=width: simulate(w, 2, 0))
        rounds = int(np.clip(2 * budget / each / 50, 1, 100))
        count = 100 if rounds > 1 else int(np.clip(2 * 2 * budget / each, 4, 100))
        began = time.process_time()
        values = np.concatenate([simulate(width, count, 1 + k) for k in range(rounds)])
        cost["f"][width] = (time.process_time() - began) / len(values)
        for recorded in set(records) - {"f"}:
            _, seconds = timed(lambda w=width, r=recorded: simulate(w, FEW, 0, r))
            cost[recorded][width] = seconds / FEW
        scatter[width] = rms(values.std(0, ddof=1)) / size
        means[width], weights[width] = values.mean(0), len(values) / scatter[width] ** 2
    # Weighted least squares of mean_N − f = B/N; the theory's own error is part of B's.
    total, share = (sum(weights[w] / w**power for w in widths) for power in (2, 1))
    slope = np.sum([weights[w] / w * (means[w] - f) for w in widths], axis=0) / total / size
    noise = 1 / total + (known / size * share / total) ** 2
    found = float(np.sqrt(max(rms(slope) ** 2 - noise, 0.0)))
    print(f"  networks: shift {found:.2f}/N, known to ±{np.sqrt(noise):.2f}/N", flush=True)
    return Networks(cost, scatter, found)


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
    parser.add_argument("--widths", nargs="+", type=int, default=[125, 250, 500, 750, 1000, 2000])
    parser.add_argument("--seconds", type=float, default=30.0, help="per width")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", StabilityWarning)
    for name in chosen.problems:
        print(name, flush=True)
        compare(problems()[name], chosen.records, chosen.accuracy, chosen.widths, chosen.seconds)


if __name__ == "__main__":
    main()
