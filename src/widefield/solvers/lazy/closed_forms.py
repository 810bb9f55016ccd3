"""Gaussian averages with closed forms: ReLU (arc-cosine kernels), erf (arcsine kernel), linear.

With (h, h') centred Gaussian of standard deviations σ, σ' and correlation ρ, a pair function gives
(⟨φ(h)φ(h')⟩, ⟨φ̇(h)φ̇(h')⟩) from arrays ρ, σ, σ' that broadcast; a moment function gives
(⟨φ(h)²⟩, ⟨φ̇(h)²⟩) from σ. The ReLU is √2·max(h, 0), so that it keeps variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from ...problem.activations import ERF, LINEAR, RELU, Activation

Averages = tuple[Array, Array]


class ClosedForm(NamedTuple):
    pair: Callable[[Array, Array, Array], Averages]
    moments: Callable[[Array], Averages]


def _relu_pair(rho: Array, sigma: Array, sigma_: Array) -> Averages:
    sine = jnp.sqrt((1.0 - rho) * (1.0 + rho))
    # π − θ from arctan2 is accurate at coinciding points (exactly π) and at antipodal ones (exactly 0).
    rest = jnp.arctan2(sine, -rho) / math.pi
    alive = (sigma > 0) & (sigma_ > 0)
    return sigma * sigma_ * (sine / math.pi + rest * rho), jnp.where(alive, rest, 0.0)


def _relu_moments(sigma: Array) -> Averages:
    return sigma**2, (sigma > 0).astype(sigma.dtype)


def _erf_pair(rho: Array, sigma: Array, sigma_: Array) -> Averages:
    variances = (1.0 + 2.0 * sigma**2) * (1.0 + 2.0 * sigma_**2)
    twice = 2.0 * rho * sigma * sigma_
    phi = 2.0 / math.pi * jnp.arcsin(twice / jnp.sqrt(variances))
    return phi, 4.0 / math.pi / jnp.sqrt(variances - twice**2)


def _erf_moments(sigma: Array) -> Averages:
    v = sigma**2
    return 2.0 / math.pi * jnp.arcsin(2.0 * v / (1.0 + 2.0 * v)), 4.0 / math.pi / jnp.sqrt(1.0 + 4.0 * v)


def _linear_pair(rho: Array, sigma: Array, sigma_: Array) -> Averages:
    phi = rho * sigma * sigma_
    return phi, jnp.ones_like(phi)


def _linear_moments(sigma: Array) -> Averages:
    return sigma**2, jnp.ones_like(sigma)


CLOSED_FORMS: dict[Activation, ClosedForm] = {
    RELU: ClosedForm(_relu_pair, _relu_moments),
    ERF: ClosedForm(_erf_pair, _erf_moments),
    LINEAR: ClosedForm(_linear_pair, _linear_moments),
}
