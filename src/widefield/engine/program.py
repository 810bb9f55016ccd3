"""The training program, written once for every width and every rule (design §1, §3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .backward import backward
from .order import after
from .state import Fields, Inputs, Spec, State


def forward(spec: Spec, inputs: Inputs, state: State, key: Array) -> tuple[State, list[Array], list[Array], list[Any]]:
    """Preactivations, outputs of neurons and the questions asked, per layer; f is `readout` of the last."""
    neurons = state.inputs.shape[-1]
    layout = spec.layout
    shape = (-1, layout.positions, neurons)
    matrices, sources = list(state.matrices), list(state.sources)
    h = [(inputs.x @ state.inputs).reshape(shape)]
    phi, asked = [], []
    for layer in range(spec.depth):
        phi.append(_outputs(spec, h[layer], state.gates[layer]))
        if layer + 1 < spec.depth:
            rows = layout.unfold(phi[layer])
            matrices[layer], sources[layer + 1], answer, record = matrices[layer].forward(
                rows, sources[layer + 1], jax.random.fold_in(key, layer)
            )
            asked.append((rows, record))
            h.append(answer.reshape(shape) + (h[layer] if spec.residual else 0.0))
    return replace(state, matrices=matrices, sources=sources), h, phi, asked


def _outputs(spec: Spec, h: Array, gate: Array | None) -> Array:
    activation = spec.network.activation
    return activation.phi(h) if gate is None else activation.phi_dot(gate) * h


def pool(spec: Spec, phi: Array) -> Array:
    """What the readout sees, (samples, readout positions, N)."""
    return phi.mean(1, keepdims=True) if spec.layout.pooled else phi


def read_out(spec: Spec, inputs: Inputs, readout: Array, phi: Array) -> Array:
    """w·φ(h^L)/(γ₀N), (samples, C)."""
    seen = pool(spec, phi)
    flat = seen.reshape(seen.shape[0], -1) @ readout.reshape(readout.shape[0], -1).T
    return flat / (inputs.richness * phi.shape[-1])


def step(spec: Spec, inputs: Inputs, state: State) -> tuple[State, Fields]:
    """One step of size dt of the dynamics of design §1; the fields are those before the update."""
    key = jax.random.fold_in(state.key, state.step)
    state, h, phi, asked = forward(spec, inputs, state, jax.random.fold_in(key, 0))
    raw = read_out(spec, inputs, state.readout, phi[-1])
    state = replace(state, f_initial=jnp.where(state.step == 0, raw, state.f_initial))
    f = raw - state.f_initial
    delta = spec.loss.delta(f[: spec.points], inputs.y)
    state, signals, z, g, g_tilde = backward(spec, state, h, phi, delta, inputs.y, jax.random.fold_in(key, 1))
    fields = Fields(h, phi, signals, z, g, g_tilde, [rows for rows, _ in asked], f, delta)
    return _learn(spec, inputs, state, fields, [record for _, record in asked]), fields


def _learn(spec: Spec, inputs: Inputs, state: State, fields: Fields, asked: list[Any]) -> State:
    """All weight updates of one step."""
    points, positions = spec.points, spec.layout.positions
    neurons = state.inputs.shape[-1]
    rate = inputs.dt * inputs.richness
    batch = inputs.batches[jnp.minimum(state.step, len(inputs.batches) - 1)]
    delta = batch[:, None] * fields.delta
    teaching = []
    for layer, g_tilde in enumerate(fields.g_tilde):
        if spec.per_output:
            error = spec.rule_at(layer + 1).teach(fields.delta, inputs.y)
            summed = jnp.einsum("mc,mcan->man", error, g_tilde)
        else:
            summed = g_tilde[:, 0]
        teaching.append((rate * batch[:, None, None] * summed).reshape(points * positions, neurons))
    seen = pool(spec, fields.phi[-1])[:points]
    records = [inputs.x[: points * positions], *[record[: points * positions] for record in asked]]
    readout_change = rate * jnp.einsum("mc,man->can", delta, seen)
    previous = None
    if spec.integrator == "ab2":
        teaching, records, readout_change, previous = _adams_bashforth(state, teaching, records, readout_change)

    # Weights change when all questions about them are answered.
    decay = after(1.0 - inputs.dt * inputs.weight_decay, *fields.signal, *fields.z)
    keep = jnp.zeros_like(decay)
    if spec.momentum:
        share = inputs.dt / inputs.momentum
        keep = 1.0 - share
        teaching = [share * t for t in teaching]
        readout_change = share * readout_change
    input_change = records[0].T @ teaching[0]
    velocity = state.velocity
    if velocity is not None:
        input_change = keep * velocity[0] + input_change
        readout_change = keep * velocity[1] + readout_change
        velocity = (input_change, readout_change)
    matrices = [
        matrix.update(record, t, decay, keep)
        for matrix, record, t in zip(state.matrices, records[1:], teaching[1:], strict=True)
    ]
    return replace(
        state,
        step=state.step + 1,
        scale=decay * state.scale,
        inputs=decay * state.inputs + input_change,
        matrices=matrices,
        readout=decay * state.readout + readout_change,
        velocity=velocity,
        previous=previous,
    )


def _adams_bashforth(state: State, teaching: list[Array], records: list[Array], readout_change: Array):
    """3/2 of this step's change minus 1/2 of the last one's; the first step is Euler's."""
    first = state.step == 0
    now, before = jnp.where(first, 1.0, 1.5), jnp.where(first, 0.0, -0.5)
    old_teaching, old_records, old_readout = state.previous
    previous = (teaching, records, readout_change)
    teaching = [jnp.concatenate([now * a, before * b]) for a, b in zip(teaching, old_teaching, strict=True)]
    records = [jnp.concatenate([a, b]) for a, b in zip(records, old_records, strict=True)]
    return teaching, records, now * readout_change + before * old_readout, previous
