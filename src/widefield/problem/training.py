"""How long, how fast and on what loss the network trains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import require, require_integer, require_number
from .losses import Loss, PerSample, as_loss

INTEGRATORS = ("euler", "ab2")
SCHEDULES = ("random", "cyclic")


@dataclass(frozen=True)
class Training:
    """`steps` steps of size `dt` (the learning rate) on the sum of `loss` over the samples.

    Args:
        weight_decay: λ in W ← (1−dt·λ)W + update, for all trained weights (App. C.3).
        momentum: τ in Q ← Q + (dt/τ)(−Q + gradient term), W ← W + dt·Q; 0 is none (App. C.4).
        integrator: "euler", or "ab2", second-order Adams–Bashforth towards gradient flow.
        batch_size: how many points teach in a step; 0 is all. Points that do not teach are still recorded.
        schedule: "random" shuffles the points anew for every epoch (by `batch_seed`), "cyclic" takes them in their
            order. With steps·batch_size points, "cyclic" is online learning: every step has fresh samples.
    """

    steps: int
    dt: float
    loss: Loss = "squared"  # type: ignore[assignment]
    weight_decay: float = 0.0
    momentum: float = 0.0
    integrator: str = "euler"
    batch_size: int = 0
    schedule: str = "random"
    batch_seed: int = 0

    def __init__(
        self,
        steps: int,
        dt: float,
        loss: str | Loss | PerSample = "squared",
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        integrator: str = "euler",
        batch_size: int = 0,
        schedule: str = "random",
        batch_seed: int = 0,
    ):
        require_integer("steps", steps, 1)
        require_number("dt", dt, "a number above 0", above=0)
        require_number("weight_decay", weight_decay, "a number, 0 or more", at_least=0)
        require_number("momentum", momentum, "a number, 0 (none) or more", at_least=0)
        require(integrator in INTEGRATORS, "integrator", integrator, f"one of {', '.join(INTEGRATORS)}")
        require_integer("batch_size", batch_size, 0)
        require(schedule in SCHEDULES, "schedule", schedule, f"one of {', '.join(SCHEDULES)}")
        require_integer("batch_seed", batch_seed, 0)
        if integrator != "euler":
            plain = weight_decay == 0 and momentum == 0 and batch_size == 0
            require(plain, "integrator", integrator, "'euler' where weight_decay, momentum or batch_size is used")
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "dt", float(dt))
        object.__setattr__(self, "loss", as_loss(loss))
        object.__setattr__(self, "weight_decay", float(weight_decay))
        object.__setattr__(self, "momentum", float(momentum))
        object.__setattr__(self, "integrator", integrator)
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "schedule", schedule)
        object.__setattr__(self, "batch_seed", batch_seed)

    def batches(self, points: int) -> np.ndarray:
        """1 for the points that teach in a step, 0 for the others, (steps, P)."""
        if self.batch_size == 0:
            return np.ones((self.steps, points))
        needed = self.steps * self.batch_size
        epochs = -(-needed // points)
        generator = np.random.default_rng(self.batch_seed)
        shuffled = self.schedule == "random"
        order = [generator.permutation(points) if shuffled else np.arange(points) for _ in range(epochs)]
        chosen = np.concatenate(order)[:needed].reshape(self.steps, self.batch_size)
        mask = np.zeros((self.steps, points))
        # A batch across the end of an epoch may hold a point twice: it teaches once per time it is drawn.
        np.add.at(mask, (np.arange(self.steps)[:, None], chosen), 1.0)
        return mask
