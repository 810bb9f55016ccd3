"""Error-modulated Hebb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from .feedback import Feedback, Silent
from .rule import Rule, Site


@dataclass(frozen=True)
class Hebb(Rule):
    """Error-modulated Hebb: g̃_μ = Δ_μφ(h_μ), so the update carries Δ²."""

    feedback: ClassVar[Feedback] = Silent()

    def local(self, site: Site) -> Array:
        return site.error * site.phi

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return jnp.zeros_like(phi_dot)
