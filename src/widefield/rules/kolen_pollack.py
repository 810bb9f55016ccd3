"""Kolen–Pollack: feedback weights that learn."""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array

from .fa import FA
from .feedback import Weights


@dataclass(frozen=True)
class KolenPollack(FA):
    """ρ-FA whose feedback weights get every change that the forward weights get.

    Under weight decay both forget their beginnings, so that the feedback becomes the transposed weights.

    Args:
        rho: correlation ρ of feedback and forward weights at the start, −1 to 1.
    """

    @property
    def feedback(self) -> Weights:  # type: ignore[override]
        return Weights(rho=self.rho, learns=True)

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return self.rho * above * phi_dot
