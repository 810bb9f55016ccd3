"""What the tolerance costs: bias of f and of the eNTK against tolerance and rank, and the exponent of the law.

    python benchmarks/tolerance.py [--problems …] [--samples 2048] [--seeds 16]

The bias is the root-mean-square difference to the smallest tolerance, over time and points, relative to the size; its
square is corrected for the sampling error of both. The law says 2.
"""

from __future__ import annotations

import argparse

import numpy as np

import widefield as wf

TOLERANCES = (0.03, 0.1, 0.14, 0.2, 0.28, 0.4)


def problems() -> dict[str, wf.Problem]:
    sphere = wf.datasets.sphere
    return {
        "depth 3 tanh": wf.Problem(sphere(10, 20), wf.MLP(3, "tanh"), "gd", 1.0, wf.Training(100, 0.05)),
        "depth 2 relu": wf.Problem(sphere(10, 20), wf.MLP(2, "relu"), "gd", 1.0, wf.Training(60, 0.03)),
        "100 digits": wf.Problem(wf.datasets.digits((3, 8), 100), wf.MLP(2, "tanh"), "gd", 1.0, wf.Training(60, 0.01)),
    }


def bias(result: wf.Result, reference: wf.Result, name: str) -> float:
    """Relative difference of two results, with their sampling error taken off."""
    gap, size = (np.mean(np.square(a)) for a in (result[name] - reference[name], reference[name]))
    noise = np.mean(np.square(result[f"{name}_se"])) + np.mean(np.square(reference[f"{name}_se"]))
    return float(np.sqrt(max(float(gap - noise), 0.0) / float(size)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=list(problems()), default=list(problems()))
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--seeds", type=int, default=16)
    chosen = parser.parse_args()
    for name in chosen.problems:
        print(name, flush=True)
        found: list[tuple[float, float, float]] = []
        reference = None
        for tolerance in TOLERANCES:
            options = {"samples": chosen.samples, "seeds": chosen.seeds, "precision": "float32", "progress": False}
            result = wf.solve(problems()[name], tolerance=tolerance, record=("entk",), **options)
            reference = reference or result
            f, kernel = bias(result, reference, "f"), bias(result, reference, "entk")
            print(f"  tolerance {tolerance:<5g} rank {result.info['rank']:4d}  f {f:.5f}  K {kernel:.5f}", flush=True)
            found.append((tolerance, f, kernel))
        rows = np.array([row for row in found if min(row[1:]) > 0])
        for column, what in ((1, "f"), (2, "K")):
            if len(rows) > 2:
                slope = np.polyfit(np.log(rows[:, 0]), np.log(rows[:, column]), 1)[0]
                print(f"  exponent of {what}: {slope:.2f}")


if __name__ == "__main__":
    main()
