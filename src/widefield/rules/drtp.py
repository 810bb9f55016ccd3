"""Direct random target projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from .feedback import Direct, Feedback
from .rule import Rule, Site


@dataclass(frozen=True)
class DRTP(Rule):
    """Direct random target projection: as direct feedback alignment, with the target y in place of the error Δ.

    Hidden layers need no forward pass to the output. They do not stop when the task is learnt.
    """

    feedback: ClassVar[Feedback] = Direct()

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal

    def teach(self, error: Array, target: Array) -> Array:
        return target

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return jnp.zeros_like(phi_dot)
