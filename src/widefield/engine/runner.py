"""Runs the program: compiled loops over steps, several seeds, progress, divergence, growing buffers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import DivergenceError, TooFewSamplesError
from ..numerics.memory import bytes_of, check_memory
from .capacity import Demand, demand_of, enlarge, first_capacity, grown, has_room, ranks
from .interpretation import Interpretation, initialise
from .observables import observe, phi_h, whole_fields
from .program import step
from .state import Inputs, Spec, State

TIMES_BUCKET = 64
SMALLER = "lower width, samples or steps, or record less often (every=)"
SECONDS_PER_CALL = 0.5  # long enough to hide the call, short enough for progress and Ctrl-C


@dataclass(frozen=True)
class Recording:
    """What is kept of a run: `wanted` variables at every `every`-th step, and some neurons."""

    wanted: frozenset[str]
    every: int
    neurons: int
    fields_every: int = 0  # whole fields φ, g, g̃ as well, at every so many steps; 0 is never

    def steps(self, last: int) -> np.ndarray:
        """The recorded ones of steps 0 … `last`."""
        return np.arange(0, last + 1, self.every)


@dataclass(frozen=True)
class Run:
    """What came out: raw arrays with a leading axis over seeds, and how it went."""

    arrays: dict[str, np.ndarray]
    info: dict[str, Any]


def _measure(spec: Spec, recording: Recording, inputs: Inputs, fields) -> dict[str, Array]:
    return observe(spec, inputs, fields, recording.wanted, recording.neurons)


@partial(jax.jit, static_argnames=("spec", "kind"))
def _start(spec: Spec, kind: Interpretation, inputs: Inputs, key: Array, quasi: Array) -> State:
    return initialise(spec, kind, inputs, key, quasi)


@partial(jax.jit, static_argnames=("spec", "recording", "demand"), donate_argnums=(4, 5))
def _advance(
    spec: Spec,
    recording: Recording,
    demand: Demand,
    inputs: Inputs,
    state: State,
    records: dict[str, Array],
    until: Array,
) -> tuple[State, dict[str, Array], tuple[Array, Array, tuple[Array, Array, Array]]]:
    """As far as `until`, or to where buffers are full or numbers are not finite; with step, finite and ranks."""

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
        if recording.fields_every:
            outside = len(kept["fields"])  # a slot that does not exist is not written
            slot = jnp.where(now % recording.fields_every == 0, now // recording.fields_every, outside)
            kept = kept | {"fields": kept["fields"].at[slot].set(whole_fields(fields, spec.points), mode="drop")}
        last = [h[:, 0, 0, : recording.neurons] for h in phi_h(fields, spec.points)]
        finite = jnp.isfinite(jnp.sum(fields.f) + sum(jnp.sum(phi**2) for phi in fields.phi))
        return state, kept | {"h_final": jnp.stack(last)}, finite

    state, records, finite = jax.lax.while_loop(go_on, one, (state, records, jnp.asarray(True)))
    return state, records, (state.step, finite, ranks(state))


def run(
    spec: Spec,
    kind: Interpretation,
    recording: Recording,
    steps: int,
    inputs: Inputs,
    keys: Array,
    quasi: np.ndarray | None,
    report: Callable[[int, int, str], None],
    finish: Callable[[State, dict[str, np.ndarray]], dict[str, np.ndarray]] = lambda state, records: records,
) -> Run:
    """Train every seed to the end, one after another: one network in memory, one compilation for all.

    `quasi` (seeds, L, d, N) are quasi-random normals, or None. `finish` turns a network's last state and
    records into what is kept of it. Cost per step: see `WideMatrix`.
    """
    samples = inputs.x.shape[0] // spec.layout.positions
    demand = demand_of(spec, samples)
    kind = first_capacity(kind, spec, samples, inputs.x.shape[1])
    total = steps + 1
    kept, most = [], (0, 0)
    if quasi is None:
        quasi = np.zeros((len(keys), spec.depth, 0, kind.width), kind.dtype)
    shapes = jax.eval_shape(lambda *arrays: arrays, inputs, keys[0], quasi[0])
    leaves, tree = jax.tree.flatten(shapes)
    room, size = _room(spec, kind, recording, steps, tuple(leaves), tree)
    check_memory(size, f"a run of width {kind.width}", SMALLER)
    for number in range(len(keys)):

        def tell(done: int, before: int = number * total) -> None:
            report(before + done, len(keys) * total, f"{kind.kind}, width {kind.width}, {len(keys)} runs")

        state, records, largest = _run_one(
            spec, kind, recording, steps, demand, inputs, keys[number], jnp.asarray(quasi[number]), room, tell
        )
        kept.append(finish(state, records))
        del state  # before the next network is made
        most = (max(most[0], largest[0]), max(most[1], largest[1]))
    arrays = {name: np.stack([records[name] for records in kept]) for name in kept[0]}
    info = {"width": kind.width, "seeds": len(keys), "engine": kind.kind}
    if kind.kind != "dense":
        info |= {"rank": most[0], "tolerance": kind.tolerance}
    if kind.kind == "mean_field":
        info |= {"directions": most[1]}
    return Run(arrays, info)


def _run_one(
    spec: Spec, kind: Interpretation, recording: Recording, steps: int, demand: Demand, inputs: Inputs, key: Array,
    quasi: Array, room: dict[str, jax.ShapeDtypeStruct], tell: Callable[[int], None],
) -> tuple[State, dict[str, np.ndarray], tuple[int, int]]:  # fmt: skip
    """One network from its first step to its last."""
    state = _start(spec, kind, inputs, key, quasi)
    records = {name: jnp.zeros(s.shape, s.dtype) for name, s in room.items()}
    total, done, chunk = steps + 1, 0, 1
    while True:
        until = min(done + chunk, total)
        began = time.perf_counter()
        state, records, status = _advance(spec, recording, demand, inputs, state, records, jnp.asarray(until))
        reached, finite, (rank, prepared, drawn) = jax.device_get(status)
        reached, largest = int(reached), (int(rank), int(drawn))
        if kind.kind == "mean_field":
            # First: where Gaussians are prepared beyond S dimensions, numbers stop being finite for that reason.
            _check_particles(kind, int(prepared) if prepared > kind.width else int(drawn))
        _check_finite(spec, inputs, reached, bool(finite))
        tell(reached)
        if reached >= total:
            times = len(recording.steps(steps))
            timed = records.keys() - {"h_final", "fields"}
            arrays = {name: np.asarray(value) for name, value in records.items()}
            return state, {name: a[:times] if name in timed else a for name, a in arrays.items()}, largest
        if reached < until:
            kind = grown(kind, int(rank), int(prepared), demand)
            check_memory(
                2 * bytes_of(state), f"a run of width {kind.width} at rank {rank}", SMALLER + ", or raise tolerance"
            )
            state = enlarge(state, kind)
        elapsed = time.perf_counter() - began
        steps_done, done = max(reached - done, 1), reached
        chunk = max(1, min(4 * chunk, int(SECONDS_PER_CALL * steps_done / max(elapsed, 1e-9))))


@lru_cache(maxsize=64)
def _room(
    spec: Spec,
    kind: Interpretation,
    recording: Recording,
    steps: int,
    leaves: tuple[jax.ShapeDtypeStruct, ...],
    tree: Any,
) -> tuple[dict[str, jax.ShapeDtypeStruct], int]:
    """Shapes of everything that will be recorded, and bytes of that and of a network, from shapes of `_start`'s arrays.

    Remembered, because the program is traced for it, which takes longer than a short run.
    """
    inputs, key, quasi = jax.tree.unflatten(tree, leaves)
    state = jax.eval_shape(partial(_start, spec, kind), inputs, key, quasi)
    _, fields = jax.eval_shape(partial(step, spec), inputs, state)
    shapes = jax.eval_shape(partial(_measure, spec, recording), inputs, fields)
    # In buckets, so that runs of other lengths need no other compilation.
    times = -(-len(recording.steps(steps)) // TIMES_BUCKET) * TIMES_BUCKET
    kept = {name: jax.ShapeDtypeStruct((times, *s.shape), s.dtype) for name, s in shapes.items()}
    if recording.fields_every:
        whole = jax.eval_shape(partial(whole_fields, points=spec.points), fields)
        kept["fields"] = jax.ShapeDtypeStruct((steps // recording.fields_every + 1, *whole.shape), whole.dtype)
    neurons = min(recording.neurons, fields.h[0].shape[-1])
    kept["h_final"] = jax.ShapeDtypeStruct((spec.depth, spec.points, neurons), fields.h[0].dtype)
    return kept, bytes_of(state) + bytes_of(kept)


def _check_finite(spec: Spec, inputs: Inputs, reached: int, finite: bool) -> None:
    if not finite:
        raise DivergenceError(
            f"the run diverged at step {reached - 1} (dt {float(inputs.dt):g}, richness {float(inputs.richness):g}, "
            f"rule {spec.rule}); lower dt, or lower richness"
        )


def _check_particles(kind: Interpretation, directions: int) -> None:
    if directions > kind.width // 2:
        raise TooFewSamplesError(
            f"a layer has {directions} Gaussian directions for {kind.width} particles; "
            f"raise samples to {4 * directions} or more, or raise tolerance (now {kind.tolerance:g})"
        )
