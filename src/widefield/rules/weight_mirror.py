"""Weight mirror."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from ..errors import require_number
from .feedback import Mirror
from .rule import Rule, Site


@dataclass(frozen=True)
class WeightMirror(Rule):
    """Feedback weights that follow the forward weights at their own rate: dB/dt = λ(W − B).

    g̃^ℓ = φ̇(h^ℓ)⊙[B^ℓᵀ g̃^{ℓ+1}/√N], and the same with vectors at the last layer.

    Args:
        rate: λ, in units of inverse training time; dt·λ may be at most 1.
        rho: correlation of B(0) with W(0).
    """

    rate: float = 1.0
    rho: float = 0.0
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_number("rate", self.rate, "a number above 0", above=0)
        require_number("rho", self.rho, "a number in [−1, 1]", at_least=-1, at_most=1)

    @property
    def feedback(self) -> Mirror:  # type: ignore[override]
        return Mirror(rate=self.rate, rho=self.rho)

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal
