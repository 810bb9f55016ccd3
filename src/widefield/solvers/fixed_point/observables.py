"""Variables of a result from the order parameters."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from .order import Order, equal_times
from .output import layer_kernels
from .plan import Grid, Plan


def observe(plan: Plan, order: Order) -> dict[str, np.ndarray]:
    """Outputs and kernels through time, two-time kernels and responses, with the axes of `DIMS` (one output)."""
    kernels = {
        "phi": order.phi[1:],
        "g": order.g[:-1],
        "g_tilde": order.g_tilde[:-1],
        "g_tilde_tilde": order.g_tilde_tilde[:-1],
    }
    through_time = {name: jnp.stack([equal_times(k, plan.grid) for k in ks], axis=1) for name, ks in kernels.items()}
    found = {
        "f": order.f[..., None],
        "entk": layer_kernels(plan, order).sum(1)[..., None, None],
        **{name: k if name == "phi" else k[..., None, None] for name, k in through_time.items()},
        **{f"{name}_two_time": _two_time(ks, plan.grid) for name, ks in kernels.items()},
        **_responses(plan, order),
    }
    return {name: np.asarray(value) for name, value in found.items()}


def _responses(plan: Plan, order: Order) -> dict[str, Array]:
    """A and B of layers 1 … L−1; C and D, too, if v is a field of its own in some layer."""
    if plan.depth == 1:
        return {}
    zero = jnp.zeros((plan.grid.size, plan.grid.size))
    found = {"response_a": [zero if a is None else a for a in order.a], "response_b": list(order.b)}
    if any(layer.has_c for layer in plan.layers):
        found["response_c"] = [zero if c is None else c for c in order.c]
        found["response_d"] = [b if d is None else d for b, d in zip(order.b, order.d, strict=True)]
    return {name: _two_time(values, plan.grid) for name, values in found.items()}


def _two_time(matrices: list[Array] | tuple[Array, ...], grid: Grid) -> Array:
    """(n, n) each as (layers, steps+1, steps+1, P, P)."""
    shape = (grid.times, grid.points, grid.times, grid.points)
    return jnp.stack([matrix.reshape(shape).swapaxes(1, 2) for matrix in matrices])
