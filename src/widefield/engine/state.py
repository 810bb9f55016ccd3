"""What a run is compiled for, its numbers, and what a network is at one step.

Fields are (samples, positions, neurons), gradients (points, outputs, positions, neurons); an MLP has one position.
Samples are the training points, then the test points. Stages are those of the network's wiring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
from jax import Array

from ..problem.activations import Activation
from ..problem.losses import Loss
from ..problem.networks import Wiring
from ..rules.numbers import Form
from .sources import Source
from .wide_matrix import WideMatrix


@dataclass(frozen=True)
class Spec:
    """What is compiled for: everything that is not a number."""

    wiring: Wiring
    activation: Activation
    form: Form
    loss: Loss
    points: int  # that pass through the network at a recorded step: all, or those of a batch
    outputs: int
    integrator: str
    momentum: bool
    track_gradient: bool  # a second backward sweep, for the true gradient, is needed
    per_output: bool  # gradients are kept apart per output
    initial: bool = False  # a dense W(0) is kept, because what is recorded or a fresh batch needs it
    decays: bool = True  # there is weight decay
    online: bool = False  # a recorded step passes its batch, not all points
    returns: bool = True  # a point passes more than once

    @property
    def populations(self) -> int:
        return self.wiring.populations

    @property
    def sweeps(self) -> int:
        """Length of the output axis of gradients."""
        return self.wiring.reads * self.outputs if self.per_output else 1

    def uses(self, matrix: int) -> frozenset[str]:
        """What the feedback through `matrix` asks of it."""
        return self.form.shapes[self.wiring.ends(matrix)[0]].uses


class Inputs(NamedTuple):
    """The numbers of a problem."""

    x: Array  # (blocks, samples·positions, r), coordinates of the inputs
    y: Array  # (P, reads, C) of all points; any allowed target where there is none
    richness: Array
    dt: Array
    weight_decay: Array
    momentum: Array
    batches: Array | None  # (steps, batch), the points that teach in a step; None: all that pass
    tolerance: Array  # relative size of the part of a question forward that may stay unasked
    tolerance_back: Array  # the same of a question backward
    rule: tuple[Array, ...]  # numbers of the learning rules
    along: Array | None = None  # (parts of the structure, r), coordinates of the inputs that they overlap with
    taught: Array | None = None  # (P, reads), 1 where there is a target and 0 where there is none; None: 1 everywhere


class State(eqx.Module):
    """All that a network is at one step.

    `matrices` and `feedbacks` belong to the hidden matrices W¹ … W^{L−1}, the others to populations.
    """

    step: Array
    key: Array
    scale: Array  # what weight decay has left of the initial weights
    inputs: Array  # W⁰ in input coordinates, (r, N)
    inputs_initial: Array | None  # the same at the start, where batches need it
    matrices: list[WideMatrix]
    feedbacks: list[WideMatrix | None]  # W̃
    readout: Array  # w, (C, positions, N)
    readout_initial: Array
    readout_feedback: Array | None  # w̃
    readout_mirror: Array | None  # what follows w
    direct: list[Array | None]  # z̃, (C, positions, N)
    gates: list[Array | None]  # weights of the gates m in input coordinates, (r, N)
    sources: list[Source]
    structure: tuple[Array, Array] | None  # θm and n of the low-rank parts of W(0), (parts, N) each
    velocity: tuple[Array, Array] | None  # of W⁰ and w
    previous: Any  # last step's teaching, for Adams–Bashforth
    f_initial: Array  # (samples, reads, C) of all samples, what they start with; subtracted, so that f starts at 0
