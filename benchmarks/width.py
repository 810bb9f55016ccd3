"""Time and peak memory of dense and conditioned networks from width 10³ to 10⁶, and where they cross.

    python benchmarks/width.py [--widths 1000 3000 …] [--dense-limit 8000] [--steps 40]

5 points, 40 steps, 2 hidden tanh layers, gradient descent, one network. Every case has a process of its own, whose
largest resident set is the peak memory (about 0.45 GiB of it are Python and JAX). Time is processor time without
compilation, so that other work on the machine counts little: of a second run up to `ONCE`, above it of the
only run, less the compilation that JAX reports.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import jax
import numpy as np

import widefield as wf

ONCE = 50_000  # wider networks run once: a second run would double a long wait to remove a few seconds
WIDTHS = (1000, 2000, 4000, 8000, 30_000, 100_000, 300_000, 1_000_000)


def measure(engine: str, width: int, steps: int) -> dict[str, float]:
    """One case, in this process."""
    compiling = [0.0]

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.endswith(("backend_compile_duration", "jaxpr_to_mlir_module_duration")):
            compiling[0] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    problem = wf.Problem(wf.datasets.sphere(5, 20), wf.MLP(2, "tanh"), "gd", 1.0, wf.Training(steps, 0.1))
    wall = cpu = 0.0
    rank = 0
    for _ in range(1 if width > ONCE else 2):
        compiling[0] = 0.0
        began, busy = time.perf_counter(), time.process_time()
        result = wf.simulate(problem, width, 1, engine=engine, progress=False)
        wall, cpu = time.perf_counter() - began, time.process_time() - busy
        rank = result.info.get("rank", 0)
    share = 1 - compiling[0] / wall  # compilation is as busy as the rest
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": wall * share, "cpu": cpu * share, "gib": peak, "rank": rank}


def in_process(engine: str, width: int, steps: int) -> dict[str, float]:
    """One case, in a process of its own."""
    command = [sys.executable, __file__, "--case", engine, str(width), "--steps", str(steps)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def fitted(widths: list[int], values: list[float]) -> tuple[float, float]:
    """Exponent and factor of a power law."""
    exponent, logarithm = np.polyfit(np.log(widths), np.log(values), 1)
    return float(exponent), float(np.exp(logarithm))


def crossing(widths: list[int], dense: list[float], conditioned: list[float]) -> float:
    """Width at which the two take the same time, between the measured ones by power laws."""
    gap = np.log(np.array(dense) / np.array(conditioned))
    above = np.flatnonzero(gap > 0)
    if len(above) == 0 or above[0] == 0:
        return float(widths[0] if len(above) else np.nan)
    i = above[0]
    place = np.interp(0.0, gap[i - 1 : i + 1], np.log(widths[i - 1 : i + 1]))
    return float(np.exp(place))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=list(WIDTHS))
    parser.add_argument("--dense-limit", type=int, default=8000, help="no dense network above this width")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--case", nargs=2, metavar=("ENGINE", "WIDTH"), help="one case in this process, as JSON")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case[0], int(options.case[1]), options.steps)))
        return
    print("engine       width    cpu s  wall s  peak GiB  rank")
    cases: dict[str, list[tuple[int, float]]] = {"dense": [], "conditioned": []}
    for width in options.widths:
        for engine, taken in cases.items():
            if engine == "dense" and width > options.dense_limit:
                continue
            case = in_process(engine, width, options.steps)
            taken.append((width, case["cpu"]))
            line = f"{engine:11s} {width:7d} {case['cpu']:8.2f} {case['seconds']:7.2f} {case['gib']:9.2f}"
            print(f"{line} {case['rank']:5.0f}", flush=True)
    both = [w for w, _ in cases["dense"]]
    dense, conditioned = dict(cases["dense"]), dict(cases["conditioned"])
    if both:
        where = crossing(both, [dense[w] for w in both], [conditioned[w] for w in both])
        print(f"dense and conditioned cost the same at width {where:.0f}")
    for engine, taken in cases.items():
        # Below this width fixed costs per step show.
        large = [(w, s) for w, s in taken if w >= 2000]
        if len(large) > 1:
            exponent, _ = fitted([w for w, _ in large], [s for _, s in large])
            print(f"cost of {engine} grows as width^{exponent:.2f}")


if __name__ == "__main__":
    main()
