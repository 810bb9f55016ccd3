"""The training program, written once for every width, every network and every rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..observables import Fields
from ..problem.networks import Stage
from .backward import backward, per_read, rolls, where_taught
from .capacity import shortages, undo
from .order import after, once
from .products import summed
from .sources import Source
from .state import Inputs, Spec, State
from .wide_matrix import Rates, WideMatrix


class Weights(NamedTuple):
    """W⁰, and what W(0) adds to the Gaussian matrix that it is made of where that one is asked; None: W(t) is asked."""

    inputs: Array
    initial: tuple[float, tuple[Array, Array] | None] | None = None

    def answer(self, matrix: WideMatrix, rows: Array, source: Source, key: Array):
        if self.initial is None:
            return matrix.forward(rows, source, key)
        matrix, source, answer, record = matrix.forward(rows, source, key, initial=True)
        start, structure = self.initial
        answer = answer if start == 1 else start * answer
        if structure is not None:
            answer = answer + (rows @ structure[1].T / rows.shape[-1]) @ structure[0]
        return matrix, source, answer, record


def gates_of(spec: Spec, inputs: Inputs, state: State) -> list[Array | None]:
    """m of every stage, (samples, positions, N)."""
    positions, made = spec.wiring.layout.positions, []
    for stage in spec.wiring.stages:
        weights = state.gates[stage.population]
        rows = None if weights is None else inputs.x[stage.input or 0] @ weights
        made.append(None if rows is None else rows.reshape(-1, positions, rows.shape[-1]))
    return made


def forward(
    spec: Spec, inputs: Inputs, state: State, gates: list[Array | None], key: Array, initial: bool = False
) -> tuple[State, list[Array], list[Array], list[Any], list[Any]]:
    """Preactivations, outputs of neurons, rows asked and records of the questions, per stage; or `initial` ones."""
    wiring, weights = spec.wiring, Weights(state.inputs)
    if initial:
        assert state.inputs_initial is not None
        weights = Weights(state.inputs_initial, (wiring.start, state.structure))
    matrices, sources = list(state.matrices), list(state.sources)
    h, phi, asked, records = [], [], [], []
    for k, stage in enumerate(wiring.stages[: 1 if rolls(spec, state) else None]):
        x = None if stage.input is None else inputs.x[stage.input]
        matrix = None if stage.matrix is None else matrices[stage.matrix]
        before = (h[k - 1], phi[k - 1]) if k else (None, None)
        made = _stage(spec, stage, weights, x, matrix, sources[stage.population], *before, gates[k],
                      jax.random.fold_in(key, k - 1) if k else key)  # fmt: skip
        if stage.matrix is not None:
            matrices[stage.matrix], sources[stage.population] = made[:2]
        for values, value in zip((h, phi, asked, records), made[2:], strict=True):
            values.append(value)
    if rolls(spec, state):
        matrices[0], sources[0], later = _later_stages(spec, inputs, state, weights, gates, h[0], phi[0], key)
        for values, value in zip((h, phi, asked, records), later, strict=True):
            values.extend(value)
    return replace(state, matrices=matrices, sources=sources), h, phi, asked, records


def _stage(
    spec: Spec, stage: Stage, weights: Weights, x: Array | None, matrix: WideMatrix | None, source: Source,
    h: Array | None, phi: Array | None, gate: Array | None, key: Array,
) -> tuple[Any, Source, Array, Array, Any, Any]:  # fmt: skip
    """One stage from the h and φ before it: matrix and source, h, φ, rows asked and record of the question."""
    layout = spec.wiring.layout
    shape = (-1, layout.positions, weights.inputs.shape[-1])
    drive, rows, record = jnp.zeros((), weights.inputs.dtype), None, None
    if x is not None:
        drive = (x @ weights.inputs).reshape(shape)
    if matrix is not None:
        rows = layout.unfold(phi)
        matrix, source, answer, record = weights.answer(matrix, rows, source, key)
        drive = drive + answer.reshape(shape)
    drive = drive if stage.gain == 1 else stage.gain * drive
    if stage.carry:
        assert h is not None
        drive = drive + stage.carry * h
    return matrix, source, drive, _outputs(spec, drive, gate), rows, record


def _later_stages(
    spec: Spec, inputs: Inputs, state: State, weights: Weights, gates: list[Array | None], h: Array, phi: Array,
    key: Array,
) -> tuple[Any, Source, tuple[Any, ...]]:  # fmt: skip
    """Stages 2 … T of a wiring that `repeats`, compiled once: h, φ, rows asked and records with a leading axis."""
    stage, count = spec.wiring.stages[1], len(spec.wiring.stages)

    def one(carry, now):
        matrix, source, h, phi = carry
        x, gate, number = now
        matrix, source, *made = _stage(
            spec, stage, weights, x, matrix, source, h, phi, gate, jax.random.fold_in(key, number)
        )
        return (matrix, source, made[0], made[1]), tuple(made)

    later = None if gates[0] is None else jnp.stack(gates[1:])  # type: ignore[arg-type]
    frames = (inputs.x[1:], later, jnp.arange(count - 1))
    (matrix, source, *_), made = jax.lax.scan(one, (state.matrices[0], state.sources[0], h, phi), frames)
    return matrix, source, made


def _outputs(spec: Spec, h: Array, gate: Array | None) -> Array:
    return spec.activation.phi(h) if gate is None else spec.activation.phi_dot(gate) * h


def seen_by_readout(spec: Spec, phi: list[Array]) -> list[Array]:
    """What the readout sees, per block of outputs, (samples, readout positions, N)."""
    return [spec.wiring.layout.pool(phi[k]) for k, stage in enumerate(spec.wiring.stages) if stage.read is not None]


def read_out(spec: Spec, inputs: Inputs, readout: Array, phi: list[Array]) -> Array:
    """w·φ(h)/(γ₀N), (samples, reads, C)."""
    seen = jnp.stack(seen_by_readout(spec, phi), axis=1)
    flat = seen.reshape(*seen.shape[:2], -1) @ readout.reshape(readout.shape[0], -1).T
    return flat / (inputs.richness * readout.shape[-1])


def recorded_step(spec: Spec, inputs: Inputs, state: State) -> tuple[State, Fields, Inputs]:
    """One step, what it passes being recorded: its fields, and the points and test points that they are of."""
    if spec.online:
        return step_of_batch(spec, inputs, state, tests=True)
    return *step(spec, inputs, state), inputs


def step(spec: Spec, inputs: Inputs, state: State, fresh: Array | None = None) -> tuple[State, Fields]:
    """One step of size dt; the fields are those before the update.

    All samples have passed in the first step, unless `fresh` (P,) marks the points that have never passed before.
    A step that finds no room for what is new changes nothing but says so in its buffers (`shortages`); it is to be
    taken again when they have grown.
    """
    before = state
    key = jax.random.fold_in(state.key, state.step)
    gates = gates_of(spec, inputs, state)
    if fresh is not None:
        state = _with_fresh(spec, inputs, state, gates, fresh, jax.random.fold_in(key, 2))
    state, h, phi, rows, records = forward(spec, inputs, state, gates, jax.random.fold_in(key, 0))
    raw = read_out(spec, inputs, state.readout, phi)
    state = replace(state, f_initial=jnp.where(state.step == 0, raw, state.f_initial))
    f = jnp.where(state.step == 0, 0.0, raw - state.f_initial)  # XLA may compute the first `raw` twice, not alike
    delta = where_taught(inputs, per_read(spec, spec.loss.delta, f[: spec.points], inputs.y))
    state, signals, z, g, g_tilde = backward(spec, inputs, state, gates, h, phi, delta, jax.random.fold_in(key, 1))
    fields = Fields(h, phi, signals, z, g, g_tilde, rows, f, delta, tuple(state.matrices))
    [short] = once(jnp.any(jnp.stack([jnp.asarray(False), *jax.tree.leaves(shortages(state))])).astype(jnp.int32))
    ok = short == 0
    return undo(_learn(spec, inputs, state, fields, records, ok), before, ok), fields


def _with_fresh(spec: Spec, inputs: Inputs, state: State, gates: list[Array | None], fresh: Array, key: Array) -> State:
    """`state` that knows what the `fresh` ones of its points start with: they pass through the network as it was."""
    rows = spec.points * spec.wiring.layout.positions
    points = inputs._replace(x=inputs.x[:, :rows])
    gates = [None if gate is None else gate[: spec.points] for gate in gates]

    def ask(state: State) -> State:
        state, _, phi, _, _ = forward(spec, points, state, gates, key, initial=True)
        started = read_out(spec, points, state.readout_initial, phi)
        known = state.f_initial[: spec.points]
        started = jnp.where(fresh[:, None, None], started, known)
        return replace(state, f_initial=state.f_initial.at[: spec.points].set(started))

    return jax.lax.cond(jnp.any(fresh), ask, lambda state: state, state) if spec.returns else ask(state)


def step_of_batch(spec: Spec, inputs: Inputs, state: State, tests: bool = False) -> tuple[State, Fields, Inputs]:
    """The same where only the points that teach pass through the network, and `tests` if asked; with their inputs."""
    wiring, positions, points = spec.wiring, spec.wiring.layout.positions, len(inputs.y)
    chosen = _batch(inputs, state)
    count = len(chosen)
    samples = chosen
    if tests:
        samples = jnp.concatenate([chosen, jnp.arange(points, inputs.x.shape[1] // positions, dtype=chosen.dtype)])
    passing = (samples[:, None] * positions + jnp.arange(positions)).reshape(-1)
    rows = passing[: count * positions]
    taught = None if inputs.taught is None else inputs.taught[chosen]
    within = inputs._replace(x=inputs.x[:, passing], y=inputs.y[chosen], taught=taught, batches=None)
    fresh = state.step * count + jnp.arange(count) < points if spec.online else None
    # A batch across the end of an epoch may hold a point twice.
    first = ~jnp.any(jnp.tril(rows[:, None] == rows, -1), axis=1)
    frames = [jnp.arange(len(wiring.asks(m)))[:, None] for m in range(wiring.matrices)]
    slots = [(frame * (points * positions) + rows).reshape(-1) for frame in frames]
    matrices = [
        matrix.for_rows(slot, jnp.tile(first, len(frame)))
        for matrix, slot, frame in zip(state.matrices, slots, frames, strict=True)
    ]
    small = replace(state, matrices=matrices, f_initial=state.f_initial[samples])
    small, fields = step(replace(spec, points=count), within, small, fresh)
    matrices = [matrix.for_all(slot) for matrix, slot in zip(small.matrices, slots, strict=True)]
    f_initial = state.f_initial.at[samples].set(small.f_initial) if spec.online else state.f_initial
    return replace(small, matrices=matrices, f_initial=f_initial), fields, within


def _batch(inputs: Inputs, state: State) -> Array:
    assert inputs.batches is not None
    return inputs.batches[jnp.minimum(state.step, len(inputs.batches) - 1)]


def _how_often(spec: Spec, inputs: Inputs, state: State) -> Array:
    """How often each point teaches in this step, (P,)."""
    dtype = state.readout.dtype
    if inputs.batches is None:
        return jnp.ones(spec.points, dtype)
    return jnp.zeros(spec.points, dtype).at[_batch(inputs, state)].add(1.0)


def _teaching(spec: Spec, inputs: Inputs, fields: Fields, batch: Array, rate: Array, neurons: int) -> list[Array]:
    """rate·Σ_c e_c g̃_c per stage, (P·positions, N), for the points that teach."""
    rules = spec.form.filled(inputs.rule)
    found = []
    for stage, g_tilde in zip(spec.wiring.stages, fields.g_tilde, strict=True):
        if spec.per_output:
            error = where_taught(inputs, per_read(spec, rules[stage.population].teach, fields.delta, inputs.y))
            error = error.reshape(spec.points, -1).astype(g_tilde.dtype)
            summed = jnp.einsum("mc,mcan->man", error, g_tilde)
        else:
            summed = g_tilde[:, 0]
        taught = rate * batch[:, None, None] * summed
        found.append((taught if stage.gain == 1 else stage.gain * taught).reshape(-1, neurons))
    return found


def _learn(spec: Spec, inputs: Inputs, state: State, fields: Fields, asked: list[Any], ok: Array) -> State:
    """All weight updates of one step; none where it is not `ok`."""
    wiring, rows = spec.wiring, spec.points * spec.wiring.layout.positions
    rate = inputs.dt * inputs.richness
    batch = _how_often(spec, inputs, state)
    per_stage = _teaching(spec, inputs, fields, batch, rate, state.inputs.shape[-1])

    def gather(stages: list[int], values: list[Array]) -> tuple[Array, Array]:
        return jnp.concatenate(values), jnp.concatenate([per_stage[k] for k in stages])

    driven = [k for k, stage in enumerate(wiring.stages) if stage.input is not None]
    pairs = [gather(driven, [inputs.x[wiring.stages[k].input][:rows] for k in driven])]
    rows_asked = []
    for matrix in range(wiring.matrices):
        asks = wiring.asks(matrix)
        pairs.append(gather(asks, [asked[k][:rows] for k in asks]))
        rows_asked.append(jnp.concatenate([fields.rows[k][:rows] for k in asks]))  # type: ignore[index]
    records, teaching = [record for record, _ in pairs], [taught for _, taught in pairs]
    delta = batch[:, None, None] * fields.delta
    seen = jnp.stack([value[: spec.points] for value in seen_by_readout(spec, fields.phi)], axis=1)
    readout_change = rate * jnp.einsum("mrc,mran->can", delta, seen)
    previous = None
    if spec.integrator == "ab2":
        teaching, records, readout_change, previous = _adams_bashforth(state, teaching, records, readout_change, ok)

    # Weights change when all questions about them are answered.
    moves = ok.astype(rate.dtype)
    decay = after(1.0 - moves * inputs.dt * inputs.weight_decay, *fields.signal, *fields.z)
    share = moves * inputs.dt / inputs.momentum if spec.momentum else jnp.ones_like(rate)
    decay, share, moves = once(decay, share, moves)
    keep = 1.0 - share
    teaching, readout_change = [share * t for t in teaching], share * readout_change
    input_change = summed(records[0], teaching[0])
    velocity = state.velocity
    if velocity is not None:
        input_change = keep * velocity[0] + input_change
        readout_change = keep * velocity[1] + readout_change
        velocity = (input_change, readout_change)
    rules = spec.form.filled(inputs.rule)
    follow = [jnp.asarray(moves * inputs.dt * rule.feedback.follow, decay.dtype) for rule in rules]
    matrices = [
        matrix.update(
            records[number + 1], rows_asked[number], teaching[number + 1],
            Rates(decay, moves, keep, follow[wiring.ends(number)[0]]),
        )
        for number, matrix in enumerate(state.matrices)
    ]  # fmt: skip
    mirror = state.readout_mirror
    if mirror is not None:
        mirror = mirror + follow[-1] * (state.readout - mirror)
    return replace(
        state,
        step=state.step + ok.astype(state.step.dtype),
        scale=decay * state.scale,
        inputs=decay * state.inputs + moves * input_change,
        matrices=matrices,
        readout=decay * state.readout + moves * readout_change,
        readout_mirror=mirror,
        velocity=velocity,
        previous=previous,
    )


def _adams_bashforth(state: State, teaching: list[Array], records: list[Array], readout_change: Array, ok: Array):
    """3/2 of this step's change minus 1/2 of the last one's; the first step is Euler's."""
    first = state.step == 0
    now, before = jnp.where(first, 1.0, 1.5), jnp.where(first, 0.0, -0.5)
    old_teaching, old_records, old_readout = state.previous
    made = (teaching, records, readout_change)
    previous = jax.tree.map(lambda new, old: jnp.where(ok, new, old), made, state.previous)
    teaching = [jnp.concatenate([now * a, before * b]) for a, b in zip(teaching, old_teaching, strict=True)]
    records = [jnp.concatenate([a, b]) for a, b in zip(records, old_records, strict=True)]
    return teaching, records, now * readout_change + before * old_readout, previous
