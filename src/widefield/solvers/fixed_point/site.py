"""The single-site process of one layer, solved causally for all samples at once."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ...rules.rule import Site
from .plan import Grid, LayerPlan


class Fields(NamedTuple):
    """Gaussian drives of one layer, (n, S) with n = (steps+1)·P; `signal` is ζ̃ or z̃, `gate` m is (P, S)."""

    u: Array
    r: Array
    v: Array | None
    signal: Array | None
    gate: Array | None


class Couplings(NamedTuple):
    """What multiplies the layer's own past, (n, n) each, already causal and with dt inside; None is 0.

    h = u + h_g g + h_gt g̃,  z = r + z_phi φ,  ζ = v + zeta_phi φ,  signal = ρζ + √(1−ρ²)ζ̃ + learnt φ.
    """

    h_g: Array | None
    h_gt: Array
    z_phi: Array
    zeta_phi: Array | None
    learnt: Array | None


class Activity(NamedTuple):
    """Solution of the process, (n, S) each."""

    phi: Array
    z: Array
    g: Array
    g_tilde: Array


@partial(jax.jit, static_argnames=("grid", "layer"))
def solve_site(grid: Grid, layer: LayerPlan, couple: Couplings, drive: Fields, error: Array, target: Array) -> Activity:
    """The single-site equations of docs/theory.md by forward substitution in time.

    error is Δ (steps+1, P), target is y (P,). Cost O(S·n²).
    """
    points, samples = grid.points, drive.u.shape[1]
    activation = layer.activation
    gate = drive.gate if drive.gate is not None else jnp.zeros(())
    gain = activation.phi_dot(gate)

    def rows(matrix: Array, t: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(matrix, t * points, points)

    def write(matrix: Array, value: Array, t: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(matrix, value, t * points, axis=0)

    def step(past: Activity, t: Array) -> tuple[Activity, None]:
        h = rows(drive.u, t) + rows(couple.h_gt, t) @ past.g_tilde
        if couple.h_g is not None:
            h += rows(couple.h_g, t) @ past.g
        phi = gain * h if layer.rule.gated else activation.phi(h)
        phi_dot = jnp.broadcast_to(gain, h.shape) if layer.rule.gated else activation.phi_dot(h)
        all_phi = write(past.phi, phi, t)

        z = rows(drive.r, t) + rows(couple.z_phi, t) @ all_phi
        g = phi_dot * z
        if layer.true_here:
            g_tilde = g
        else:
            signal = jnp.zeros_like(h)
            if drive.signal is not None:
                signal += drive.signal if layer.direct else layer.fresh * rows(drive.signal, t)
            if layer.rho:
                zeta = rows(drive.r if drive.v is None else drive.v, t)
                if couple.zeta_phi is not None:
                    zeta += rows(couple.zeta_phi, t) @ all_phi
                signal += layer.rho * zeta
            if couple.learnt is not None:
                signal += rows(couple.learnt, t) @ all_phi
            now = jax.lax.dynamic_index_in_dim(error, t, keepdims=False)
            g_tilde = layer.rule.local(Site(h, phi, phi_dot, signal, now[:, None], target[:, None], gate))
        return Activity(all_phi, write(past.z, z, t), write(past.g, g, t), write(past.g_tilde, g_tilde, t)), None

    empty = jnp.zeros((grid.size, samples))
    return jax.lax.scan(step, Activity(empty, empty, empty, empty), jnp.arange(grid.times))[0]
