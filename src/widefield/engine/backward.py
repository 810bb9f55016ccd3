"""The way back: what the rule's feedback delivers, and the pseudo-gradients g̃ that it makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..problem.networks import Stage, Wiring
from ..rules.feedback import Feedback, Past, Vectors
from ..rules.rule import Rule, Site
from .sources import Source
from .state import Inputs, Spec, State
from .wide_matrix import Ask, WideMatrix


def per_read(spec: Spec, function: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """A function of (P, C) arrays applied to (P, reads, C), every block of outputs counting as points of its own."""
    return function(a.reshape(-1, spec.outputs), b.reshape(-1, spec.outputs)).reshape(a.shape)


def where_taught(inputs: Inputs, errors: Array) -> Array:
    """Errors (P, reads, C), 0 where there is no target."""
    return errors if inputs.taught is None else inputs.taught[..., None] * errors


def backward(
    spec: Spec, inputs: Inputs, state: State, h: list[Array], phi: list[Array], delta: Array, key: Array
) -> tuple[State, list[Array], list[Array], list[Array], list[Array]]:
    """Signals, pre-gradients z and gradients g (if tracked), pseudo-gradients g̃ of the training points, per stage."""
    stages, points = spec.wiring.stages, spec.points
    rules = spec.form.filled(inputs.rule)
    past = Past(state.scale, state.step, inputs.dt, spec.wiring.start)
    matrices, feedbacks, sources = list(state.matrices), list(state.feedbacks), list(state.sources)
    signals: list[Any] = [None] * len(stages)
    zs: list[Any] = [None] * len(stages)
    g: list[Any] = [None] * len(stages)
    g_tilde: list[Any] = [None] * len(stages)
    for k in reversed(range(len(stages))):
        stage = stages[k]
        above = stages[k + 1] if k + 1 < len(stages) else None
        rule, gate = rules[stage.population], state.gates[k]
        slope = spec.activation.phi_dot(h[k] if gate is None else gate)[:points, None]
        z = signal = None
        if above is not None and above.matrix is not None:
            m = above.matrix
            matrices[m], feedbacks[m], sources[stage.population], z, signal = _through_weights(
                spec, rule.feedback, past, m, above.gain, matrices[m], feedbacks[m], sources[stage.population],
                g[k + 1], g_tilde[k + 1], jax.random.fold_in(key, k),
            )  # fmt: skip
        if stage.read is not None and spec.track_gradient:
            z = _plus(z, _of_outputs(spec, stage.read, spec.wiring.layout.unpool(state.readout)))
        signal = _plus(signal, _own_signal(spec, inputs, stage, rule, state, past, delta))
        if signal is None:
            signal = jnp.zeros((), slope.dtype)
        shape = (points, spec.sweeps, *h[k].shape[1:])
        local = rule.local(_site(spec, inputs, delta, h[k], phi[k], slope, signal, gate))
        g_tilde[k] = jnp.broadcast_to(local, shape).astype(slope.dtype)
        g_tilde[k] = _only(spec, _reached(spec.wiring, rule.feedback, k), g_tilde[k])
        # A layer's skip belongs to the matrix that it bypasses; a neuron's own past reaches it under every rule.
        if above is not None and (rule.feedback.chained or above.population == stage.population) and above.carry:
            passed = _only(spec, _reached(spec.wiring, rule.feedback, k, past=True), g_tilde[k + 1])
            g_tilde[k] = g_tilde[k] + above.carry * passed
        if spec.track_gradient:
            z = jnp.zeros((), slope.dtype) if z is None else z
            carried = above.carry * g[k + 1] if above is not None and above.carry else 0.0
            g[k] = jnp.broadcast_to(slope * z, shape) + carried
        signals[k], zs[k] = signal, z
    state = replace(state, matrices=matrices, feedbacks=feedbacks, sources=sources)
    tracked = spec.track_gradient
    return state, signals, zs if tracked else [], g if tracked else [], g_tilde


def _plus(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _of_outputs(spec: Spec, read: int, vector: Array) -> Array:
    """A vector (C, …) per output of block `read` as (1, outputs of all blocks, …), 0 for the other blocks."""
    if spec.wiring.reads == 1:
        return vector[None]
    padding = [(read * spec.outputs, (spec.wiring.reads - 1 - read) * spec.outputs)] + [(0, 0)] * (vector.ndim - 1)
    return jnp.pad(vector, padding)[None]


def _own_signal(
    spec: Spec, inputs: Inputs, stage: Stage, rule: Rule, state: State, past: Past, delta: Array
) -> Array | None:
    """The signal that comes to a stage straight from the output: from the readout, or by direct feedback."""
    if rule.feedback.direct:
        vector, read = state.direct[stage.population], stage.taught
    elif rule.feedback.readout:
        vector, read = spec.wiring.layout.unpool(state.readout), stage.taught
    elif rule.feedback.chained and stage.read is not None:
        w = Vectors(state.readout, state.readout_initial, state.readout_feedback, state.readout_mirror)
        vector, read = spec.wiring.layout.unpool(rule.feedback.top(w, past)), stage.read
    else:
        return None
    assert vector is not None
    vector = vector.astype(state.readout.dtype)
    if spec.per_output:
        return _of_outputs(spec, read, vector)
    # One sweep carries Σ_c e_c·(signal of output c); the rule is linear in the signal.
    error = where_taught(inputs, per_read(spec, rule.teach, delta, inputs.y))[:, read].astype(vector.dtype)
    return jnp.einsum("mc,can->man", error, vector)[:, None]


def _site(
    spec: Spec, inputs: Inputs, delta: Array, h: Array, phi: Array, slope: Array, signal: Array, gate: Array | None
) -> Site:
    points = spec.points
    if spec.per_output:
        error, target = (value.reshape(points, -1) for value in (delta, inputs.y))
    else:
        error = target = jnp.ones((points, 1), slope.dtype)
    return Site(
        h=h[:points, None],
        phi=phi[:points, None],
        phi_dot=slope,
        signal=signal,
        error=error[:, :, None, None],
        target=target[:, :, None, None],
        gate=jnp.zeros((), slope.dtype) if gate is None else gate[:points, None],
    )


def _reached(wiring: Wiring, feedback: Feedback, k: int, past: bool = False) -> list[bool]:
    """Per block of outputs: whether its error reaches stage k, or (`past`) what a neuron itself carries back to it."""
    if feedback.chained:
        within = wiring.stages[k : k + feedback.reach if feedback.reach else None]
        return [any(stage.read == read for stage in within) for read in range(wiring.reads)]
    return [past or wiring.stages[k].taught == read for read in range(wiring.reads)]


def _only(spec: Spec, reached: list[bool], g_tilde: Array) -> Array:
    """g̃ (P, outputs of all blocks, …) where `reached`, 0 for the other blocks."""
    if all(reached) or not spec.per_output:
        return g_tilde
    mask = jnp.repeat(jnp.asarray(reached, g_tilde.dtype), spec.outputs)
    return g_tilde * mask[:, None, None]


def _through_weights(
    spec: Spec, feedback: Feedback, past: Past, number: int, gain: float, matrix: WideMatrix, tilde: WideMatrix | None,
    source: Source, g: Array | None, g_tilde: Array, key: Array,
) -> tuple[WideMatrix, WideMatrix | None, Source, Array | None, Array | None]:  # fmt: skip
    """z^ℓ from g^{ℓ+1} and the signal from g̃^{ℓ+1}, through W^ℓ and W̃^ℓ."""
    layout, neurons = spec.wiring.layout, g_tilde.shape[-1]
    uses = spec.uses(number)

    def rows(field: Array) -> Array:
        return field.reshape(-1, neurons)

    def unrows(answer: Array) -> Array:
        folded = layout.fold(answer, neurons).reshape(spec.points, -1, layout.positions, neurons)
        return folded if gain == 1 else gain * folded

    asks = [] if g is None else [Ask(rows(g), {"current": 1.0})]
    # W(0) and W̃ are kept with N(0, 1) entries.
    sizes = {"initial": past.start, "fresh": past.start}
    numbers = {
        name: jnp.asarray(number * sizes.get(name, 1.0), g_tilde.dtype)
        for name, number in feedback.coefficients(past).items()
    }
    wants = {name: numbers[name] for name in sorted(uses - {"fresh"})}
    if wants:
        asks.append(Ask(rows(g_tilde), wants, feedback.entrywise))
    answers: list[Array] = []
    if asks:
        matrix, source, answers = matrix.backward(asks, source, jax.random.fold_in(key, 0))
    z = None if g is None else unrows(answers[0])
    mixed = answers[-1] if wants else None
    if tilde is not None:
        tilde, source, [fresh] = tilde.backward(
            [Ask(rows(g_tilde), {"initial": numbers["fresh"]})], source, jax.random.fold_in(key, 1)
        )
        mixed = _plus(mixed, fresh)
    return matrix, tilde, source, z, None if mixed is None else unrows(mixed)
