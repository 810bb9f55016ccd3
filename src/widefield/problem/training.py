"""How long, how fast and on what loss the network trains."""

from __future__ import annotations

import numpy as np

from ..errors import require
from ..numerics.memory import check_memory
from .fields import checked, convert_fields, frozen, number, one_of, real, whole
from .losses import Loss, as_loss

INTEGRATORS = ("euler", "ab2")
SCHEDULES = ("random", "cyclic")
EVALUATED = ("all", "batch")


def recorded_steps(last: int, every: int) -> np.ndarray:
    """Every `every`-th of the steps 0 … `last`, and the last."""
    steps = np.arange(0, last + 1, every)
    return steps if steps[-1] == last else np.append(steps, last)


@frozen()
class Training:
    """`steps` steps of size `dt` (the learning rate) on the sum of `loss` over the samples.

    Args:
        steps: number of training steps.
        dt: the learning rate. It acts on a sum over points, so twice the points want half the step.
        loss: "squared", "logistic" or "cross_entropy", "module:name", or a callable ℓ(f, y) of (P, C) giving (P,).
        weight_decay: λ in W ← (1−dt·λ)W + update, for all trained weights (App. C.3).
        momentum: τ in Q ← Q + (dt/τ)(−Q + gradient term), W ← W + dt·Q; 0 is none (App. C.4).
        integrator: "euler", or "ab2", second-order Adams–Bashforth towards gradient flow.
        batch_size: how many points teach in a step; 0 is all.
        schedule: "random" shuffles the points anew for every epoch (by `batch_seed`), "cyclic" takes them in their
            order. With steps·batch_size points, "cyclic" is online learning: every step has fresh samples.
        batch_seed: random seed of the order of points.
        evaluate: what a recorded step of a training with batches passes through the network besides the test points:
            "all" points, or the "batch" that teaches next. With "batch" no step costs more than its batch, however
            many points there are; the result's samples are then the places in the batch, its coordinate `point` tells
            which point stood there, and its loss is that of the batch.
    """

    steps: int = checked(whole(1))
    dt: float = checked(number("a number above 0", above=0), converter=real)
    loss: Loss = checked(converter=as_loss, default="squared")
    weight_decay: float = checked(number("a number, 0 or more", at_least=0), converter=real, default=0.0)
    momentum: float = checked(number("a number, 0 (none) or more", at_least=0), converter=real, default=0.0)
    integrator: str = checked(one_of(INTEGRATORS), default="euler")
    batch_size: int = checked(whole(0), default=0)
    schedule: str = checked(one_of(SCHEDULES), default="random")
    batch_seed: int = checked(whole(0), default=0)
    evaluate: str = checked(one_of(EVALUATED), default="all")

    def __post_init__(self) -> None:
        convert_fields(self)
        if self.integrator != "euler":
            plain = self.weight_decay == 0 and self.momentum == 0 and self.batch_size == 0
            require(plain, "integrator", self.integrator, "'euler' where weight_decay, momentum or batch_size is used")
        if self.evaluate != "all":
            require(self.batch_size > 0, "evaluate", self.evaluate, "'all' where batch_size is 0 (all points teach)")

    def batches(self, points: int) -> np.ndarray:
        """How often a point teaches in a step, (steps, P).

        Args:
            points: P.
        """
        if self.batch_size == 0:
            return np.ones((self.steps, points))
        check_memory(8 * self.steps * points, "the order of the points", "lower steps or batch_size")
        mask = np.zeros((self.steps, points))
        # A batch across the end of an epoch may hold a point twice: it teaches once per time it is drawn.
        np.add.at(mask, (np.arange(self.steps)[:, None], self.order(points)[: self.steps]), 1.0)
        return mask

    def order(self, points: int) -> np.ndarray:
        """Which points teach in a step, (steps, batch_size); with evaluate="batch" one more, for the last record.

        Args:
            points: P.
        """
        steps = self.steps + (self.evaluate == "batch")
        needed = steps * self.batch_size
        check_memory(8 * (needed + points), "the order of the points", "lower steps or batch_size")
        epochs = -(-needed // points)
        generator = np.random.default_rng(self.batch_seed)
        shuffled = self.schedule == "random"
        order = [generator.permutation(points) if shuffled else np.arange(points) for _ in range(epochs)]
        return np.concatenate(order)[:needed].reshape(steps, self.batch_size)
