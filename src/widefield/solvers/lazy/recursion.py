"""The recursion of static kernels (App. D, Table 2) on a tile of pairs.

Forward: Φ^ℓ = ⟨φ(h)φ(h)ᵀ⟩ with h ~ N(0, Σ^ℓ), Σ^{ℓ+1} = S Φ^ℓ (S sums a CNN's filter, and is the identity in an MLP) or
Σ^ℓ + Φ^ℓ with residual connections. Backward: G^ℓ = Φ̇^ℓ ∘ S G^{ℓ+1}, from G^{L+1} = 1; with residual connections
g^ℓ = φ̇(h^ℓ)⊙z^ℓ + g^{ℓ+1}, and the cross terms vanish because z is independent of h and centred.
K = Σ_ℓ G̃^{ℓ+1} ∘ S Φ^ℓ.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ...problem.networks import Network, Wiring
from ...rules.rule import Rule
from .closed_forms import CLOSED_FORMS
from .points import Points
from .tables import evaluate


class Tables(NamedTuple):
    """Arrays of one layer's tables, for Φ, Φ̇ and G̃ from its definition; None where a closed form serves."""

    phi: Array | None = None
    phi_dot: Array | None = None
    definition: Array | None = None


class Side(NamedTuple):
    """The points of a tile's rows or columns, with their bases for each layer's tables."""

    points: Points
    bases: tuple[Tables, ...]


def correlation(covariance: Array, sigma: Array, sigma_: Array) -> Array:
    """ρ in [−1, 1]; 0 where a point has no variance."""
    size = sigma * sigma_
    rho = jnp.clip(jnp.where(size > 0, covariance / jnp.where(size > 0, size, 1.0), 0.0), -1.0, 1.0)
    # Directions closer than 4e-8 cannot be told apart from a covariance; left alone, rounding alone would
    # move the arc-cosine kernel's ⟨φ̇φ̇⟩ of coinciding points by 1e-8.
    edge = 1.0 - 4 * jnp.finfo(rho.dtype).eps
    return jnp.where(jnp.abs(rho) >= edge, jnp.sign(rho), rho)


def _averages(
    network: Network, rule: Rule, tables: Tables, covariance: Array, gate: Array, left: Side, right: Side, index: int
) -> tuple[Array, Array, Array]:
    """Φ^ℓ, Φ̇^ℓ and the correlation of what φ̇ acts on."""
    sigma, sigma_ = left.points.pivot[index][..., None], right.points.pivot[index][..., None, :]
    rho = correlation(gate if rule.gated else covariance, sigma, sigma_)
    closed = CLOSED_FORMS.get(network.activation)
    if closed is not None:
        phi, phi_dot = closed.pair(rho, sigma, sigma_)
    else:
        rows, columns = left.bases[index], right.bases[index]
        phi_dot = _from_table(tables.phi_dot, rho, rows.phi_dot, columns.phi_dot)
        phi = phi_dot if rule.gated else _from_table(tables.phi, rho, rows.phi, columns.phi)
    return (phi_dot * covariance if rule.gated else phi), phi_dot, rho


def _from_table(table: Array | None, rho: Array, rows: Array | None, columns: Array | None) -> Array:
    """Zero where there is no table: the signal of a direct or silent feedback knows nothing of the gradient."""
    if table is None or rows is None or columns is None:
        return jnp.zeros_like(rho)
    return evaluate(table, rho, rows, columns)


def _same(values: Array, same: Array, equal: Array) -> Array:
    """Pairs of the same point get the single-point value, so that the diagonal is exact."""
    return jnp.where(same, equal[..., None], values)


def _backward(
    network: Network, rule: Rule, wiring: Wiring, tables: tuple[Tables, ...], phi_dots: list[Array],
    rhos: list[Array], left: Side, right: Side,
) -> tuple[list[Array], list[Array]]:  # fmt: skip
    """G^ℓ and G̃^ℓ for ℓ = 1..L."""
    layout = wiring.layout
    rules = rule.layers(network.depth)
    g: list[Array] = []
    g_tilde: list[Array] = []
    for index in reversed(range(network.depth)):
        phi_dot = phi_dots[index]
        local = rules[index]
        if g:
            above, above_tilde = layout.spread(g[0]), layout.spread(g_tilde[0])
        else:
            above = above_tilde = jnp.full_like(phi_dot, layout.readout)
        mixed = local.lazy_g_tilde(above_tilde, phi_dot)
        if mixed is None:
            rows, columns = left.bases[index].definition, right.bases[index].definition
            mixed = _from_table(tables[index].definition, rhos[index], rows, columns) * above_tilde
        own = above * phi_dot
        if g and wiring.stages[index + 1].carry:
            skip = wiring.stages[index + 1].carry ** 2
            mixed = mixed + skip * g_tilde[0] if local.feedback.chained else mixed
            own = own + skip * g[0]
        g.insert(0, own)
        g_tilde.insert(0, mixed)
    return g, g_tilde


@partial(jax.jit, static_argnames=("network", "rule", "wiring", "outputs"))
def tile_kernels(
    covariance: Array, same: Array, left: Side, right: Side, tables: tuple[Tables, ...], *,
    network: Network, rule: Rule, wiring: Wiring, outputs: frozenset[str],
) -> dict[str, Array]:  # fmt: skip
    """All asked kernels of a tile from Φ⁰ (batch, rows, columns); `same` marks pairs of the same point.

    O(rows·columns·depth) for closed forms; per-layer kernels get a leading layer axis.
    """
    layout = wiring.layout
    sigma_matrix = gate = layout.spread(covariance)
    seen, phis, phi_dots, rhos = [sigma_matrix], [], [], []
    for index in range(network.depth):
        phi, phi_dot, rho = _averages(network, rule, tables[index], sigma_matrix, gate, left, right, index)
        equal = left.points.phi[index], left.points.phi_dot[index]
        phi, phi_dot = _same(phi, same, equal[0]), _same(phi_dot, same, equal[1])
        phis.append(phi)
        phi_dots.append(phi_dot)
        rhos.append(rho)
        patches = layout.spread(phi)
        skip = wiring.stages[index + 1].carry ** 2 if index + 1 < network.depth else 0.0
        sigma_matrix = skip * sigma_matrix + patches if skip else patches
        seen.append(patches)
    g, g_tilde = _backward(network, rule, wiring, tables, phi_dots, rhos, left, right)
    out: dict[str, Array] = {}
    if "entk" in outputs or "parts" in outputs:
        parts = [layout.collect(g_tilde[index] * seen[index]) for index in range(network.depth)]
        parts.append(layout.readout * layout.collect(phis[-1]))
        if "entk" in outputs:
            out["entk"] = sum(parts[1:], parts[0])
        if "parts" in outputs:
            out["parts"] = jnp.stack(parts)
    for name, kernels in (("phi", phis), ("phi_dot", phi_dots), ("g", g), ("g_tilde", g_tilde)):
        if name in outputs:
            out[name] = jnp.stack([layout.labelled(kernel) for kernel in kernels])
    return out
