"""Direct feedback alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from .feedback import Direct, Feedback
from .rule import Rule, Site


@dataclass(frozen=True)
class DFA(Rule):
    """Direct feedback alignment: g̃^ℓ = φ̇(h^ℓ)⊙z̃^ℓ with one fixed N(0,1) vector per layer."""

    feedback: ClassVar[Feedback] = Direct()
    linear: ClassVar[bool] = True

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return jnp.zeros_like(phi_dot)
