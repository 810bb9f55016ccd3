"""One solve on several devices and in several processes: what it loses, and what it communicates.

    python benchmarks/scale_out.py               # everything, some minutes
    python benchmarks/scale_out.py --parts bytes # communication of a step, from the compiled program

Every measurement is a process of its own on the same cores, since the number of devices is fixed when JAX starts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

BYTES = {"f64": 8, "f32": 4, "s64": 8, "s32": 4, "u32": 4, "pred": 1}
COLLECTIVE = re.compile(r"= (\(.*?\)|\S+) (?:all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\(")
DEVICES = "--xla_force_host_platform_device_count={}"


@dataclass(frozen=True)
class Way:
    """How the cores are used."""

    name: str
    processes: int
    devices: int  # of each process
    split: bool  # neurons of one network on all devices, or one network on each


WAYS = (
    Way("1 process, 1 device", 1, 1, False),
    Way("1 process, 2 devices, a network each", 1, 2, False),
    Way("1 process, 2 devices, neurons shared", 1, 2, True),
    Way("2 processes, a network each", 2, 1, False),
    Way("2 processes, neurons shared", 2, 1, True),
)


def make_problem(points: int, steps: int):
    import widefield as wf

    data = wf.datasets.sphere(points, dimension=20)
    return wf.Problem(data, wf.MLP(3, "tanh"), "gd", 1.0, wf.Training(steps, 0.5 / points))


# Time


def measure_time(ways: list[int], samples: int, points: int, steps: int, seeds: int, repeats: int) -> None:
    """Seconds of a warm solve, the shortest of several, each way, and against the first."""
    print(f"S = {samples}, P = {points}, {steps} steps, {seeds} replicates, depth 3 tanh, GD, float64", flush=True)
    first = None
    for way in (WAYS[number - 1] for number in ways):
        seconds = min(run_way(way, samples, points, steps, seeds, repeats))
        first = first or seconds
        print(f"  {way.name:40s} {seconds:6.2f} s   {seconds / first - 1:+.0%}", flush=True)


def run_way(way: Way, *sizes: int) -> list[float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"XLA_FLAGS": DEVICES.format(way.devices)}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--inside", json.dumps([way.processes, n, port, way.split, *sizes])],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        for n in range(way.processes)
    ]  # fmt: skip
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"{way.name} failed")
    return json.loads(said[0].splitlines()[-1])


def inside(
    processes: int, number: int, port: int, split: bool, samples: int, points: int, steps: int, seeds: int, repeats: int
) -> None:
    """One process of a measurement, on its share of the cores."""
    if processes > 1 and hasattr(os, "sched_setaffinity"):  # before JAX counts them
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[number::processes])
    import jax

    if processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", processes, number)
    import widefield as wf
    from widefield.engine import run as engine
    from widefield.engine.devices import Place

    if split:  # also where there are networks for all devices
        engine.places = lambda devices, *others: (Place(devices),)
    problem, seconds = make_problem(points, steps), []
    solve = partial(wf.solve, problem, samples=samples, seeds=seeds, precision="float64", progress=False)
    solve()
    for _ in range(repeats):
        began = time.perf_counter()
        solve()
        seconds.append(time.perf_counter() - began)
    print(json.dumps(seconds))


# Communication


def measure_bytes(samples: int, points: int, steps: int) -> None:
    """Bytes that a device contributes to sums in a step, in the compiled program and by formula."""
    environment = os.environ | {"XLA_FLAGS": DEVICES.format(2)}
    sizes = json.dumps([samples, points, steps])
    subprocess.run([sys.executable, __file__, "--bytes", sizes], env=environment, check=True)


def inside_bytes(samples: int, points: int, steps: int) -> None:
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    from widefield.engine import run as engine
    from widefield.engine.devices import Place
    from widefield.engine.interpretation import Interpretation
    from widefield.engine.prepare import make_recording, prepare
    from widefield.engine.sources import Pool

    problem = make_problem(points, steps)
    for record in ((), ("entk", "phi")):
        recording = make_recording(problem, record, 1, 4)
        spec, inputs = prepare(problem, recording, "float64", 0.02)
        keys = jax.random.split(jax.random.key(0), 1)
        rows = np.random.default_rng(0).standard_normal((16, samples))
        pools = [[Pool(rows, (layer,)) for layer in range(spec.populations)]]
        run = engine.Run(spec, inputs, Interpretation("mean_field", samples), recording, steps, keys, pools)
        run = run.at(Place(tuple(jax.devices())))
        *_, last = run.legs(0)
        ends = run.place.put((np.asarray(1), np.asarray(steps)), samples)
        lowered = engine._advance.jitted.lower(spec, recording, run.place, run.inputs, last.state, last.records, *ends)
        step, direction, count = communication(lowered.compile().as_text() or "")
        rooms = last.kind.room.matrices
        formula = 8 * sum(2 * points * (1 + forward + backward) for forward, backward in rooms) + 8 * points
        kernels = 0 if not record else 8 * points**2 * 3 * problem.network.depth
        print(
            f"S = {samples}, P = {points}, buffers {rooms}, rank {last.rank}, recorded: {', '.join(record) or 'f'}\n"
            f"  per step {step} bytes in {count} sums; formula {formula + kernels}\n"
            f"  per block of new directions up to {direction} bytes",
            flush=True,
        )


def communication(program: str) -> tuple[int, int, int]:
    """Bytes per step, bytes of all loops within a step, run once each, and the number of sums per step."""
    bodies = dict(computations(program))
    loops = {name: re.findall(r" while\(.*?body=%?([\w.\-]+)", text) for name, text in bodies.items()}
    entry = next(name for name, text in bodies.items() if text.startswith("ENTRY"))
    (step,) = [body for body in loops[entry] if loops[body]] or loops[entry]
    inner, found = list(loops[step]), 0
    while inner:
        name = inner.pop()
        found += sum(map(size, COLLECTIVE.findall(bodies[name])))
        inner += loops[name]
    own = COLLECTIVE.findall(bodies[step])
    return sum(map(size, own)), found, len(own)


def computations(program: str) -> Iterable[tuple[str, str]]:
    """Name and text of every computation of an HLO module."""
    for block in re.split(r"\n\n", program):
        head = re.match(r"(?:ENTRY )?%?([\w.\-]+) \(", block)
        if head:
            yield head[1], block


def size(shapes: str) -> int:
    found = 0
    for kind, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", shapes):
        count = 1
        for dimension in filter(None, dimensions.split(",")):
            count *= int(dimension)
        found += BYTES.get(kind, 0) * count
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("time", "bytes")
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    numbers = range(1, len(WAYS) + 1)
    parser.add_argument("--ways", nargs="+", type=int, choices=numbers, default=list(numbers))
    parser.add_argument("--samples", type=int, default=16384)
    parser.add_argument("--points", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--inside", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=json.loads, help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.inside:
        inside(*options.inside)
    elif options.bytes:
        inside_bytes(*options.bytes)
    else:
        if "bytes" in options.parts:
            measure_bytes(2048, options.points, 20)
        if "time" in options.parts:
            measure_time(options.ways, options.samples, options.points, options.steps, options.seeds, options.repeats)


if __name__ == "__main__":
    main()
