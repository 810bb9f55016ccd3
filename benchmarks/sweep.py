"""A sweep of 3 × 3 cells of the README's example against nine calls of `wf.solve` that find everything compiled.

python benchmarks/sweep.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

import widefield as wf

RICHNESS, RHO = [0.3, 1.0, 3.0], [0.25, 0.5, 0.75]


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    problem = wf.Problem(
        data=wf.datasets.random_gaussian(points=10, dimension=50),
        network=wf.MLP(depth=2, activation="tanh"),
        rule=wf.rules.FA(rho=0.5),
        richness=1.0,
        training=wf.Training(steps=100, dt=0.05),
    )

    def sweep() -> None:
        with tempfile.TemporaryDirectory() as folder:
            wf.sweep(problem, {"richness": RICHNESS, "rule.rho": RHO}, out=folder, progress=False)

    def nine() -> None:
        for richness in RICHNESS:
            for rho in RHO:
                wf.solve(replace(problem, richness=richness, rule=wf.rules.FA(rho)), progress=False)

    cold, solves, warm = seconds(sweep), seconds(nine), seconds(sweep)
    print(f"first sweep of the process {cold:.1f} s, with compilation")
    print(f"nine warm solves {solves:.1f} s, a warm sweep {warm:.1f} s: {warm / solves:.2f} times as long")


if __name__ == "__main__":
    main()
