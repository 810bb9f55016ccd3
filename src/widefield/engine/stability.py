"""Which steps are stable, by an estimate from the kernel at initialisation, and when a run has exploded.

Near its start a run with the squared loss follows Δ(t+dt) = (1 − dt·K)Δ(t), so it grows once dt passes 2/λ_max(K).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..numerics.compiled import compiled
from ..precision import double_precision
from ..problem.activations import Activation
from ..problem.losses import SQUARED
from ..problem.problem import Problem
from ..problem.training import Training
from ..rules.rule import Rule
from .state import Inputs, Spec

NEURONS = 1024  # of the random network that K(0) is estimated with: some 5 % of λ_max
MOST_POINTS = 512  # of which K(0) is made; of more points λ_max is that of a part, scaled up
MOST_ROWS = 4096  # points times positions of a CNN
ITERATIONS = 30
# No training comes back from a loss so many times above its start; at its end a run is judged by far less.
LOST = 1e12


def largest_eigenvalue(kernel: np.ndarray) -> float:
    """λ_max of a symmetric kernel (P, P) with entries of any sign, by power iterations, O(P²)."""
    vector = np.random.default_rng(0).standard_normal(len(kernel))
    size = 0.0
    for _ in range(ITERATIONS):
        norm = np.linalg.norm(vector)
        if not (norm > 0 and np.isfinite(norm)):
            return float(norm)
        vector = kernel @ (vector / norm)
        size = float(np.linalg.norm(vector))
    return size


@lru_cache(maxsize=64)
@double_precision
def stable_step(problem: Problem) -> float:
    """An estimate of the largest stable dt at the start: 2/λ_max(K(0)) for plain steps on the squared loss.

    K(0) is that of a network of some hundred neurons. Where G̃ has no closed form, or the network is not a plain MLP, it
    is the readout's part alone, which is smaller: the estimate is then too large rather than too small. Infinite where
    nothing is known.
    """
    training, data = problem.training, problem.data
    with np.errstate(all="ignore"):
        kernel = _initial_kernel(problem)
        largest = _of_all_points(kernel, training.batch_size or data.points)
        curvature = _curvature(problem) * largest
    if not (np.isfinite(curvature) and curvature > 0):
        return math.inf
    return _stable_below(training, curvature)


def _stable_below(training: Training, curvature: float) -> float:
    """The largest dt for which f ← f − dt·curvature·f decays, by the training's own method."""
    if training.momentum > 0:
        # Roots of x² − (2 − a − a·dt·λ)x + 1 − a, a = dt/τ, leave the unit circle at dt²λ + 2dt = 4τ.
        return (math.sqrt(1 + 4 * training.momentum * curvature) - 1) / curvature
    return (1.0 if training.integrator == "ab2" else 2.0) / curvature


def _of_all_points(kernel: np.ndarray, points: int) -> float:
    """λ_max for `points` points like those of the kernel: its excess over the mean diagonal grows with them."""
    alone, largest = float(np.mean(np.diag(kernel))), largest_eigenvalue(kernel)
    others = len(kernel) - 1
    return largest if points == len(kernel) or others == 0 else alone + (largest - alone) * (points - 1) / others


def _initial_kernel(problem: Problem) -> np.ndarray:
    """K(0) of some training points, from the features of a random network."""
    data, wiring = problem.data, problem.wiring
    rng = np.random.default_rng(0)
    most = max(1, min(MOST_POINTS, MOST_ROWS // wiring.layout.positions))
    chosen = slice(None) if data.points <= most else rng.choice(data.points, most, replace=False)
    blocks = problem.network.blocks(data.x[chosen])
    points, activation = blocks.shape[1], problem.network.activation
    plain = wiring.feed_forward and not wiring.layout.grid and not any(stage.carry for stage in wiring.stages)
    h: Any = np.zeros(0)
    phi: Any = h
    features, slopes = [], []
    for stage in wiring.stages:
        drive = 0.0
        if stage.input is not None:
            drive = _random_layer(rng, wiring.layout, blocks[stage.input])
        if stage.matrix is not None:
            drive = drive + _random_layer(rng, wiring.layout, phi)
        h = stage.gain * drive + (stage.carry * h if stage.carry else 0.0)
        gated = problem.layer_rules[stage.population].gated
        gate = _random_layer(rng, wiring.layout, blocks[0]) if gated else h
        outputs, dot = (np.asarray(value) for value in _both(activation, gate))
        phi = dot * h if gated else outputs
        if plain:
            features.append(phi[:, 0] @ phi[:, 0].T / NEURONS)
            slopes.append(dot[:, 0] @ dot[:, 0].T / NEURONS)
    seen = np.asarray(wiring.layout.pool(phi)).reshape(points, -1)
    kernel = seen @ seen.T / NEURONS
    if plain:
        x = blocks[0, :, 0]
        below = [x @ x.T / x.shape[-1], *features[:-1]]
        kernel = kernel + np.asarray(_hidden_part(tuple(problem.layer_rules), below, slopes))
    return kernel


@compiled(static_argnums=0)
def _both(activation: Activation, h: Array) -> tuple[Array, Array]:
    """φ and φ̇, compiled together: one by one their operations take longer than all else here."""
    return activation.phi(h), activation.phi_dot(h)


def _random_layer(rng: np.random.Generator, layout, field: np.ndarray) -> np.ndarray:
    """W applied to a field (P, positions, n), divided by √n."""
    rows = np.asarray(layout.unfold(field))
    weights = rng.standard_normal((rows.shape[-1], NEURONS))
    return (rows @ weights / math.sqrt(field.shape[-1])).reshape(len(field), -1, NEURONS)


@compiled(static_argnums=0)
def _hidden_part(rules: tuple[Rule, ...], below: list[Array], slopes: list[Array]) -> Array:
    """Σ_{ℓ<L} G̃^{ℓ+1} ∘ Φ^ℓ of the layers whose G̃ has a closed form and that are taught by Δ."""
    above, total = jnp.ones_like(below[0]), jnp.zeros_like(below[0])
    for rule, phi, slope in zip(*(reversed(part) for part in (rules, below, slopes)), strict=True):
        found = rule.lazy_g_tilde(above, slope)
        if found is None or type(rule).teach is not Rule.teach:
            break
        above = found
        total = total + above * phi
    return total


def _curvature(problem: Problem) -> float:
    """The largest eigenvalue of a sample's ∂²ℓ/∂f² at f = 0; 1 for the squared loss."""
    loss = problem.training.loss
    if loss == SQUARED:
        return 1.0
    y = jnp.asarray(problem.data.y_columns[:MOST_POINTS])

    def of_one(target):
        return jax.hessian(lambda f: loss.total(f[None], target[None]))(jnp.zeros_like(target))

    found = np.asarray(jax.vmap(of_one)(y))
    return float(np.max(np.linalg.eigvalsh(found))) if np.all(np.isfinite(found)) else math.nan


def growth(spec: Spec, inputs: Inputs, f: Array) -> Array:
    """The training loss of outputs f (samples, reads, C) over that of f = 0; 0 where that is none."""

    def total(f: Array) -> Array:
        per_sample = jax.vmap(spec.loss.per_sample, 1, 1)(f, inputs.y)
        return jnp.abs(jnp.sum(per_sample if inputs.taught is None else inputs.taught * per_sample))

    start = total(jnp.zeros_like(inputs.y))
    return jnp.where(start > 0, total(f[: spec.points]) / start, 0.0).astype(inputs.y.dtype)
