"""G̃ of a rule that states no closed form, from its definition at initialisation.

With h ~ N(0, Σ) and the pre-gradient z centred, Gaussian and independent of h, g_i g̃_j = φ̇(h_i) z_i local(h_j, s_j)
depends on z only through its regression on the signal s_j, whose covariance with z_i is ρ G̃^{ℓ+1}_ij. Hence

    G̃^ℓ_ij = G̃^{ℓ+1}_ij · ⟨φ̇(h_i) ψ_j(h_j)⟩,    ψ_j(h) = ρ ⟨(s−μ) local(h, s)⟩_s / q_j,    s ~ N(μ, q_j)

with q_j = G̃̃^{ℓ+1}_jj the signal's variance and μ = ρ D_j φ(h_j), D = ⟨h g̃⟩/⟨h²⟩ one layer up (the response of the
feedback to h through shared weights; 0 for rules that are odd in the signal). A direct or silent signal knows nothing
of z: G̃ = 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import Array

from ...errors import InputError
from ...numerics.quadrature import RADIUS, RESOLUTIONS, elementwise, gaussian_line, legendre, pair_products
from ...problem.networks import Network, Wiring
from ...rules.rule import Rule, Site
from .points import Points
from .tables import PairTable, check_error, rounded_range, series


class UnknownSignalError(InputError):
    """A rule reads an error or a target that was not given."""


class Definition(NamedTuple):
    """⟨φ̇(h_i)ψ_j(h_j)⟩ of one layer: a table with a few ψ as columns, and each point's combination of them."""

    table: PairTable
    columns: np.ndarray  # (batch, rows, ψ's)


class Signals(NamedTuple):
    """Per point (batch, rows): what a layer's signal and neuron are at initialisation."""

    sigma: Any
    variance: Any
    response: Any
    error: Any
    target: Any


def _signal_nodes(shift: Array, panels: int) -> tuple[Array, Array]:
    """Standard normal nodes and weights (…, η) with an edge at `shift`, where the signal changes sign."""
    t, w = map(jnp.asarray, legendre(16, panels))
    edge = jnp.clip(shift, -RADIUS, RADIUS)[..., None]
    nodes = jnp.concatenate([-RADIUS + (edge + RADIUS) * t, edge + (RADIUS - edge) * t], axis=-1)
    weights = jnp.concatenate([(edge + RADIUS) * w, (RADIUS - edge) * w], axis=-1)
    return nodes, weights * jnp.exp(-(nodes**2) / 2) / jnp.sqrt(2 * jnp.pi)


def _local(rule: Rule, network: Network, point: Signals, xi: Array, panels: int) -> tuple[Array, Array, Array]:
    """local(h, s), s − μ and the weights of s, (ξ, η), at h = σξ of one point."""
    h = (point.sigma * xi)[:, None]
    phi, phi_dot = network.activation.phi(h), network.activation.phi_dot(h)
    mean, width = point.response * phi, jnp.sqrt(point.variance)
    eta, weights = _signal_nodes(-mean[:, 0] / jnp.where(width > 0, width, 1.0), panels)
    noise = width * eta
    site = Site(h, phi, phi_dot, mean + noise, point.error, point.target, jnp.zeros(()))
    return jnp.broadcast_to(rule.local(site), noise.shape), noise, weights


@partial(jax.jit, static_argnames=("rule", "network", "panels"))
def _psi(rule: Rule, network: Network, signals: Signals, xi: Array, panels: int) -> Array:
    """⟨(s−μ) local⟩/q at h = σξ, for signals (points,) and ξ (nodes,): (points, nodes)."""

    def one(point: Signals) -> Array:
        values, noise, weights = _local(rule, network, point, xi, panels)
        alive = point.variance > 0
        return jnp.where(alive, jnp.sum(values * noise * weights, -1) / jnp.where(alive, point.variance, 1.0), 0.0)

    return jax.lax.map(one, signals)


@partial(jax.jit, static_argnames=("rule", "network", "panels"))
def _moments(rule: Rule, network: Network, signals: Signals, panels: int) -> tuple[Array, Array]:
    """⟨g̃²⟩ and ⟨h g̃⟩/⟨h²⟩ for signals (points,)."""
    xi, w_xi = map(jnp.asarray, gaussian_line(12))

    def one(point: Signals) -> tuple[Array, Array]:
        values, _, weights = _local(rule, network, point, xi, panels)
        alive = point.sigma > 0
        slope = (w_xi * xi) @ jnp.sum(values * weights, -1) / jnp.where(alive, point.sigma, 1.0)
        return w_xi @ jnp.sum(values**2 * weights, -1), jnp.where(alive, slope, 0.0)

    return jax.lax.map(one, signals)


