"""One iteration of Algorithm 1: all layers, then the output."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from ...problem.losses import Loss
from .layer import Above, Below, Measured, Numbers, measure_layer
from .noise import LayerNoise
from .order import Order
from .output import Setting, follow_fields, taught_errors
from .plan import LayerPlan, Plan


class Report(NamedTuple):
    """How a sweep went: most Gaussian directions of a layer, directions left out, sampling error of the kernels."""

    rank: int
    overflow: int
    sampling_error: float


def sweep(
    plan: Plan, loss: Loss, jacobian: bool, setting: Setting, noise: tuple[LayerNoise, ...], old: Order
) -> tuple[Order, Report]:
    """New order parameters from old ones; layers go upwards and see the new kernels of the layer below."""
    new = old
    errors = taught_errors(plan, old.delta, setting.target)
    points = plan.grid.points
    numbers = Numbers(
        jnp.asarray(setting.richness * setting.dt),
        old.delta,
        setting.target,
        old.phi[0][:points, :points],
        setting.cutoff,
    )
    found: list[Measured] = []
    for i, (layer, gaussians) in enumerate(zip(plan.layers, noise, strict=True)):
        below = Below(new.phi[i], new.a[i - 1] if i else None, new.c[i - 1] if i else None, errors[i])
        responses = (None, None) if layer.top else (new.b[i], new.d[i])
        above = Above(new.g[i + 1], new.g_tilde[i + 1], new.g_tilde_tilde[i + 1], *responses, errors[i + 1])
        found.append(measure_layer(plan.grid, layer, jacobian, below, above, numbers, gaussians))
        new = _with_layer(new, i, layer, found[-1])
    new = follow_fields(plan, loss, setting, new, found[-1].output, old.delta)
    report = Report(
        max(m.rank for m in found),
        sum(m.overflow for m in found),
        max(float(m.sampling_error) for m in found),
    )
    return new, report


def _set(values: tuple, index: int, value: object) -> tuple:
    return (*values[:index], value, *values[index + 1 :])


def _with_layer(order: Order, i: int, layer: LayerPlan, found: Measured) -> Order:
    order = order._replace(
        phi=_set(order.phi, i + 1, found.phi),
        g=_set(order.g, i, found.g),
        g_tilde=_set(order.g_tilde, i, found.g_tilde),
        g_tilde_tilde=_set(order.g_tilde_tilde, i, found.g_tilde_tilde),
    )
    if layer.has_a:
        order = order._replace(a=_set(order.a, i, found.a_or_c))
    if layer.has_c:
        order = order._replace(c=_set(order.c, i, found.a_or_c))
    if not layer.bottom:
        order = order._replace(b=_set(order.b, i - 1, found.b_below))
    if layer.has_d_below:
        order = order._replace(d=_set(order.d, i - 1, found.d_below))
    return order
