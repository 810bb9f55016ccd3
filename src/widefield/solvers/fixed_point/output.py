"""The network's output and error signal through training."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ...problem.losses import Loss
from .order import Order, equal_times
from .plan import Plan


class Setting(NamedTuple):
    """Numbers that do not change during the iteration: γ₀, dt, y (P,) and the cut-off of the kernel factors."""

    richness: float
    dt: float
    target: Array
    cutoff: float


def taught_errors(plan: Plan, delta: Array, target: Array) -> list[Array]:
    """Error factors of the incoming weights of layers 1 … L (the rule's e) and of the readout (Δ).

    delta is (…, P); so is every entry.
    """
    return [
        *(layer.rule.teach(delta[..., None], jnp.broadcast_to(target, delta.shape)[..., None])[..., 0]
          for layer in plan.layers),
        delta,
    ]  # fmt: skip


def layer_kernels(plan: Plan, order: Order) -> Array:
    """G̃^{ℓ+1}(t,t) ∘ Φ^ℓ(t,t) for ℓ = 0 … L, (steps+1, L+1, P, P); their sum over ℓ is the eNTK."""
    products = [equal_times(g * phi, plan.grid) for g, phi in zip(order.g_tilde, order.phi, strict=True)]
    return jnp.stack(products, axis=1)


@partial(jax.jit, static_argnames=("plan", "loss"))
def follow_fields(plan: Plan, loss: Loss, setting: Setting, order: Order, measured: Array, delta: Array) -> Order:
    """f(t) = ⟨w(t)φ(h^L(t))⟩/γ₀ of the new fields (`measured` is γ₀f), made consistent with its own Δ to first order.

    The fields were driven by the old Δ. Taking their f as it is would be Picard iteration on Δ, which
    grows large before it converges; instead the change of Δ is carried along by the kernel,
    f(t+1) − f(t) = (what the fields did) + dt K(t)(Δ_new(t) − Δ_old(t)). The fixed point is the same.
    """
    # At infinite width f(0) = 0; differences leave out the noise that finite S puts in its place.
    rises = jnp.concatenate([jnp.diff(measured / setting.richness, axis=0), jnp.zeros((1, plan.grid.points))])
    errors = jnp.stack(taught_errors(plan, delta, setting.target), axis=1)
    linear = setting.dt * jnp.einsum("tlab,tlb->ta", layer_kernels(plan, order), errors)
    return _integrate(plan, loss, setting, order, rises - linear)


@partial(jax.jit, static_argnames=("plan", "loss"))
def follow_kernels(plan: Plan, loss: Loss, setting: Setting, order: Order, horizon: int | Array) -> Order:
    """Keep f up to `horizon`; from there on f(t+1) − f(t) = dt K(t)Δ(t) with the kernels of `order`."""
    errors = jnp.stack(taught_errors(plan, order.delta, setting.target), axis=1)
    linear = setting.dt * jnp.einsum("tlab,tlb->ta", layer_kernels(plan, order), errors)
    rises = jnp.concatenate([jnp.diff(order.f, axis=0), jnp.zeros((1, plan.grid.points))])
    known = jnp.arange(plan.grid.times)[:, None] < horizon
    return _integrate(plan, loss, setting, order, jnp.where(known, rises - linear, 0.0))


def _integrate(plan: Plan, loss: Loss, setting: Setting, order: Order, extra: Array) -> Order:
    columns = setting.target[:, None]

    def step(f: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        kernels, beyond = at
        delta = loss.delta(f[:, None], columns)[:, 0]
        errors = jnp.stack(taught_errors(plan, delta, setting.target))
        return f + beyond + setting.dt * jnp.einsum("lab,lb->a", kernels, errors), (f, delta)

    f, delta = jax.lax.scan(step, jnp.zeros(plan.grid.points), (layer_kernels(plan, order), extra))[1]
    return order._replace(f=f, delta=delta)
