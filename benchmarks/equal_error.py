"""Processor time of the default `wf.solve` against dense networks that know f as well.

    python benchmarks/equal_error.py [--problems …] [--accuracy 0.01]

The error of the theory is the standard error of f that its own replicates give. Networks of width N have mean
f + B/N and scatter σ_N: n of them have the error √(σ_N²/n + |B|²/N²), and n is chosen to reach that of the theory. B is
fitted to the means over all widths, so that its noise does not count as a shift. The best width is taken. Errors are
root mean squares over time and points, relative to the size of f. Compilation is excluded.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

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


def timed(call: Callable[[], wf.Result]) -> tuple[wf.Result, float]:
    """What the second of two calls returns, and its processor seconds; the first compiles."""
    call()
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def compare(problem: wf.Problem, accuracy: float, widths: tuple[int, ...], budget: float) -> None:
    options = {"record": (), "progress": False}
    theory, seconds = timed(lambda: wf.solve(problem, accuracy=accuracy, progress=False))
    f = theory["f"].values
    size, error = rms(f), rms(theory["f_se"].values) / rms(f)
    info = theory.info
    print(
        f"  theory: {info['seeds']} × {info['samples']} particles, rank {info['rank']}: {seconds:.2f} s, "
        f"error of f {error:.2%}, of all {info['accuracy']:.2%}",
        flush=True,
    )
    cost, scatter, means, weights = {}, {}, {}, {}
    for width in widths:
        _, each = timed(lambda w=width: wf.simulate(problem, w, 2, engine="dense", **options))
        count = int(np.clip(2 * budget / each, 8, 400))
        began = time.process_time()
        values = wf.simulate(problem, width, count, engine="dense", seed=1, **options).replicates["f"].values
        cost[width] = (time.process_time() - began) / count
        scatter[width] = rms(values.std(0, ddof=1)) / size
        means[width], weights[width] = values.mean(0), count / scatter[width] ** 2
    # Weighted least squares of mean_N − f = B/N; the theory's own error is part of B's.
    total = sum(weights[w] / w**2 for w in widths)
    slope = np.sum([weights[w] / w * (means[w] - f) for w in widths], axis=0) / total
    square = rms(slope) ** 2 / size**2 - 1 / total - (error * sum(weights[w] / w for w in widths) / total) ** 2
    shift = float(np.sqrt(max(square, 0.0)))
    prices = {}
    for width in widths:
        left = error**2 - (shift / width) ** 2
        prices[width] = cost[width] * max(scatter[width] ** 2 / left, 1.0) if left > 0 else np.inf
        print(
            f"  width {width:5d}: {cost[width]:.4f} s, scatter {scatter[width]:.2%}, shift {shift / width:.2%}: "
            f"{prices[width]:.1f} s for the same error",
            flush=True,
        )
    best = min(prices, key=lambda w: prices[w])
    print(f"  ratio {prices[best] / seconds:.1f} (width {best})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=list(problems()), default=list(problems()))
    parser.add_argument("--accuracy", type=float, default=0.01, help="what the theory aims at")
    parser.add_argument("--widths", nargs="+", type=int, default=[125, 250, 500, 1000])
    parser.add_argument("--seconds", type=float, default=8.0, help="per width")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", StabilityWarning)
    for name in chosen.problems:
        print(name, flush=True)
        compare(problems()[name], chosen.accuracy, tuple(chosen.widths), chosen.seconds)


if __name__ == "__main__":
    main()
