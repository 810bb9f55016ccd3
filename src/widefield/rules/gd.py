"""Gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from .rule import Gradient


@dataclass(frozen=True)
class GD(Gradient):
    """Gradient descent: g̃ = φ̇(h)⊙z."""
