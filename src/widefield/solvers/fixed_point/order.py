"""The order parameters that the iteration solves for."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from .plan import Grid, Plan


class Order(NamedTuple):
    """Two-time kernels (n, n), n = (steps+1)·P ordered by time then point, responses, and the output.

    Attributes:
        phi: Φ^0 … Φ^L.
        g, g_tilde, g_tilde_tilde: G^1 … G^{L+1}, and so on; the last is all ones.
        a, b, c, d: A^1 … A^{L−1}, and so on; None where a response is zero by construction (D: where it is B).
        f: outputs (steps+1, P).
        delta: Δ = −∂loss/∂f (steps+1, P).
    """

    phi: tuple[Array, ...]
    g: tuple[Array, ...]
    g_tilde: tuple[Array, ...]
    g_tilde_tilde: tuple[Array, ...]
    a: tuple[Array | None, ...]
    b: tuple[Array, ...]
    c: tuple[Array | None, ...]
    d: tuple[Array | None, ...]
    f: Array
    delta: Array


def empty_order(plan: Plan, input_kernel: Array, delta: Array) -> Order:
    """Kernels of a network with no features, from which the kernels at initialisation are built up."""
    n, depth, times = plan.grid.size, plan.depth, plan.grid.times
    zero, ones = jnp.zeros((n, n)), jnp.ones((n, n))
    gradients = (*(zero,) * depth, ones)
    phi = (jnp.tile(input_kernel, (times, times)), *(zero,) * depth)
    inner = plan.layers[:-1]
    return Order(
        phi=phi,
        g=gradients,
        g_tilde=gradients,
        g_tilde_tilde=gradients,
        a=tuple(zero if layer.has_a else None for layer in inner),
        b=(zero,) * len(inner),
        c=tuple(zero if layer.has_c else None for layer in inner),
        d=tuple(zero if above.has_d_below else None for above in plan.layers[1:]),
        f=jnp.zeros_like(delta),
        delta=delta,
    )


def hold_after(order: Order, grid: Grid, horizon: int | Array) -> Order:
    """Times after `horizon` get the kernels at `horizon`, and no responses. `f` and `delta` are held, too."""
    entry = jnp.arange(grid.size)
    time = entry // grid.points
    source = jnp.minimum(time, horizon) * grid.points + entry % grid.points
    known = (time[:, None] <= horizon) & (time[None, :] <= horizon)

    def held(kernel: Array) -> Array:
        return kernel[source][:, source]

    def cut(response: Array | None) -> Array | None:
        # A factor with numbers out of range spoils whole responses, which the next sweep measures again.
        return None if response is None else jnp.where(known, jnp.nan_to_num(response, posinf=0.0, neginf=0.0), 0.0)

    steps = jnp.minimum(jnp.arange(grid.times), horizon)
    return Order._make(
        (
            *(tuple(map(held, kernels)) for kernels in order[:4]),
            *(tuple(map(cut, responses)) for responses in order[4:8]),
            order.f[steps],
            order.delta[steps],
        )
    )


def equal_times(kernel: Array, grid: Grid) -> Array:
    """K(t, t), (steps+1, P, P), of a two-time kernel (n, n)."""
    blocks = kernel.reshape(grid.times, grid.points, grid.times, grid.points)
    return jnp.moveaxis(jnp.diagonal(blocks, axis1=0, axis2=2), -1, 0)