def _distinct(signals: Signals) -> tuple[Signals, np.ndarray]:
    """Points that differ, and where each point is among them."""
    flat = np.stack([column.ravel() for column in signals], axis=1)
    unique, back = np.unique(np.nan_to_num(flat, nan=1e300), axis=0, return_inverse=True)
    unique = np.where(unique == 1e300, np.nan, unique)
    return Signals(*unique.T), back.reshape(signals.sigma.shape)


def _require_known(values: np.ndarray, rule: Rule) -> None:
    if np.any(np.isnan(values)):
        raise UnknownSignalError(
            f"rule is {rule!r}, whose pseudo-gradient reads the error or the target, and these are not given; "
            "allowed: error= and target=, one number per point of the columns"
        )


def _table(
    rule: Rule, network: Network, signals: Signals, rho: float, low: float, high: float, accuracy: float
) -> tuple[PairTable, np.ndarray]:
    """The table of ⟨φ̇(h)ψ(h')⟩ for a few distinct ψ, and the combinations that give all of `signals`."""
    xi, weights = gaussian_line(6)
    values, fine = (np.asarray(_psi(rule, network, signals, jnp.asarray(xi), panels)) for panels in (3, 6))
    _require_known(fine, rule)
    name = f"rule {rule!r}"
    check_error(float(np.max(np.abs(fine - values)) / max(np.max(np.abs(fine)), 1e-300)), accuracy, name)
    weighted = fine * np.sqrt(weights)
    _, r, order = scipy.linalg.qr(  # type: ignore[misc]
        weighted.T, mode="economic", pivoting=True
    )
    sizes = np.abs(np.diag(r))
    rank = max(int(np.sum(sizes > 1e-13 * sizes[0])), 1) if sizes[0] > 0 else 1
    chosen = order[:rank]
    combinations = np.linalg.lstsq(weighted[chosen].T, weighted.T, rcond=None)[0].T
    few = Signals(*(column[chosen] for column in signals))

    def psi(nodes: np.ndarray) -> np.ndarray:
        return np.asarray(_psi(rule, network, few, jnp.asarray(nodes[0]), 3))

    resolution, slope, one = RESOLUTIONS[0], elementwise(network.activation.phi_dot), np.ones(1)
    ends, theta = np.unique([low, high]), np.pi * np.array([0.01, 0.3, 0.5, 0.9])
    coarse, careful = (pair_products(slope, psi, theta, ends, one, grid) for grid in RESOLUTIONS[:2])
    error = float(np.max(np.abs(coarse - careful)) / max(np.max(np.abs(careful)), 1e-300))

    def values_at(angles: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        return pair_products(slope, psi, angles, sigma, one, resolution)

    coefficients, tail = series(values_at, low, high, right_too=False)
    check_error(error + tail, accuracy, name)
    radial = np.eye(coefficients.shape[1])
    return PairTable(rho * coefficients, radial, low, high), combinations


def prepare_definitions(
    network: Network, rule: Rule, wiring: Wiring, left: Points, right: Points, error: np.ndarray,
    target: np.ndarray, accuracy: float,
) -> list[Definition | None]:  # fmt: skip
    """One entry per layer; None where the rule states a closed form or its signal knows nothing of z."""
    depth = network.depth
    rules = rule.layers(depth)
    probe = jnp.ones((1, 1))
    needed = [r.feedback.chained and r.lazy_g_tilde(probe, probe) is None for r in rules]
    found: list[Definition | None] = [None] * depth
    if not any(needed):
        return found
    if rule.gated or wiring.crosses:
        raise InputError(
            f"rule is {rule!r} without lazy_g_tilde in a gated or residual network; allowed there: "
            "rules that state lazy_g_tilde (their signals are correlated between layers)"
        )
    shape = right.sigma[0].shape
    square, response = np.full(shape, wiring.layout.readout), np.zeros(shape)
    for index in reversed(range(min(np.flatnonzero(needed)), depth)):
        feedback = rules[index].feedback
        if feedback.chained:
            signals = Signals(right.sigma[index], square, feedback.rho * response, error, target)
        else:
            direct = float(feedback.direct)
            signals = Signals(right.sigma[index], np.full(shape, direct), np.zeros(shape), error, target)
        distinct, back = _distinct(signals)
        if needed[index]:
            low, high = rounded_range(float(left.pivot[index].min()), float(left.pivot[index].max()))
            table, combinations = _table(rules[index], network, distinct, feedback.rho, low, high, accuracy)
            found[index] = Definition(table, combinations[back])
        if index > min(np.flatnonzero(needed)):
            moments = [np.asarray(m) for m in _moments(rules[index], network, distinct, 6)]
            _require_known(moments[0], rules[index])
            square, response = (np.asarray(wiring.layout.spread_points(jnp.asarray(m[back]))) for m in moments)
    return found
