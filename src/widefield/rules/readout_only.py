"""Learning only the readout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from .feedback import Feedback, Silent
from .rule import Rule, Site


@dataclass(frozen=True)
class ReadoutOnly(Rule):
    """g̃ = 0: hidden layers stay random features, at every richness."""

    feedback: ClassVar[Feedback] = Silent()

    def local(self, site: Site) -> Array:
        return jnp.zeros_like(site.phi)

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return jnp.zeros_like(phi_dot)
