"""Kolen–Pollack: feedback weights that learn."""

from __future__ import annotations

from dataclasses import dataclass

from .fa import FA
from .feedback import Weights


@dataclass(frozen=True)
class KolenPollack(FA):
    """ρ-FA whose feedback weights get every change that the forward weights get.

    Under weight decay both forget their beginnings, so that the feedback becomes the transposed weights.
    """

    @property
    def feedback(self) -> Weights:  # type: ignore[override]
        return Weights(rho=self.rho, learns=True)
