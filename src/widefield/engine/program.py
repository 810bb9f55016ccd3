"""The training program, written once for every width and every rule (design §1, §3).

Fields are (samples, positions, neurons), gradients (samples, outputs, positions, neurons);
an MLP has one position. Samples are the training points, then the test points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from ..problem.losses import Loss
from ..problem.networks import MLP, Network
from ..rules.feedback import Direct, Weights
from ..rules.rule import Rule, Site
from .layout import Layout
from .order import after
from .sources import Source
from .wide_matrix import Ask, WideMatrix


@dataclass(frozen=True)
class Spec:
    """What is compiled for: everything that is not a number."""

    network: Network
    rule: Rule
    loss: Loss
    layout: Layout
    points: int
    outputs: int
    integrator: str
    momentum: bool
    gradients: bool  # the true gradient is wanted, also where the rule does not use it
    per_output: bool  # gradients are kept apart per output

    @property
    def depth(self) -> int:
        return self.network.depth

    @property
    def residual(self) -> bool:
        return isinstance(self.network, MLP) and self.network.residual

    def rule_at(self, layer: int) -> Rule:
        """Rule of hidden layer 1..L."""
        return self.rule.at(layer, self.depth)

    @property
    def one_sweep(self) -> bool:
        """Whether g̃ is the true gradient in every layer."""
        return all(self.rule_at(layer).is_gradient for layer in range(1, self.depth + 1))

    @property
    def track_gradient(self) -> bool:
        """Whether a second backward sweep, for the true gradient, is needed."""
        return self.gradients and not self.one_sweep


class Inputs(NamedTuple):
    """The numbers of a problem."""

    x: Array  # (samples·positions, r), coordinates of the inputs
    y: Array  # (P, C)
    richness: Array
    dt: Array
    weight_decay: Array
    momentum: Array
    batches: Array  # (steps, P), how often a point teaches in a step; one row where all steps are alike


class State(eqx.Module):
    """All that a network is at one step.

    `matrices` and `feedbacks` belong to W¹ … W^{L−1}; per-layer lists to layers 1 … L.
    """

    step: Array
    key: Array
    scale: Array  # what weight decay has left of the initial weights
    inputs: Array  # W⁰ in input coordinates, (r, N)
    matrices: list[WideMatrix]
    feedbacks: list[WideMatrix | None]  # W̃
    readout: Array  # w, (C, positions, N)
    readout_initial: Array
    readout_feedback: Array | None  # w̃
    direct: list[Array | None]  # z̃, (C, positions, N)
    gates: list[Array | None]  # m, (samples, positions, N)
    sources: list[Source]
    velocity: tuple[Array, Array] | None  # of W⁰ and w
    previous: Any  # last step's teaching, for Adams–Bashforth
    f_initial: Array  # (samples, C), f of the first step, subtracted so that f starts at 0


class Fields(NamedTuple):
    """What a step computes on the way, per layer 1 … L."""

    h: list[Array]
    phi: list[Array]
    signal: list[Array]  # what the rule's feedback delivers
    z: list[Array]  # pre-gradient fields, empty when the signal is them
    g: list[Array]  # true gradients, empty when g̃ is them
    g_tilde: list[Array]
    patches: list[Array]  # rows asked of W¹ … W^{L−1}
    f: Array
    delta: Array


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
