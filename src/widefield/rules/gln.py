"""Gated linear networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .rule import Gradient


@dataclass(frozen=True)
class GLN(Gradient):
    """Gated linear network: φ(h) becomes φ̇(m)⊙h with fixed gates m^ℓ = M^ℓx/√D, and backprop through that."""

    gated: ClassVar[bool] = True
