"""Feedback alignment with partly aligned feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from ..errors import require_number
from .feedback import Weights
from .rule import Rule, Site


@dataclass(frozen=True)
class FA(Rule):
    """ρ-FA: g̃^ℓ = φ̇(h^ℓ)⊙[(ρW^ℓ(0)+√(1−ρ²)W̃^ℓ)ᵀ g̃^{ℓ+1}/√N].

    Args:
        rho: correlation ρ of feedback and forward weights at the start, −1 to 1.
    """

    rho: float = 0.0
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_number("rho", self.rho, "a number in [−1, 1]", at_least=-1, at_most=1)

    @property
    def feedback(self) -> Weights:  # type: ignore[override]
        return Weights(rho=self.rho, learns=False)

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return self.rho * above * phi_dot
