"""Time per iteration and error of `fixed_point`, next to time and error of `mean_field`, on the same problem.

    python benchmarks/fixed_point.py [--steps 20] [--samples 1000] [--seeds 4]

The error is the relative standard error of one replicate, root mean square over time; `difference` is that of
the two solvers, in standard errors of the difference.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import widefield as wf
from widefield.results.result import Result
from widefield.solvers.fixed_point import solve_fixed_point

RULES = {
    "gd": wf.rules.GD(),
    "fa": wf.rules.FA(rho=0.5),
    "dfa": wf.rules.DFA(),
    "gln": wf.rules.GLN(),
    "hebb": wf.rules.Hebb(),
}


def relative_error(result: Result, name: str, seeds: int) -> float:
    """Standard error of one replicate, relative to the size of the variable."""
    size = np.sqrt(np.mean(result[name].values ** 2))
    return float(np.sqrt(seeds * np.mean(result[f"{name}_se"].values ** 2)) / size)


def difference(a: Result, b: Result, name: str) -> float:
    """Root-mean-square difference over root-mean-square standard error."""
    expected = np.mean(a[f"{name}_se"].values ** 2 + b[f"{name}_se"].values ** 2)
    return float(np.sqrt(np.mean((a[name].values - b[name].values) ** 2) / expected))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("depth", 3), ("points", 4), ("steps", 20), ("samples", 1000), ("seeds", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=list(RULES))
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((options.points, 5))
    y = np.sign(rng.standard_normal(options.points))
    print("rule   method        seconds  iterations  s/iteration  error f  error eNTK  difference f  eNTK")
    for name in options.rules:
        problem = wf.Problem(
            wf.Dataset(x, y), wf.MLP(options.depth, "tanh"), RULES[name], 1.0, wf.Training(options.steps, 0.1)
        )
        runs: dict[str, Result] = {}
        for method, solver in (("fixed_point", solve_fixed_point), ("mean_field", wf.solve)):
            # The first run compiles; of the others the fastest counts, which other work on the machine disturbs least.
            times = []
            for _ in range(4):
                began = time.perf_counter()
                result = solver(problem, samples=options.samples, seeds=options.seeds, progress=False)
                times.append(time.perf_counter() - began)
            seconds = min(times[1:])
            runs[method] = result
            iterations = np.mean(result.info.get("iterations", 1))
            each = seconds / options.seeds / iterations
            line = f"{name:6s} {method:12s} {seconds:8.2f}  {iterations:10.0f}  {each:11.3f}"
            line += "".join(f"  {relative_error(result, v, options.seeds):8.4f}" for v in ("f", "entk"))
            if len(runs) == 2:
                line += "".join(
                    f"  {difference(runs['fixed_point'], runs['mean_field'], v):10.2f}" for v in ("f", "entk")
                )
            print(line, flush=True)


if __name__ == "__main__":
    main()
