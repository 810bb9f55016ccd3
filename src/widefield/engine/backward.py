"""The way back: what the rule's feedback delivers, and the pseudo-gradients g̃ that it makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..problem.networks import Stage, Wiring
from ..rules.feedback import Feedback, Past, Vectors
from ..rules.rule import Rule, Site
from .sources import Source
from .state import Inputs, Spec, State
from .wide_matrix import Ask, WideMatrix

UNROLLED = 8  # frames of a dense network, which are little code each


def per_read(spec: Spec, function: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """A function of (P, C) arrays applied to (P, reads, C), every block of outputs counting as points of its own."""
    return function(a.reshape(-1, spec.outputs), b.reshape(-1, spec.outputs)).reshape(a.shape)


def where_taught(inputs: Inputs, errors: Array) -> Array:
    """Errors (P, reads, C), 0 where there is no target."""
    return errors if inputs.taught is None else inputs.taught[..., None] * errors


def backward(
    spec: Spec, inputs: Inputs, state: State, gates: list[Array | None], h: list[Array], phi: list[Array],
    delta: Array, key: Array,
) -> tuple[State, list[Array], list[Array], list[Array], list[Array]]:  # fmt: skip
    """Signals, pre-gradients z and gradients g (if tracked), pseudo-gradients g̃ of the training points, per stage."""
    stages, rules = spec.wiring.stages, spec.form.filled(inputs.rule)
    matrices, feedbacks, sources = list(state.matrices), list(state.feedbacks), list(state.sources)
    made: list[Any] = [Sent(None, None, None, None)] * len(stages)
    rolled = rolls(spec, state)
    for k in reversed(range(len(stages) - 1 if rolled else 0, len(stages))):
        stage = stages[k]
        above, sent = (stages[k + 1], made[k + 1]) if k + 1 < len(stages) else (None, made[k])
        m = None if above is None else above.matrix
        asked = Through(None, None, sources[stage.population])
        if m is not None:
            asked = Through(matrices[m], feedbacks[m], sources[stage.population])
        masks = tuple(
            _mask(spec, _reached(spec.wiring, rules[stage.population].feedback, k, past)) for past in (False, True)
        )
        asked, made[k] = _send(
            spec, inputs, state, delta, stage, above, asked, sent, masks, h[k], phi[k], gates[k],
            jax.random.fold_in(key, k),
        )  # fmt: skip
        sources[stage.population] = asked.source
        if m is not None:
            matrices[m], feedbacks[m] = asked.matrix, asked.tilde
    if rolled:
        asked = Through(matrices[0], feedbacks[0], sources[0])
        asked, earlier = _earlier_stages(spec, inputs, state, gates, delta, asked, made[-1], h, phi, key)
        matrices[0], feedbacks[0], sources[0] = asked
        made[:-1] = [Sent(*(None if part is None else part[k] for part in earlier)) for k in range(len(stages) - 1)]
    state = replace(state, matrices=matrices, feedbacks=feedbacks, sources=sources)
    signals, zs, g, g_tilde = (list(values) for values in zip(*made, strict=True))
    tracked = spec.track_gradient
    return state, signals, zs if tracked else [], g if tracked else [], g_tilde


class Sent(NamedTuple):
    """What goes back to one stage: its signal, and z and g (if tracked), and the g̃ that it makes of them."""

    signal: Any
    z: Any
    g: Any
    g_tilde: Any


class Through(NamedTuple):
    """What a stage on the way back may ask: W and W̃ of the stage above, and its own population's Gaussians."""

    matrix: Any
    tilde: Any
    source: Source


def rolls(spec: Spec, state: State) -> bool:
    """Whether stages that are alike are compiled once, as a loop: where there is much code to compile."""
    return spec.wiring.repeats and (state.matrices[0].heavy or len(spec.wiring.stages) > UNROLLED)


