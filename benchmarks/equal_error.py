"""Processor time of `wf.solve` against dense networks that know f as well.

    python benchmarks/equal_error.py [--problems …] [--accuracy 0.01 0.005]

The error of the theory is the standard error of f that its own replicates give. Networks of width N have mean
f + B/N and scatter σ_N: n of them have the error √(σ_N²/n + |B|²/N²), and n is chosen to reach that of the theory. B is
fitted to the means over all widths; they need many networks, since at 0.1 % the shift decides which widths will do.
The best width is taken. Errors are root mean squares over time and points, relative to the size of f. Compilation is
excluded.
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


class Networks(NamedTuple):
    """Per width: processor seconds and scatter of f of one network; B of all widths, relative to the size of f."""

    cost: dict[int, float]
    scatter: dict[int, float]
    slope: float

    def price(self, width: int, error: float) -> float:
        """Processor seconds of as many networks as know f to `error`; infinite where the shift alone is larger."""
        left = error**2 - (self.slope / width) ** 2
        return self.cost[width] * max(self.scatter[width] ** 2 / left, 1.0) if left > 0 else np.inf


def solved(problem: wf.Problem, accuracy: float) -> tuple[wf.Result, float, float]:
    """The theory, the relative error of f and its processor seconds."""
    theory, seconds = timed(lambda: wf.solve(problem, accuracy=accuracy, progress=False))
    error, info = rms(theory["f_se"].values) / rms(theory["f"].values), theory.info
    print(
        f"  accuracy {accuracy:g}: {info['seeds']} × {info['samples']} particles, rank {info['rank']}: "
        f"{seconds:.2f} s, error of f {error:.3%}, of all {info['accuracy']:.2%}",
        flush=True,
    )
    return theory, error, seconds


def trained(problem: wf.Problem, theory: wf.Result, widths: Sequence[int], budget: float) -> Networks:
    """Networks of every width, for `budget` seconds on two processors each."""
    f, known = theory["f"].values, rms(theory["f_se"].values)
    size, cost, scatter, means, weights = rms(f), {}, {}, {}, {}

    def simulate(width: int, count: int, seed: int) -> np.ndarray:
        result = wf.simulate(problem, width, count, engine="dense", record=(), seed=seed, progress=False)
        return result.replicates["f"].values

    for width in widths:
        _, each = timed(lambda w=width: simulate(w, 2, 0))
        rounds = int(np.clip(2 * budget / each / 50, 1, 100))
        count = 100 if rounds > 1 else int(np.clip(2 * 2 * budget / each, 4, 100))
        began = time.process_time()
        values = np.concatenate([simulate(width, count, 1 + k) for k in range(rounds)])
        cost[width] = (time.process_time() - began) / len(values)
        scatter[width] = rms(values.std(0, ddof=1)) / size
        means[width], weights[width] = values.mean(0), len(values) / scatter[width] ** 2
    # Weighted least squares of mean_N − f = B/N; the theory's own error is part of B's.
    total, share = (sum(weights[w] / w**power for w in widths) for power in (2, 1))
    slope = np.sum([weights[w] / w * (means[w] - f) for w in widths], axis=0) / total / size
    noise = 1 / total + (known / size * share / total) ** 2
    found = float(np.sqrt(max(rms(slope) ** 2 - noise, 0.0)))
    print(f"  networks: shift {found:.2f}/N, known to ±{np.sqrt(noise):.2f}/N", flush=True)
    return Networks(cost, scatter, found)


def compare(problem: wf.Problem, accuracies: Sequence[float], widths: Sequence[int], budget: float) -> None:
    theories = [solved(problem, accuracy) for accuracy in accuracies]
    networks = trained(problem, min(theories, key=lambda one: one[1])[0], widths, budget)
    for width in widths:
        print(f"  width {width:5d}: {networks.cost[width]:.4f} s, scatter {networks.scatter[width]:.2%}", flush=True)
    for _, error, seconds in theories:
        prices = {width: networks.price(width, error) for width in widths}
        best = min(prices, key=lambda w: prices[w])
        print(
            f"  at an error of {error:.3%}: {prices[best]:.1f} s of width {best}, {seconds:.2f} s of theory: "
            f"ratio {prices[best] / seconds:.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=list(problems()), default=list(problems()))
    parser.add_argument("--accuracy", nargs="+", type=float, default=[0.01, 0.005], help="what the theory aims at")
    parser.add_argument("--widths", nargs="+", type=int, default=[125, 250, 500, 750, 1000, 2000])
    parser.add_argument("--seconds", type=float, default=30.0, help="per width")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", StabilityWarning)
    for name in chosen.problems:
        print(name, flush=True)
        compare(problems()[name], chosen.accuracy, chosen.widths, chosen.seconds)


if __name__ == "__main__":
    main()
