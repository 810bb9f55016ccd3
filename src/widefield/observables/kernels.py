"""Kernels and single neurons of one step, from its fields. Cost O(N·P²) per layer and kernel."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from .moment import Moment

OUTLIERS = 8  # eigenvalues that are recorded


def gram(a: Array, b: Array) -> Array:
    """⟨a b⟩ over neurons, the last axis: (i…, N), (j…, N) to (i…, j…)."""
    width = a.shape[-1]
    flat = a.reshape(-1, width) @ b.reshape(-1, width).T / width
    return flat.reshape(*a.shape[:-1], *b.shape[:-1])


def phi(moment: Moment) -> Array:
    """Φ, the mean over equal positions, (L, P, P[, frames, frames])."""
    return _mean_gram(moment, moment.by_layer(_training(moment, moment.fields.phi)))


def phi_test(moment: Moment) -> Array:
    """Φ of the test points, as above, (L, tests, tests[, frames, frames])."""
    tests = [value[moment.points :] for value in moment.fields.phi]
    return _mean_gram(moment, moment.by_layer(tests))


def phi_positions(moment: Moment) -> Array:
    """Φ between positions of a feed-forward network, (L, P, P, positions, positions)."""
    return jnp.stack([gram(p, p).transpose(0, 2, 1, 3) for p in _training(moment, moment.fields.phi)])


def g(moment: Moment) -> Array:
    return _gradient_kernel(moment, moment.true_gradients, moment.true_gradients)


def g_tilde(moment: Moment) -> Array:
    return _gradient_kernel(moment, moment.true_gradients, moment.fields.g_tilde)


def g_tilde_tilde(moment: Moment) -> Array:
    return _gradient_kernel(moment, moment.fields.g_tilde, moment.fields.g_tilde)


def g_tilde_positions(moment: Moment) -> Array:
    """G̃ between positions of a feed-forward network, (L, P, P, positions, positions, C, C)."""
    pairs = zip(moment.true_gradients, moment.fields.g_tilde, strict=True)
    return jnp.stack([gram(a, b).transpose(0, 3, 2, 5, 1, 4) for a, b in pairs])


def entk(moment: Moment) -> Array:
    """K = Σ ⟨g g̃⟩ ∘ (features below) over all weights, positions and stages that share weights.

    (P, P[, reads, reads], C, C).
    """
    fields, wiring, points = moment.fields, moment.wiring, moment.points
    rows, width = points * wiring.layout.positions, fields.phi[0].shape[-1]
    kernel = jnp.zeros((), fields.f.dtype)
    used: dict[int | None, list[tuple[int, Array]]] = {}
    for k, stage in enumerate(wiring.stages):
        if stage.input is not None:
            used.setdefault(None, []).append((k, moment.x[stage.input][:rows]))
        if stage.matrix is not None:
            below = fields.rows[k]
            assert below is not None
            used.setdefault(stage.matrix, []).append((k, below[:rows]))
    for matrix, stages in used.items():
        gains = jnp.asarray([wiring.stages[k].gain for k, _ in stages], kernel.dtype)
        true, pseudo = (jnp.stack([of[k] for k, _ in stages]) for of in (moment.true_gradients, fields.g_tilde))
        below = jnp.stack([gain * features for gain, (_, features) in zip(gains, stages, strict=True)])
        flat = below.reshape(-1, below.shape[-1])
        # Divided afterwards, this is the product that Φ is made of, and computed once.
        features = (flat @ flat.T / (1 if matrix is None else width)).reshape(
            *(len(stages), points, wiring.layout.positions) * 2
        )
        kernel = kernel + jnp.einsum("smcatndb,smatnb->mncd", gram(true, pseudo), features)
    return _reads_apart(moment, kernel + _readout_kernel(moment))


def _readout_kernel(moment: Moment) -> Array:
    """The readout's part of K: features that are read, for equal outputs, (P, P, C·reads, C·reads)."""
    wiring = moment.wiring
    read = [k for k, stage in enumerate(wiring.stages) if stage.read is not None]
    seen = [wiring.layout.pool(moment.fields.phi[k][: moment.points]) for k in read]
    top = jnp.stack([jnp.stack([_trace(gram(a, b)) for b in seen]) for a in seen])  # (R, R, P, P)
    reads, outputs = len(read), moment.fields.f.shape[-1]
    full = jnp.einsum("rsmn,cd->mnrcsd", top, jnp.eye(outputs, dtype=top.dtype))
    return full.reshape(*full.shape[:2], reads * outputs, reads * outputs)


def phi_alignment(moment: Moment) -> Array:
    """Cosine similarity of Φ with yyᵀ, (L,)."""
    return _alignment(phi(moment), moment.y)


def entk_alignment(moment: Moment) -> Array:
    """Cosine similarity of K, summed over equal outputs, with yyᵀ."""
    return _alignment(jnp.einsum("mncc->mn", entk(moment)), moment.y)


