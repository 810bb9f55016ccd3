"""Traditional Hebb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from .feedback import Feedback, Silent
from .rule import Rule, Site


@dataclass(frozen=True)
class TraditionalHebb(Rule):
    """Traditional Hebb (App. G): ΔW ∝ Σ_μ φ(h^{ℓ+1}_μ)φ(h^ℓ_μ)ᵀ, blind to the error.

    Without weight decay it never stops, also not when the task is learnt.
    """

    feedback: ClassVar[Feedback] = Silent()

    def local(self, site: Site) -> Array:
        return site.phi

    def teach(self, error: Array, target: Array) -> Array:
        # The outputs share one update, however many there are.
        return jnp.full_like(error, 1.0 / error.shape[-1])

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return jnp.zeros_like(phi_dot)
