"""Processor time of learning by batches, against the number of points that they are drawn from.

    python benchmarks/online.py [--points 20 200 1000] [--tolerance 0.14]

Digits (even against odd) in batches of 20, 50 steps, 20 test points, recorded at the start and the end, at fixed
particles, replicates and tolerance. With evaluate="batch" a step passes its batch, and what fresh points start with;
with "all" recorded steps pass all points. Directions are those of all that has passed: the rank, and with it the time
of a step, grows with the points ever seen until they are told apart by less than the tolerance. Compilation is
excluded.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import widefield as wf
from widefield.errors import StabilityWarning

BATCH, STEPS, TESTS = 20, 50, 20


def problem(points: int, evaluate: str) -> wf.Problem:
    digits = wf.datasets.digits(tuple(range(10)), points + TESTS)
    y = np.where(np.argmax(digits.y, axis=1) % 2, 1.0, -1.0)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = digits.x[order], y[order]
    data = wf.Dataset(x[:points], y[:points], x_test=x[points:], y_test=y[points:])
    training = wf.Training(STEPS, 0.01, batch_size=BATCH, evaluate=evaluate)
    return wf.Problem(data, wf.MLP(2, "tanh"), "gd", 1.0, training)


def seconds(asked: wf.Problem, tolerance: float) -> tuple[wf.Result, float]:
    """The second of two calls, and its processor seconds; the first compiles."""

    def call() -> wf.Result:
        return wf.solve(asked, samples=2048, seeds=2, tolerance=tolerance, every=STEPS, record=(), progress=False)

    call()
    began = time.process_time()
    return call(), time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", nargs="+", type=int, default=[20, 200, 1000])
    parser.add_argument("--tolerance", type=float, default=0.14)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", StabilityWarning)
    for points in chosen.points:
        for evaluate in ("batch", "all"):
            result, spent = seconds(problem(points, evaluate), chosen.tolerance)
            loss = result["test_loss"].values[-1]
            rank = result.info["rank"]
            print(f"{points:6d} points, {evaluate:5}: {spent:6.2f} s, rank {rank:4d}, test loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
