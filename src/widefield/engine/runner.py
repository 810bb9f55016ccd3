"""Runs the program: compiled loops over steps, several seeds, progress, divergence, growing buffers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import DivergenceError, TooFewSamplesError
from .capacity import Demand, demand_of, enlarge, first_capacity, grown, has_room, ranks
from .interpretation import Interpretation, initialise
from .memory import bytes_of, check_memory
from .observables import observe, phi_h
from .program import Inputs, Spec, State, step

SECONDS_PER_CALL = 0.5  # long enough to hide the call, short enough for progress and Ctrl-C


@dataclass(frozen=True)
class Recording:
    """What is kept of a run: `wanted` variables at every `every`-th of `steps`, and some neurons."""

    wanted: frozenset[str]
    steps: int
    every: int
    neurons: int

    @property
    def recorded_steps(self) -> np.ndarray:
        return np.arange(0, self.steps + 1, self.every)


@dataclass(frozen=True)
class Run:
    """What came out: raw arrays with a leading axis over seeds, and how it went."""

    arrays: dict[str, np.ndarray]
    info: dict[str, Any]


def _measure(spec: Spec, recording: Recording, inputs: Inputs, fields) -> dict[str, Array]:
    return observe(spec, inputs, fields, recording.wanted, recording.neurons)


@partial(jax.jit, static_argnames=("spec", "kind"))
def _start(spec: Spec, kind: Interpretation, inputs: Inputs, keys: Array, quasi: Array) -> State:
    return jax.lax.map(lambda seed: initialise(spec, kind, inputs, *seed), (keys, quasi))


@partial(jax.jit, static_argnames=("spec", "recording", "demand"), donate_argnums=(4, 5))
def _advance(
    spec: Spec,
    recording: Recording,
    demand: Demand,
    inputs: Inputs,
    states: State,
    records: dict[str, Array],
    until: Array,
) -> tuple[State, dict[str, Array], Array, tuple[Array, Array]]:
    """Every seed as far as `until`, or to where its buffers are full or its numbers are not finite."""

    def go_on(carry) -> Array:
        state, _, finite = carry
        return (state.step < until) & finite & has_room(state, demand)

    def one(carry):
        state, kept, _ = carry
        now = state.step
        state, fields = step(spec, inputs, state)

        def write(kept: dict[str, Array]) -> dict[str, Array]:
            values = _measure(spec, recording, inputs, fields)
            return kept | {name: kept[name].at[now // recording.every].set(value) for name, value in values.items()}

        kept = (
            write(kept) if recording.every == 1 else jax.lax.cond(now % recording.every == 0, write, lambda k: k, kept)
        )
        last = [h[:, 0, 0, : recording.neurons] for h in phi_h(fields, spec.points)]
        finite = jnp.isfinite(jnp.sum(fields.f) + sum(jnp.sum(phi**2) for phi in fields.phi))
        return state, kept | {"h_final": jnp.stack(last)}, finite

    def whole(seed):
        state, kept = seed
        return jax.lax.while_loop(go_on, one, (state, kept, jnp.asarray(True)))

    states, records, finite = jax.lax.map(whole, (states, records))
    return states, records, finite, ranks(states)


def run(
    spec: Spec,
    kind: Interpretation,
    recording: Recording,
    inputs: Inputs,
    keys: Array,
    quasi: Array,
    report: Callable[[int, int, str], None],
) -> Run:
    """Train every seed to the end. Cost per step: see the interpretation of `WideMatrix`."""
    samples = inputs.x.shape[0] // spec.layout.positions
    demand = demand_of(spec, samples)
    kind = first_capacity(kind, spec, samples, inputs.x.shape[1])
    shapes = jax.eval_shape(partial(_start, spec, kind), inputs, keys, quasi)
    records = _empty_records(spec, recording, inputs, shapes, len(keys))
    smaller = "lower width, samples, seeds or steps, or record less often (every=)"
    check_memory(bytes_of(shapes) + bytes_of(records), f"this run at width {kind.width}", smaller)
    states = _start(spec, kind, inputs, keys, quasi)
    total = recording.steps + 1
    chunk, done = 1, 0
    while True:
        until = min(done + chunk, total)
        began = time.perf_counter()
        states, records, finite, (rank, count) = _advance(
            spec, recording, demand, inputs, states, records, jnp.asarray(until)
        )
        reached = np.asarray(states.step)
        _check_finite(spec, inputs, reached, np.asarray(finite))
        if kind.kind == "mean_field":
            _check_particles(kind, int(np.max(count)))
        report(int(reached.min()), total, f"training {len(keys)} runs of width {kind.width}")
        if reached.min() >= total:
            break
        elapsed = time.perf_counter() - began
        if reached.min() < until:
            kind = grown(kind, states, demand)
            check_memory(2 * bytes_of(states), f"this run at width {kind.width}, rank {int(np.max(rank))},",
                         smaller + ", or raise tolerance")  # fmt: skip
            states = enlarge(states, kind)
        steps_done = max(int(reached.min()) - done, 1)
        done = int(reached.min())
        chunk = max(1, min(4 * chunk, int(SECONDS_PER_CALL * steps_done / max(elapsed, 1e-9))))
    arrays = {name: np.asarray(value) for name, value in records.items()}
    info = {"width": kind.width, "seeds": len(keys), "engine": kind.kind}
    if kind.kind != "dense":
        info |= {"rank": int(np.max(rank)), "tolerance": kind.tolerance}
    if kind.kind == "mean_field":
        info |= {"directions": int(np.max(count))}
    return Run(arrays, info)


def _empty_records(spec: Spec, recording: Recording, inputs: Inputs, states: Any, seeds: int) -> dict[str, Array]:
    """Zeros in the shapes of everything that will be recorded."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), states)
    _, fields = jax.eval_shape(partial(step, spec), inputs, one)
    shapes = jax.eval_shape(partial(_measure, spec, recording), inputs, fields)
    times = len(recording.recorded_steps)
    records = {name: jnp.zeros((seeds, times, *s.shape), s.dtype) for name, s in shapes.items()}
    neurons = min(recording.neurons, fields.h[0].shape[-1])
    records["h_final"] = jnp.zeros((seeds, spec.depth, spec.points, neurons), fields.h[0].dtype)
    return records


def _check_finite(spec: Spec, inputs: Inputs, reached: np.ndarray, finite: np.ndarray) -> None:
    if not finite.all():
        at = int(reached[~finite].min()) - 1
        raise DivergenceError(
            f"the run diverged at step {at} (dt {float(inputs.dt):g}, richness {float(inputs.richness):g}, "
            f"rule {spec.rule}); lower dt, or lower richness"
        )


def _check_particles(kind: Interpretation, directions: int) -> None:
    if directions > kind.width // 2:
        raise TooFewSamplesError(
            f"a layer has {directions} Gaussian directions for {kind.width} particles; "
            f"raise samples to {4 * directions} or more, or raise tolerance (now {kind.tolerance:g})"
        )
