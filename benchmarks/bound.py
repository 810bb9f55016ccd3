"""Time of a training step against the least that its products and its passes over memory take on this machine.

    python benchmarks/bound.py [--points 5 20 100] [--samples 2048]

Depth 3 tanh, gradient descent, float32, one processor, nothing recorded but f; the second half of 200 steps, best of
four. Per hidden matrix with ranks r_f and r_b and P points, a step multiplies (P × r) with (r × S) matrices five times
for r = r_f and four times for r = r_b, and reads these buffers (r × S) six and four times. The bound is the longer of
flops over the rate of a large square product and bytes over the rate of reading an array larger than the cache. What
finding new directions takes is not counted: it is work that the bound leaves out.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

import jax
import jax.numpy as jnp

import widefield as wf
from widefield.engine.prepare import make_recording
from widefield.precision import enable_x64
from widefield.solvers.mean_field.aim import default_slack, default_tolerance
from widefield.solvers.mean_field.replicates import Replicates


def best_seconds(call) -> float:
    call().block_until_ready()
    found = []
    for _ in range(7):
        began = time.perf_counter()
        call().block_until_ready()
        found.append(time.perf_counter() - began)
    return min(found)


def rates() -> tuple[float, float]:
    """Flops per second of a square product and bytes per second of a sum over 256 MiB, in float32."""
    square, long = jnp.ones((2000, 2000), jnp.float32), jnp.ones(2**26, jnp.float32)
    multiply, total = jax.jit(lambda a: a @ a), jax.jit(jnp.sum)
    return 2 * 2000**3 / best_seconds(lambda: multiply(square)), long.nbytes / best_seconds(lambda: total(long))


def measure(points: int, samples: int, rate: float, bandwidth: float) -> None:
    data = wf.datasets.sphere(points, max(20, points))
    problem = wf.Problem(data, wf.MLP(3, "tanh"), "gd", 1.0, wf.Training(200, 0.25 / points))
    tolerance = default_tolerance(problem, 0.01, "float32")
    with enable_x64(True):
        recording = make_recording(problem, (), 1, 1)
        shared = Replicates(problem, recording, "float32", 0, lambda *_: None, slack=default_slack(problem))
        run = shared.prepared(samples, range(2), tolerance)
        *_, first = run.legs(0)
        room = run.next_room(first, 10**6)
        timed = []
        for _ in range(4):
            half = run.advance(replace(run.start(1, room), chunk=run.total // 2))
            timed.append(run.advance(replace(half, chunk=run.total)))
    last, seconds = timed[-1], min(leg.pace for leg in timed)
    assert last.done == run.total, "buffers grew on the way"
    flops = size = 0
    for forward, backward in last.used.matrices:
        flops += 2 * points * samples * (5 * int(forward) + 4 * int(backward))
        size += 4 * samples * (6 * int(forward) + 4 * int(backward))
    bound = max(flops / rate, size / bandwidth)
    ranks = ", ".join(f"{int(a)}/{int(b)}" for a, b in last.used.matrices)
    print(
        f"P {points:4d}, ranks {ranks}: {flops / 1e6:.1f} Mflop, {size / 1e6:.1f} MB, at least {1e3 * bound:.2f} ms; "
        f"a step takes {1e3 * seconds:.2f} ms: {bound / seconds:.0%} of the bound",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", nargs="+", type=int, default=[5, 20, 100])
    parser.add_argument("--samples", type=int, default=2048)
    chosen = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rate, bandwidth = rates()
    print(f"products {rate / 1e9:.0f} Gflop/s, memory {bandwidth / 1e9:.1f} GB/s, one processor", flush=True)
    for points in chosen.points:
        measure(points, chosen.samples, rate, bandwidth)


if __name__ == "__main__":
    main()
