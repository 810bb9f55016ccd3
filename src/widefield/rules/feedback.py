"""Where a layer's teaching signal comes from (design §4). The engine knows these, and no rule by name."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import require_number


@dataclass(frozen=True)
class Weights:
    """The signal comes from the layer above through a feedback matrix.

    signal^ℓ = [ρW^ℓ(0) + √(1−ρ²)W̃^ℓ]ᵀ g̃^{ℓ+1}/√N, and for ℓ=L the vector ρw(0) + √(1−ρ²)w̃, with
    W̃ and w̃ fresh N(0,1). With `learns` the feedback weights get every change that the forward
    weights get: ρ=1 is then the transposed weights themselves, ρ=0 is Kolen–Pollack.
    """

    rho: float = 1.0
    learns: bool = True

    def __post_init__(self) -> None:
        require_number("rho", self.rho, "a number in [−1, 1]", at_least=-1, at_most=1)


@dataclass(frozen=True)
class Direct:
    """The signal is one fixed N(0,1) vector z̃^ℓ per layer (and per output), straight from the output."""


@dataclass(frozen=True)
class Silent:
    """There is no signal; the rule uses only what the neuron itself has."""


Feedback = Weights | Direct | Silent
