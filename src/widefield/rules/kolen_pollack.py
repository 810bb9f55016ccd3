"""Kolen–Pollack: feedback weights that learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from ..errors import require_number
from .feedback import Weights
from .rule import Rule, Site


@dataclass(frozen=True)
class KolenPollack(Rule):
    """Feedback weights start with correlation ρ to the forward weights and get every change that those get.

    Under weight decay both forget their beginnings, so that the feedback becomes the transposed weights.
    """

    rho: float = 0.0
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_number("rho", self.rho, "a number in [−1, 1]", at_least=-1, at_most=1)

    @property
    def feedback(self) -> Weights:  # type: ignore[override]
        return Weights(rho=self.rho, learns=True)

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return self.rho * above * phi_dot
