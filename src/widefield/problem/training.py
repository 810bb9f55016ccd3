"""How long, how fast and on what loss the network trains."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import require, require_integer, require_number
from .losses import Loss, PerSample, as_loss

INTEGRATORS = ("euler", "ab2")


@dataclass(frozen=True)
class Training:
    """`steps` steps of size `dt` (the learning rate) on the sum of `loss` over the samples.

    Args:
        weight_decay: λ in W ← (1−dt·λ)W + update, for all trained weights (App. C.3).
        momentum: τ in Q ← Q + (dt/τ)(−Q + gradient term), W ← W + dt·Q; 0 is none (App. C.4).
        integrator: "euler", or "ab2", second-order Adams–Bashforth towards gradient flow.
    """

    steps: int
    dt: float
    loss: Loss = "squared"  # type: ignore[assignment]
    weight_decay: float = 0.0
    momentum: float = 0.0
    integrator: str = "euler"

    def __init__(
        self,
        steps: int,
        dt: float,
        loss: str | Loss | PerSample = "squared",
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        integrator: str = "euler",
    ):
        require_integer("steps", steps, 1)
        require_number("dt", dt, "a number above 0", above=0)
        require_number("weight_decay", weight_decay, "a number, 0 or more", at_least=0)
        require_number("momentum", momentum, "a number, 0 (none) or more", at_least=0)
        require(integrator in INTEGRATORS, "integrator", integrator, f"one of {', '.join(INTEGRATORS)}")
        if integrator != "euler":
            plain = weight_decay == 0 and momentum == 0
            require(plain, "integrator", integrator, "'euler' where weight_decay or momentum is used")
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "dt", float(dt))
        object.__setattr__(self, "loss", as_loss(loss))
        object.__setattr__(self, "weight_decay", float(weight_decay))
        object.__setattr__(self, "momentum", float(momentum))
        object.__setattr__(self, "integrator", integrator)
