"""Finite-width networks: `wf.simulate`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .engine.interpretation import Interpretation
from .engine.layout import input_coordinates, make_layout
from .engine.observables import KERNELS, PARTICLES
from .engine.program import Inputs, Spec
from .engine.runner import Recording, run
from .errors import require, require_integer, require_number
from .problem.problem import Problem
from .progress import make_progress
from .results.derived import derive
from .results.result import Result, make_result

ENGINES = ("auto", "dense", "conditioned")
CONDITIONED_TOLERANCE = 1e-6


def simulate(
    problem: Problem,
    width: int,
    seeds: int = 4,
    *,
    engine: str = "auto",
    seed: int = 0,
    every: int = 1,
    record: Sequence[str] | None = None,
    neurons: int = 1000,
    tolerance: float = CONDITIONED_TOLERANCE,
    progress: bool | None = None,
) -> Result:
    """Train `seeds` networks of `width` neurons per hidden layer; mean and standard error over them.

    Args:
        engine: "dense" holds N×N arrays; "conditioned" has the same law in O(N·rank) memory; "auto" takes the cheaper.
        seed: the same seed gives the same numbers.
        every: record every k-th step.
        record: kernels to record, from entk, phi, g, g_tilde, g_tilde_tilde; default all (with several outputs phi).
        neurons: how many neurons' last preactivations `h_final` keeps.
        tolerance: relative size below which a new direction is dropped by "conditioned".
        progress: show a bar; default on a terminal only.
    """
    require_integer("width", width, 2)
    require_integer("seeds", seeds, 1)
    require_integer("seed", seed, 0)
    require(engine in ENGINES, "engine", engine, f"one of {', '.join(ENGINES)}")
    require_number("tolerance", tolerance, "a number in [1e-10, 0.1]", at_least=1e-10, at_most=0.1)
    recording = make_recording(problem, record, every, neurons)
    spec, inputs = prepare(problem, recording, "float64")
    if engine == "auto":
        engine = cheaper_engine(spec, width, problem.training.steps)
    kind = Interpretation(engine, width, tolerance=tolerance)
    keys = jax.random.split(jax.random.key(seed), seeds)
    quasi = jnp.zeros((seeds, spec.depth, 0, width))
    with make_progress(progress) as bar:
        outcome = run(spec, kind, recording, inputs, keys, quasi, bar.update)
    arrays = derive(problem, outcome.arrays)
    return make_result(problem, f"simulate/{engine}", arrays, steps=recording.recorded_steps, seed=seed, info=outcome.info)


def make_recording(problem: Problem, record: Sequence[str] | None, every: int, neurons: int) -> Recording:
    """Check what is to be recorded."""
    require_integer("every", every, 1)
    require_integer("neurons", neurons, 1)
    if record is None:
        record = KERNELS if problem.data.outputs == 1 else ("phi",)
    known = (*KERNELS, *PARTICLES)
    for name in record:
        require(name in known, "record", name, f"names from {', '.join(known)}")
    return Recording(frozenset(record), problem.training.steps, every, neurons)


def prepare(problem: Problem, recording: Recording, dtype: str) -> tuple[Spec, Inputs]:
    """The compiled part of a problem, and its numbers."""
    training, data = problem.training, problem.data
    layout = make_layout(problem.network, data.x.shape)
    wants_gradients = bool({"entk", "g", "g_tilde", "g_tilde_tilde", "z_particles", "g_tilde_particles"} & recording.wanted)
    linear = all(problem.rule.at(layer, problem.network.depth).linear for layer in range(1, problem.network.depth + 1))
    spec = Spec(
        network=problem.network,
        rule=problem.rule,
        loss=training.loss,
        layout=layout,
        points=data.points,
        outputs=data.outputs,
        integrator=training.integrator,
        momentum=training.momentum > 0,
        gradients=wants_gradients,
        per_output=data.outputs == 1 or wants_gradients or not linear,
    )
    inputs = Inputs(
        x=jnp.asarray(input_coordinates(layout, data.all_x), dtype),
        y=jnp.asarray(data.y_columns, dtype),
        richness=jnp.asarray(problem.richness, dtype),
        dt=jnp.asarray(training.dt, dtype),
        weight_decay=jnp.asarray(training.weight_decay, dtype),
        momentum=jnp.asarray(training.momentum, dtype),
    )
    return spec, inputs


def cheaper_engine(spec: Spec, width: int, steps: int) -> str:
    """The faster of dense and conditioned, by the crossing that benchmarks/width.py measures."""
    return "dense" if spec.depth == 1 or width <= 2000 else "conditioned"
