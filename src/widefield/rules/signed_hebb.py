"""Hebb with a single power of the error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from .feedback import Feedback, Silent
from .rule import Rule, Site


@dataclass(frozen=True)
class SignedHebb(Rule):
    """Hebb with a single power of the error (App. G): ΔW ∝ Σ_μ Δ_μ φ(h^{ℓ+1}_μ)φ(h^ℓ_μ)ᵀ.

    Hebbian where Δ_μ > 0, anti-Hebbian where Δ_μ < 0.
    """

    feedback: ClassVar[Feedback] = Silent()

    def local(self, site: Site) -> Array:
        return site.phi

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return jnp.zeros_like(phi_dot)
