"""Speed of `wf.simulate(engine="dense")` next to a bare hand-written JAX loop with the same observables.

    python benchmarks/dense_overhead.py [--widths 1000 2000] [--repeats 5]

Two hidden tanh layers trained by gradient descent on 10 points. Compilation is excluded; the two take turns, so that
other work on the machine meets both alike. The ratio is bare seconds over simulate seconds, its median over the turns:
1 is no overhead. Both start from random weights inside the timed part.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import widefield as wf

jax.config.update("jax_enable_x64", True)  # the loop by hand computes in the precision of widefield

POINTS, DIMENSION, DT, RICHNESS = 10, 20, 0.05, 1.0


@partial(jax.jit, static_argnums=(2, 3))
def bare(x: jax.Array, y: jax.Array, width: int, steps: int, key: jax.Array) -> dict[str, jax.Array]:
    """A network as one would write it for this one problem: no rules, no layouts, no chunks."""
    keys = jax.random.split(key, 3)
    x = x / jnp.sqrt(x.shape[1])
    first = jax.random.normal(keys[0], (x.shape[1], width))
    hidden = jax.random.normal(keys[1], (width, width)) / jnp.sqrt(width)
    readout = jax.random.normal(keys[2], (width,))
    rate = DT * RICHNESS

    def fields(weights):
        first, hidden, readout = weights
        phi1 = jnp.tanh(x @ first)
        phi2 = jnp.tanh(phi1 @ hidden)
        return phi1, phi2, phi2 @ readout / (RICHNESS * width)

    start = fields((first, hidden, readout))[2]

    def step(weights, _):
        first, hidden, readout = weights
        phi1, phi2, raw = fields(weights)
        f = raw - start
        delta = y - f
        g2 = (1 - phi2**2) * readout
        g1 = (1 - phi1**2) * (g2 @ hidden.T)
        phi = jnp.stack([phi1 @ phi1.T, phi2 @ phi2.T]) / width
        g = jnp.stack([g1 @ g1.T, g2 @ g2.T]) / width
        seen = {"f": f, "phi": phi, "g": g, "entk": g[0] * (x @ x.T) + g[1] * phi[0] + phi[1]}
        first = first + rate * x.T @ (delta[:, None] * g1)
        hidden = hidden + (rate / width) * phi1.T @ (delta[:, None] * g2)
        readout = readout + rate * delta @ phi2
        return (first, hidden, readout), seen

    return jax.lax.scan(step, (first, hidden, readout), None, length=steps + 1)[1]


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    data = wf.datasets.sphere(POINTS, DIMENSION)
    problem = wf.Problem(data, wf.MLP(2, "tanh"), "gd", RICHNESS, wf.Training(options.steps, DT))
    x, y = jnp.asarray(data.x), jnp.asarray(data.y)
    print("width  bare s  simulate s  bare/simulate (lowest … highest)")
    for width in options.widths:

        def library(width: int = width) -> float:
            return float(wf.simulate(problem, width, 1, engine="dense", progress=False)["loss"][-1])

        def by_hand(width: int = width) -> object:
            return bare(x, y, width, options.steps, jax.random.key(1))

        for call in (library, by_hand):
            seconds(call)  # compiles
        turns = np.array([(seconds(by_hand), seconds(library)) for _ in range(options.repeats)])
        ratios = turns[:, 0] / turns[:, 1]
        ours, theirs = np.median(turns[:, 1]), np.median(turns[:, 0])
        print(
            f"{width:5d} {theirs:7.3f} {ours:11.3f}  {np.median(ratios):.2f} ({ratios.min():.2f} … {ratios.max():.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
