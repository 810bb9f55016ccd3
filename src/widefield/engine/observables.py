"""Kernels of one step, from its fields (design §1). Cost O(N·P²) per layer and kernel."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from .state import Fields, Inputs, Spec

KERNELS = ("entk", "phi", "g", "g_tilde", "g_tilde_tilde")
POSITIONS = ("phi_positions", "g_tilde_positions")
PARTICLES = ("h_particles", "z_particles", "g_tilde_particles")


def _gram(a: Array, b: Array) -> Array:
    """⟨a b⟩ over neurons, the last axis: (i…, N), (j…, N) to (i…, j…)."""
    width = a.shape[-1]
    flat = a.reshape(-1, width) @ b.reshape(-1, width).T / width
    return flat.reshape(*a.shape[:-1], *b.shape[:-1])


def observe(spec: Spec, inputs: Inputs, fields: Fields, wanted: frozenset[str], neurons: int) -> dict[str, Array]:
    """The recorded variables of one step; `neurons` bounds the single neurons that are kept."""
    points, positions = spec.points, spec.layout.positions
    out = {"f": fields.f}
    phi = [p[:points] for p in fields.phi]
    g_tilde = fields.g_tilde
    g = fields.g if fields.g else g_tilde
    same = not fields.g
    if "phi" in wanted:
        out["phi"] = jnp.stack([_trace(_gram(p, p)) / positions for p in phi])
    if "phi_positions" in wanted:
        out["phi_positions"] = jnp.stack([_gram(p, p).transpose(0, 2, 1, 3) for p in phi])
    needs_mixed = bool({"entk", "g_tilde", "g_tilde_positions"} & wanted)
    mixed = [_gram(a, b) for a, b in zip(g, g_tilde, strict=True)] if needs_mixed else []
    if "g_tilde" in wanted:
        out["g_tilde"] = _outputs_last([_trace(m) for m in mixed])
    if "g_tilde_positions" in wanted:
        out["g_tilde_positions"] = jnp.stack([m.transpose(0, 3, 2, 5, 1, 4) for m in mixed])
    if "g" in wanted:
        grams = mixed if same and mixed else [_gram(a, a) for a in g]
        out["g"] = _outputs_last([_trace(m) for m in grams])
    if "g_tilde_tilde" in wanted:
        grams = mixed if same and mixed else [_gram(a, a) for a in g_tilde]
        out["g_tilde_tilde"] = _outputs_last([_trace(m) for m in grams])
    if "entk" in wanted:
        out["entk"] = _entk(spec, inputs, fields, mixed)
    for name, field in (("h_particles", phi_h(fields, points)), ("g_tilde_particles", g_tilde)):
        if name in wanted:
            out[name] = jnp.stack([_some(f, neurons) for f in field])
    if "z_particles" in wanted:
        gradients = fields.z if fields.z else fields.signal
        out["z_particles"] = jnp.stack(
            [_some(jnp.broadcast_to(z, t.shape), neurons) for z, t in zip(gradients, g_tilde, strict=True)]
        )
    return out


def phi_h(fields: Fields, points: int) -> list[Array]:
    """Preactivations of the training points, with the axes of gradients."""
    return [h[:points, None] for h in fields.h]


def whole_fields(fields: Fields, points: int) -> Array:
    """φ, g and g̃ of the training points in every neuron at the first output and position, (3, L, P, N)."""
    g = fields.g or fields.g_tilde
    phi = [p[:points, 0] for p in fields.phi]
    return jnp.stack(
        [jnp.stack(phi), jnp.stack([v[:, 0, 0] for v in g]), jnp.stack([v[:, 0, 0] for v in fields.g_tilde])]
    )


def _some(field: Array, neurons: int) -> Array:
    """The first neurons at the first output and position, (P, neurons)."""
    return field[:, 0, 0, :neurons]


def _trace(gram: Array) -> Array:
    """Sum over equal positions: (…, a, …, b) to (…, …), positions being the last axis of each half."""
    half = gram.ndim // 2
    return jnp.trace(gram, axis1=half - 1, axis2=gram.ndim - 1)


def _outputs_last(grams: list[Array]) -> Array:
    """(layers, P, P, C, C) from a list of (P, C, P, C)."""
    return jnp.stack(grams).transpose(0, 1, 3, 2, 4)


def _entk(spec: Spec, inputs: Inputs, fields: Fields, mixed: list[Array]) -> Array:
    """K = Σ_{ℓ=0..L} G̃^{ℓ+1} ∘ Φ^ℓ summed over positions, (P, P, C, C)."""
    points, positions = spec.points, spec.layout.positions
    width = fields.phi[0].shape[-1]
    seen = [inputs.x[: points * positions]]
    scales = [1.0]
    for rows in fields.patches:
        seen.append(rows[: points * positions])
        scales.append(1.0 / width)
    kernel = jnp.zeros((), fields.f.dtype)
    for rows, scale, gram in zip(seen, scales, mixed, strict=True):
        features = (rows @ rows.T * scale).reshape(points, positions, points, positions)
        kernel = kernel + jnp.einsum("mcandb,manb->mncd", gram, features)
    last = fields.phi[-1][:points]
    readout = last.mean(1, keepdims=True) if spec.layout.pooled else last
    top = _trace(_gram(readout, readout))
    return kernel + top[:, :, None, None] * jnp.eye(mixed[0].shape[1], dtype=top.dtype)
