"""Truncated backpropagation through time."""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array

from ..errors import require_integer
from .feedback import Truncated
from .rule import Rule, Site


@dataclass(frozen=True)
class TruncatedBPTT(Rule):
    """Backpropagation through time that stops after some frames: the error of an output at frame r teaches the frames
    r−k+1 … r as gradient descent does, and none before. In a feed-forward network layers take the place of frames.

    Args:
        frames: k, 1 or more; from T on it is gradient descent.
    """

    frames: int = 1

    def __post_init__(self) -> None:
        require_integer("frames", self.frames, 1)

    @property
    def feedback(self) -> Truncated:  # type: ignore[override]
        return Truncated(reach=self.frames)

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal
