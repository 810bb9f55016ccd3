"""Eligibility propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from ..errors import require
from .feedback import Direct, Feedback, Readout
from .rule import Rule, Site


@dataclass(frozen=True)
class EProp(Rule):
    """Eligibility propagation: s_t = e_t φ̇(h_t)⊙v + (1−a) s_{t+1}, local in time as `RFLO`.

    Args:
        symmetric: v is the readout w(t) itself; else fixed N(0, 1) vectors, which is `RFLO`.
    """

    symmetric: bool = True
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(isinstance(self.symmetric, bool), "symmetric", self.symmetric, "True or False")

    @property
    def feedback(self) -> Feedback:  # type: ignore[override]
        return Readout() if self.symmetric else Direct()

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal
