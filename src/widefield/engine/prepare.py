"""From a problem to what the engine runs on."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ..errors import require, require_integer
from ..problem.problem import Problem
from .layout import input_coordinates, make_layout
from .observables import KERNELS, PARTICLES, POSITIONS
from .runner import Recording
from .state import Inputs, Spec


def make_recording(problem: Problem, record: Sequence[str] | None, every: int, neurons: int) -> Recording:
    """Check what is to be recorded."""
    require_integer("every", every, 1)
    require_integer("neurons", neurons, 1)
    if record is None:
        record = KERNELS if problem.data.outputs == 1 else ("phi",)
    known = (*KERNELS, *POSITIONS, *PARTICLES)
    for name in record:
        require(name in known, "record", name, f"names from {', '.join(known)}")
    return Recording(frozenset(record), every, neurons)


def prepare(problem: Problem, recording: Recording, dtype: str) -> tuple[Spec, Inputs]:
    """The compiled part of a problem, and its numbers."""
    training, data = problem.training, problem.data
    layout = make_layout(problem.network, data.x.shape)
    wants_gradients = bool(recording.wanted - {"phi", "phi_positions", "h_particles"})
    rules = [problem.rule.at(layer, problem.network.depth) for layer in range(1, problem.network.depth + 1)]
    # One sweep carries Σ_c e_c·(signal of output c): for rules linear in the signal that share their error e.
    shared = all(rule.linear for rule in rules) and len({type(rule).teach for rule in rules}) == 1
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
        per_output=data.outputs == 1 or wants_gradients or not shared,
    )
    inputs = Inputs(
        x=jnp.asarray(input_coordinates(layout, data.all_x), dtype),
        y=jnp.asarray(data.y_columns, dtype),
        richness=jnp.asarray(problem.richness, dtype),
        dt=jnp.asarray(training.dt, dtype),
        weight_decay=jnp.asarray(training.weight_decay, dtype),
        momentum=jnp.asarray(training.momentum, dtype),
        batches=jnp.asarray(training.batches(data.points) if training.batch_size else np.ones((1, data.points)), dtype),
    )
    return spec, inputs
