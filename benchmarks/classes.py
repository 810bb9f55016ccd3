"""Processor time of ten classes against one output: the same digits, network, steps, particles and recorded kernels.

    python benchmarks/classes.py [--points 30 100 300]

Rules that are linear in the signal carry all outputs in one backward sweep, so that a question has as many rows with
ten classes as with one output. It has more directions: a row is a mixture of the outputs' gradients that changes
as errors do. Compilation is excluded.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import widefield as wf
from widefield.errors import StabilityWarning


def problems(points: int) -> dict[str, wf.Problem]:
    digits = wf.datasets.digits(tuple(range(10)), points)
    parity = np.where(np.argmax(digits.y, axis=1) % 2, 1.0, -1.0)
    return {
        name: wf.Problem(wf.Dataset(digits.x, y), wf.MLP(2, "tanh"), rule, 1.0, wf.Training(100, step / points, loss))
        for rule in ("gd", wf.rules.FA(0.5))
        for name, y, loss, step in (
            (f"{rule!s}, one output", parity, "squared", 0.4),
            (f"{rule!s}, ten classes, squared", digits.y, "squared", 0.4),
            (f"{rule!s}, ten classes, cross entropy", digits.y, "cross_entropy", 1.0),
        )
    }


def seconds(problem: wf.Problem, samples: int) -> tuple[float, int]:
    """Of one replicate, and its rank; the first of two calls compiles."""
    taken = 0.0
    for _ in range(2):
        began = time.process_time()
        result = wf.solve(problem, samples=samples, seeds=2, precision="float32", record=("phi",), progress=False)
        taken = (time.process_time() - began) / 2
    return taken, result.info["rank"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", nargs="+", type=int, default=[30, 100, 300])
    parser.add_argument("--samples", type=int, default=4096)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", StabilityWarning)
    for points in chosen.points:
        one = np.nan
        for name, problem in problems(points).items():
            taken, rank = seconds(problem, chosen.samples)
            one = taken if "one output" in name else one
            print(f"P {points:4d}, {name}: {taken:.2f} s, rank {rank}, {taken / one:.2f} of one output", flush=True)


if __name__ == "__main__":
    main()
