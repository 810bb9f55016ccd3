"""Recurrent networks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...errors import require
from ..activations import Activation, as_activation
from ..fields import checked, convert_fields, frozen, number, one_of, real
from .layout import Layout
from .network import Network
from .structure import RankOne, as_structure
from .wiring import Stage, Wiring


@frozen()
class RNN(Network):
    """A recurrent network: one population of neurons with the same weight matrix at every frame t = 1 … T.

        h_1 = a U x_1/√D,   h_{t+1} = (1−a) h_t + a [W φ(h_t)/√N + U x_{t+1}/√D],   f_t = w·φ(h_t)/(γ₀N)

    Inputs are (P, T, D). Entries of W start as N(0, g²), those of U and w as N(0, 1). Pseudo-gradients s_t go backward
    in frames, s_t = (local rule) + (1−a) s_{t+1}, and

        W += dt γ₀/√N · a Σ e s_{t+1} φ(h_t)ᵀ,   U += dt γ₀/√D · a Σ e s_t x_tᵀ,   w += dt γ₀ Σ Δ_t φ(h_t),

    so that GD is backpropagation through time. Direct feedback and Hebb teach a frame by its own error; with readout
    "last" by that of the last frame. Feedback matrices have the size of W: FA(ρ) sends signals through
    ρW(0) + √(1−ρ²)W̃ with N(0, g²) entries of W̃ too, so that ρ is their correlation with W(0) at every gain.

    Args:
        activation: φ, as for `MLP`.
        leak: a in (0, 1]; 1 has no leak, h_{t+1} = W φ(h_t)/√N + U x_{t+1}/√D.
        readout: "last" reads f_T only, targets are (P,) or (P, C). "every" reads every frame, targets are (P, T) or
            (P, T, C); NaN marks a frame without a target (in all its C outputs), at which no rule learns anything from
            its output.
        gain: g, the standard deviation of the entries of W at the start. A tanh network with leak 1 and without input
            is quiet below 1 and chaotic above.
        structure: low-rank part of W at the start, a list of `RankOne`s or of dictionaries of their fields. It is a
            part of W(0), also where feedback is made of W(0).
    """

    activation: Activation = checked(converter=as_activation, default="tanh")
    leak: float = checked(number("a number in (0, 1]", above=0, at_most=1), converter=real, default=1.0)
    readout: str = checked(one_of(("last", "every")), default="last")
    gain: float = checked(number("a number, 0 or more", at_least=0), converter=real, default=1.0)
    structure: tuple[RankOne, ...] = checked(converter=as_structure, default=())
    depth: ClassVar[int] = 1  # type: ignore[misc]
    takes: ClassVar[str] = "(P, T, D) for an RNN: points, frames and dimensions"

    def __post_init__(self) -> None:
        convert_fields(self)

    def fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == 3

    def check_sizes(self, inputs: int, outputs: int) -> None:
        for part in self.structure:
            for name, size in (("input", inputs), ("readout", outputs)):
                found = len(getattr(part, name))
                require(found in (0, size), name, f"of {found} numbers", f"{size} numbers, as the data have, or none")

    def target_frames(self, shape: tuple[int, ...]) -> int | None:
        return shape[1] if self.readout == "every" else None

    def wiring(self, shape: tuple[int, ...]) -> Wiring:
        frames = shape[1]

        def stage(t: int) -> Stage:
            every = self.readout == "every"
            return Stage(
                population=0,
                matrix=0 if t else None,
                input=t,
                carry=1 - self.leak if t else 0.0,
                gain=self.leak,
                read=t if every else 0 if t == frames - 1 else None,
                taught=t if every else 0,
            )

        return Wiring(tuple(stage(t) for t in range(frames)), Layout(), self.gain, self.structure)

    def blocks(self, x: np.ndarray) -> np.ndarray:
        return np.moveaxis(x, 1, 0)[:, :, None]
