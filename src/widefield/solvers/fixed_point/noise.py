"""The Gaussian numbers of one replicate: drawn once, moment-matched, used in every iteration."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from ...errors import TooFewSamplesError
from ...numerics.sobol import quasi_normals
from .plan import Grid, LayerPlan, Plan

# Orthonormal columns are only Gaussian while they are few next to the samples.
_SHARE = 0.5


class LayerNoise(NamedTuple):
    """Standard Gaussians of one layer, (directions, S) each; None where the layer has no such field.

    Attributes:
        u: innovations of u^ℓ.
        r: innovations of r^ℓ, or of (v^ℓ, r^ℓ) together where v^ℓ is a field of its own.
        signal: innovations of ζ̃^ℓ, or the static z̃^ℓ.
        gate: innovations of m^ℓ.
    """

    u: Array
    r: Array
    signal: Array | None
    gate: Array | None


def capacities(grid: Grid, layer: LayerPlan, samples: int) -> dict[str, int]:
    """Number of Gaussian directions of each field of `layer`; all together at most half of `samples`."""
    points, size = grid.points, grid.size
    fixed = {"u": points} if layer.bottom else {}
    growing = {} if layer.bottom else {"u": 1}
    if layer.top:
        fixed["r"] = 1
    else:
        growing["r"] = 2 if layer.uses_v else 1
    if layer.direct or (layer.fresh and layer.top):
        fixed["signal"] = 1
    elif layer.fresh:
        growing["signal"] = 1
    if layer.rule.gated:
        fixed["gate"] = points
    room = int(_SHARE * samples) - 1 - sum(fixed.values())
    each = min(size, room // max(1, sum(growing.values())))
    if (growing and each < min(size, 2 * points)) or room < 0:
        raise TooFewSamplesError(
            f"samples is {samples}, too few for the Gaussian directions of a layer; "
            f"allowed: {4 * (1 + sum(fixed.values()) + 2 * points * sum(growing.values()))} or more"
        )
    return fixed | {name: each * share for name, share in growing.items()}


def draw_noise(plan: Plan, samples: int, seed: int, replicate: int) -> tuple[LayerNoise, ...]:
    """Gaussians of all layers.

    Per layer they are made mean-free, of unit variance and mutually uncorrelated over the samples
    (moment matching): second moments of linear fields then carry no sampling error at all, and a
    regression on one field feels none of the others. Cost O(S·directions²), once.
    """
    rng = np.random.default_rng([seed, replicate])
    layers = []
    for layer in plan.layers:
        counts = capacities(plan.grid, layer, samples)
        raw = rng.standard_normal((samples, 1 + sum(counts.values())))
        raw[:, 0] = 1.0
        # Directions of time 0 carry most of the variance: Sobol points fill them, of all fields together.
        starts = 1 + np.cumsum([0, *counts.values()])
        first = [
            j for a, n in zip(starts, counts.values(), strict=False) for j in range(a, a + min(n, plan.grid.points))
        ]
        raw[:, first] = quasi_normals(int(rng.integers(2**31)), range(1), 1, len(first), samples, "float64")[0, 0].T
        basis, upper = np.linalg.qr(raw)
        matched = (basis * np.sign(np.diagonal(upper)) * np.sqrt(samples)).T[1:]
        pieces = np.split(matched, np.cumsum(list(counts.values()))[:-1])
        parts = {name: jnp.asarray(piece) for name, piece in zip(counts, pieces, strict=True)}
        layers.append(LayerNoise(parts["u"], parts["r"], parts.get("signal"), parts.get("gate")))
    return tuple(layers)
