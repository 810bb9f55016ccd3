"""The way back: what the rule's feedback delivers, and the pseudo-gradients g̃ that it makes of it (design §4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..rules.feedback import Direct, Weights
from ..rules.rule import Site
from .sources import Source
from .state import Spec, State
from .wide_matrix import Ask, WideMatrix


def _top_signal(spec: Spec, vector: Array) -> Array:
    """A readout-like vector (C, readout positions, N) as a signal to every position of layer L."""
    if not spec.layout.pooled:
        return vector
    return jnp.broadcast_to(vector / spec.layout.positions, (vector.shape[0], spec.layout.positions, vector.shape[-1]))


def _feedback_vector(spec: Spec, state: State, feedback: Weights) -> Array:
    """ρw(0) + √(1−ρ²)w̃, moved along with w where the feedback learns."""
    vector = feedback.rho * state.readout_initial
    if state.readout_feedback is not None:
        vector = vector + jnp.sqrt(1 - feedback.rho**2) * state.readout_feedback
    if feedback.learns:
        vector = state.readout + state.scale * (vector - state.readout_initial)
    return _top_signal(spec, vector)


def backward(
    spec: Spec, state: State, h: list[Array], phi: list[Array], delta: Array, y: Array, key: Array
) -> tuple[State, list[Array], list[Array], list[Array], list[Array]]:
    """Signals, pre-gradients z and gradients g (if tracked), pseudo-gradients g̃ of the training points, per layer."""
    depth, points = spec.depth, spec.points
    phi_dot = spec.network.activation.phi_dot
    matrices, feedbacks, sources = list(state.matrices), list(state.feedbacks), list(state.sources)
    signals: list[Any] = [None] * depth
    zs: list[Any] = [None] * depth
    g: list[Any] = [None] * depth
    g_tilde: list[Any] = [None] * depth
    for layer in reversed(range(depth)):
        rule = spec.rule_at(layer + 1)
        gate = state.gates[layer]
        slope = phi_dot(h[layer] if gate is None else gate)[:points, None]
        if layer + 1 == depth:
            z = _top_signal(spec, state.readout)[None] if spec.track_gradient else None
            signal = _feedback_vector(spec, state, rule.feedback)[None] if isinstance(rule.feedback, Weights) else None
        else:
            matrices[layer], feedbacks[layer], sources[layer], z, signal = _through_weights(
                spec, rule.feedback, matrices[layer], feedbacks[layer], sources[layer],
                g[layer + 1], g_tilde[layer + 1], jax.random.fold_in(key, layer),
            )  # fmt: skip
        if isinstance(rule.feedback, Direct):
            signal = state.direct[layer][None]  # type: ignore[index]
        if signal is None:
            signal = jnp.zeros((), slope.dtype)
        error, target = delta, y
        if not spec.per_output:
            # One sweep carries Σ_c e_c·(signal of output c); the rule is linear in the signal.
            if layer + 1 == depth or isinstance(rule.feedback, Direct):
                taught = rule.teach(delta, y)
                signal = jnp.einsum("mc,mcan->man", taught, jnp.broadcast_to(signal, (points, *signal.shape[1:])))[
                    :, None
                ]
            error = target = jnp.ones((points, 1), slope.dtype)
        site = Site(
            h=h[layer][:points, None],
            phi=phi[layer][:points, None],
            phi_dot=slope,
            signal=signal,
            error=error[:, :, None, None],
            target=target[:, :, None, None],
            gate=jnp.zeros((), slope.dtype) if gate is None else gate[:points, None],
        )
        shape = (points, spec.outputs if spec.per_output else 1, *h[layer].shape[1:])
        g_tilde[layer] = jnp.broadcast_to(rule.local(site), shape)
        skip = spec.residual and layer + 1 < depth
        if skip and isinstance(rule.feedback, Weights):
            g_tilde[layer] = g_tilde[layer] + g_tilde[layer + 1]
        if spec.track_gradient:
            assert z is not None
            g[layer] = slope * z + (g[layer + 1] if skip else 0.0)
        signals[layer], zs[layer] = signal, z
    state = replace(state, matrices=matrices, feedbacks=feedbacks, sources=sources)
    tracked = spec.track_gradient
    return state, signals, zs if tracked else [], g if tracked else [], g_tilde


def _through_weights(
    spec: Spec, feedback: Any, matrix: WideMatrix, tilde: WideMatrix | None, source: Source,
    g: Array | None, g_tilde: Array, key: Array,
) -> tuple[WideMatrix, WideMatrix | None, Source, Array | None, Array | None]:  # fmt: skip
    """z^ℓ from g^{ℓ+1} and the signal from g̃^{ℓ+1}, through W^ℓ and W̃^ℓ."""
    layout, neurons = spec.layout, g_tilde.shape[-1]

    def rows(field: Array) -> Array:
        return field.reshape(-1, neurons)

    def unrows(answer: Array) -> Array:
        return layout.fold(answer, neurons).reshape(spec.points, -1, layout.positions, neurons)

    asks: list[Ask] = []
    if g is not None:
        asks.append(Ask(rows(g), current=True, initial=False))
    chained = isinstance(feedback, Weights)
    if chained:
        asks.append(Ask(rows(g_tilde), current=feedback.learns, initial=needs_initial(feedback)))
    z = signal = None
    if asks and (g is not None or asks[-1].current or asks[-1].initial):
        matrix, source, answers = matrix.backward(asks, source, jax.random.fold_in(key, 0))
        if g is not None:
            z = unrows(answers[0].current)  # type: ignore[arg-type]
    else:
        answers = []
    if chained:
        mixed = jnp.zeros((), g_tilde.dtype)
        rho, last = feedback.rho, answers[-1] if answers else None
        if last is not None and last.initial is not None:
            mixed = (rho - 1.0 if feedback.learns else rho) * last.initial
        if tilde is not None:
            tilde, source, [other] = tilde.backward(
                [Ask(rows(g_tilde), current=False, initial=True)], source, jax.random.fold_in(key, 1)
            )
            mixed = mixed + jnp.sqrt(1 - rho**2) * other.initial  # type: ignore[operator]
        if feedback.learns:
            assert last is not None
            assert last.current is not None
            mixed = last.current + matrix.scale * mixed
        signal = unrows(mixed)
    return matrix, tilde, source, z, signal


def needs_initial(feedback: Any) -> bool:
    """Whether the signal asks for W(0) itself."""
    return isinstance(feedback, Weights) and (feedback.rho != 1 if feedback.learns else feedback.rho != 0)


def needs_tilde(feedback: Any) -> bool:
    """Whether the signal asks for an independent feedback matrix W̃."""
    return isinstance(feedback, Weights) and abs(feedback.rho) != 1
