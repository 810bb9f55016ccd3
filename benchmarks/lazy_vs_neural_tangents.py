"""Time and values of the NTK of a 3-hidden-layer ReLU network, against neural-tangents 0.6.5.

neural-tangents does not import on current JAX, so this script makes an environment of its own for it
(Python 3.11, JAX 0.4.30) in a temporary folder, or in --environment to use it again.
Both run in float64 on the same points, in turns:

    python benchmarks/lazy_vs_neural_tangents.py [--points 2000] [--dimension 100] [--rounds 5] [--environment FOLDER]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import widefield as wf
from widefield.solvers.lazy import kernels

REQUIREMENTS = ("neural-tangents==0.6.5", "jax==0.4.30", "jaxlib==0.4.30", "numpy<2", "scipy<1.13")

# Runs under the other environment's Python: reads points, answers each "go" with a time, and leaves the kernel behind.
OTHER = """
import sys, time
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, numpy as np
from neural_tangents import stax
x = jnp.asarray(np.load(sys.argv[1]))
layers = [stax.Dense(1, W_std=1.0), stax.Relu()]
for _ in range(2):
    layers += [stax.Dense(1, W_std=2**0.5), stax.Relu()]
kernel = jax.jit(stax.serial(*layers, stax.Dense(1, W_std=2**0.5))[2], static_argnames="get")
for line in sys.stdin:
    started = time.perf_counter()
    value = kernel(x, None, get="ntk").block_until_ready()
    print(time.perf_counter() - started, flush=True)
    np.save(sys.argv[2], np.asarray(value))
"""


def other_python(folder: Path) -> Path:
    """Python of the environment in `folder`, which is made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        print("making an environment for neural-tangents …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    return python


def run(environment: Path, work: Path, points: int, dimension: int, rounds: int) -> None:
    x = np.random.default_rng(0).standard_normal((points, dimension))
    inputs, outputs, script = work / "x.npy", work / "ntk.npy", work / "other.py"
    np.save(inputs, x)
    script.write_text(OTHER)
    network = wf.MLP(depth=3, activation="relu")
    ours, theirs = [], []
    mine = np.empty(0)
    command = [other_python(environment), script, inputs, outputs]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(rounds + 1):
            process.stdin.write("go\n")
            process.stdin.flush()
            theirs.append(float(process.stdout.readline()))
            started = time.perf_counter()
            mine = kernels(x, network, "gd", outputs=("entk",)).entk
            ours.append(time.perf_counter() - started)
        process.stdin.close()
        process.wait()
    reference = np.load(outputs)
    difference = np.max(np.abs(mine - reference)) / np.max(np.abs(reference))
    entrywise = np.max(np.abs(mine - reference) / np.abs(reference))
    print(f"{points} points in {dimension} dimensions, float64, median of {rounds} rounds")
    print(f"neural-tangents 0.6.5  {np.median(theirs[1:]):.3f} s   (first call, with compilation, {theirs[0]:.2f} s)")
    print(f"widefield              {np.median(ours[1:]):.3f} s   (first call, with compilation, {ours[0]:.2f} s)")
    print(f"ratio                  {np.median(theirs[1:]) / np.median(ours[1:]):.2f} (above 1: widefield is faster)")
    print(f"largest difference     {difference:.1e} of the largest entry, {entrywise:.1e} entry by entry")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--environment", type=Path, help="folder of the environment; kept for the next time")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        environment = arguments.environment or work / "environment"
        run(environment, work, arguments.points, arguments.dimension, arguments.rounds)


if __name__ == "__main__":
    main()