def _send(
    spec: Spec, inputs: Inputs, state: State, delta: Array, stage: Stage, above: Stage | None, asked: Through,
    sent: Sent, masks: tuple[Array | None, ...], h: Array, phi: Array, gate: Array | None, key: Array,
) -> tuple[Through, Sent]:  # fmt: skip
    """One stage, from what went to the one above; `masks` of the outputs that reach it, and those through its past."""
    points, rule = spec.points, spec.form.filled(inputs.rule)[stage.population]
    past = Past(state.scale, state.step, inputs.dt, spec.wiring.start)
    slope = spec.activation.phi_dot(h if gate is None else gate)[:points, None]
    z = signal = None
    if above is not None and above.matrix is not None:
        matrix, tilde, source, z, signal = _through_weights(
            spec, rule.feedback, past, above.matrix, above.gain, asked.matrix, asked.tilde, asked.source, sent.g,
            sent.g_tilde, state.structure, key,
        )  # fmt: skip
        asked = Through(matrix, tilde, source)
    if stage.read is not None and spec.track_gradient:
        z = _plus(z, _of_outputs(spec, stage.read, spec.wiring.layout.unpool(state.readout)))
    signal = _plus(signal, _own_signal(spec, inputs, stage, rule, state, past, delta))
    if signal is None:
        signal = jnp.zeros((), slope.dtype)
    shape = (points, spec.sweeps, *h.shape[1:])
    local = rule.local(_site(spec, inputs, delta, h, phi, slope, signal, gate))
    g, g_tilde = None, _only(masks[0], jnp.broadcast_to(local, shape).astype(slope.dtype))
    # A layer's skip belongs to the matrix that it bypasses; a neuron's own past reaches it under every rule.
    if above is not None and (rule.feedback.chained or above.population == stage.population) and above.carry:
        g_tilde = g_tilde + above.carry * _only(masks[1], sent.g_tilde)
    if spec.track_gradient:
        z = jnp.zeros((), slope.dtype) if z is None else z
        carried = above.carry * sent.g if above is not None and above.carry else 0.0
        g = jnp.broadcast_to(slope * z, shape) + carried
    return asked, Sent(signal, z, g, g_tilde)


def _earlier_stages(
    spec: Spec, inputs: Inputs, state: State, gates: list[Array | None], delta: Array, asked: Through, last: Sent,
    h: list[Array], phi: list[Array], key: Array,
) -> tuple[Through, Sent]:  # fmt: skip
    """Stages T−1 … 1 of a wiring that `repeats`, compiled once; what is sent has a leading axis, stage 1 first."""
    wiring, count = spec.wiring, len(spec.wiring.stages) - 1
    feedback = spec.form.filled(inputs.rule)[0].feedback
    masks: list[Array | None] = []
    for past in (False, True):
        reached = np.array([_reached(wiring, feedback, k, past) for k in range(count)])
        whole = np.all(reached) or not spec.per_output
        masks.append(None if whole else jnp.asarray(np.repeat(reached, spec.outputs, axis=1)[..., None, None]))
    first, above = wiring.stages[:2]

    def one(carry: tuple[Through, Any, Any], now) -> tuple[tuple[Through, Any, Any], Sent]:
        number, masks, h, phi, gate = now
        stage = first if first.read is None else replace(first, read=number, taught=number)
        asked, *fields = carry
        asked, sent = _send(
            spec, inputs, state, delta, stage, above, asked, Sent(None, None, *fields), tuple(masks), h, phi, gate,
            jax.random.fold_in(key, number),
        )  # fmt: skip
        return (asked, sent.g, sent.g_tilde), sent

    earlier = None if gates[0] is None else jnp.stack(gates[:-1])  # type: ignore[arg-type]
    frames = (jnp.arange(count), masks, jnp.stack(h[:-1]), jnp.stack(phi[:-1]), earlier)
    (asked, *_), sent = jax.lax.scan(one, (asked, last.g, last.g_tilde), frames, reverse=True)
    return asked, sent


def _plus(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _of_outputs(spec: Spec, read: int, vector: Array) -> Array:
    """A vector (C, …) per output of block `read` as (1, outputs of all blocks, …), 0 for the other blocks."""
    if spec.wiring.reads == 1:
        return vector[None]
    blocks = jnp.zeros((spec.wiring.reads, *vector.shape), vector.dtype).at[read].set(vector)
    return blocks.reshape(1, -1, *vector.shape[1:])


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


def _mask(spec: Spec, reached: list[bool]) -> Array | None:
    """(outputs of all blocks, 1, 1), 1 where `reached`; None where all are, or where they share one sweep."""
    if all(reached) or not spec.per_output:
        return None
    return jnp.repeat(jnp.asarray(reached), spec.outputs)[:, None, None]


def _only(mask: Array | None, g_tilde: Array) -> Array:
    return g_tilde if mask is None else g_tilde * mask.astype(g_tilde.dtype)


def _through_weights(
    spec: Spec, feedback: Feedback, past: Past, number: int, gain: float, matrix: WideMatrix, tilde: WideMatrix | None,
    source: Source, g: Array | None, g_tilde: Array, structure: tuple[Array, Array] | None, key: Array,
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
    if structure is not None and "initial" in uses:
        # W(t) and what follows it hold the structure; the Gaussian part of W(0) does not.
        share = jnp.asarray(feedback.coefficients(past)["initial"], g_tilde.dtype)
        mixed = _plus(mixed, share * (rows(g_tilde) @ structure[0].T / neurons) @ structure[1])
    return matrix, tilde, source, z, None if mixed is None else unrows(mixed)