def gradient_cosine(moment: Moment) -> Array:
    """Mean over points and outputs of cos(g_μ, g̃_μ), (L,)."""

    def product(a: list[Array], b: list[Array]) -> Array:
        pairs = zip(moment.by_layer(a), moment.by_layer(b), strict=True)
        return jnp.stack([jnp.einsum("mfcan,mfcan->mfc", left, right) for left, right in pairs])

    true, pseudo = moment.true_gradients, moment.fields.g_tilde
    size = jnp.sqrt(product(true, true) * product(pseudo, pseudo))
    return jnp.mean(jnp.where(size > 0, product(true, pseudo) / jnp.where(size > 0, size, 1.0), 0.0), axis=(1, 2, 3))


def _alignment(kernel: Array, y: Array) -> Array:
    """tr(yᵀKy)/(|K|·|yyᵀ|) of kernels (…, P, P)."""
    target = y[:, 0]
    along = jnp.einsum("mc,...mn,nc->...", target, kernel, target)
    size = jnp.sqrt(jnp.sum(kernel**2, axis=(-2, -1))) * jnp.linalg.norm(target @ target.T)
    return jnp.where(size > 0, along / jnp.where(size > 0, size, 1.0), 0.0)


def h_particles(moment: Moment) -> Array:
    return _single_neurons(moment, [h[:, None] for h in _training(moment, moment.fields.h)])


def z_particles(moment: Moment) -> Array:
    return _single_neurons(moment, moment.pre_gradients)


def g_tilde_particles(moment: Moment) -> Array:
    return _single_neurons(moment, moment.fields.g_tilde)


def outliers_real(moment: Moment) -> Array:
    return moment.fields.matrices[0].outliers(OUTLIERS)[:, 0]


def outliers_imaginary(moment: Moment) -> Array:
    return moment.fields.matrices[0].outliers(OUTLIERS)[:, 1]


def whole_fields(moment: Moment) -> Array:
    """φ, g and g̃ of the training points in every neuron at the first output and position, (3, L, P, N)."""
    first = [p[:, 0] for p in _training(moment, moment.fields.phi)]
    gradients = ([v[:, 0, 0] for v in values] for values in (moment.true_gradients, moment.fields.g_tilde))
    return jnp.stack([jnp.stack(first), *(jnp.stack(values) for values in gradients)])


def _training(moment: Moment, values: list[Array]) -> list[Array]:
    return [value[: moment.points] for value in values]


def _mean_gram(moment: Moment, layers: list[Array]) -> Array:
    """⟨φφ⟩ of (points, frames, positions, N) per layer, the mean over equal positions."""
    grams = [_trace(gram(p, p)) / moment.wiring.layout.positions for p in layers]  # (P, F, P, F)
    return _frames_last(jnp.stack(grams).transpose(0, 1, 3, 2, 4))


def _gradient_kernel(moment: Moment, left: list[Array], right: list[Array]) -> Array:
    """⟨left right⟩ summed over equal positions, (L, P, P[, frames, frames][, reads, reads], C, C)."""
    pairs = zip(moment.by_layer(left), moment.by_layer(right), strict=True)
    grams = jnp.stack([_trace(gram(a, b)) for a, b in pairs])  # (L, P, F, C, P, F, C)
    return _reads_apart(moment, _frames_last(grams.transpose(0, 1, 4, 2, 5, 3, 6)))


def _reads_apart(moment: Moment, kernel: Array) -> Array:
    """(…, reads·C, reads·C) to (…, reads, reads, C, C), without the axes of reads where there is one."""
    reads = moment.wiring.reads
    if reads == 1:
        return kernel
    outputs = kernel.shape[-1] // reads
    apart = kernel.reshape(*kernel.shape[:-2], reads, outputs, reads, outputs)
    return jnp.swapaxes(apart, -3, -2)


def _frames_last(kernel: Array) -> Array:
    """(L, P, P, F, F, …) without the axes of frames where there is one."""
    return kernel.reshape(*kernel.shape[:3], *kernel.shape[5:]) if kernel.shape[3] == 1 else kernel


def _single_neurons(moment: Moment, values: list[Array]) -> Array:
    """The first neurons at the first position and output (of the last frame), (L, P[, frames], neurons)."""
    layers = moment.by_layer([value[:, _first_output(moment, value), 0, : moment.neurons] for value in values])
    stacked = jnp.stack(layers)
    return stacked[:, :, 0] if stacked.shape[2] == 1 else stacked


def _first_output(moment: Moment, value: Array) -> int:
    """Fields have no outputs, gradients those of all frames that are read."""
    return value.shape[1] - value.shape[1] // moment.wiring.reads if value.shape[1] > 1 else 0


def _trace(grams: Array) -> Array:
    """Sum over equal positions: (…, a, …, b) to (…, …), positions being the last axis of each half."""
    half = grams.ndim // 2
    return jnp.trace(grams, axis1=half - 1, axis2=grams.ndim - 1)
