"""What a run is compiled for, its numbers, and what a network is and computes at one step.

Fields are (samples, positions, neurons), gradients (samples, outputs, positions, neurons);
an MLP has one position. Samples are the training points, then the test points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
from jax import Array

from ..problem.losses import Loss
from ..problem.networks import MLP, Network
from ..rules.rule import Rule
from .layout import Layout
from .sources import Source
from .wide_matrix import WideMatrix


@dataclass(frozen=True)
class Spec:
    """What is compiled for: everything that is not a number."""

    network: Network
    rule: Rule
    loss: Loss
    layout: Layout
    points: int
    outputs: int
    integrator: str
    momentum: bool
    gradients: bool  # the true gradient is wanted, also where the rule does not use it
    per_output: bool  # gradients are kept apart per output

    @property
    def depth(self) -> int:
        return self.network.depth

    @property
    def residual(self) -> bool:
        return isinstance(self.network, MLP) and self.network.residual

    def rule_at(self, layer: int) -> Rule:
        """Rule of hidden layer 1..L."""
        return self.rule.at(layer, self.depth)

    @property
    def one_sweep(self) -> bool:
        """Whether g̃ is the true gradient in every layer."""
        return all(self.rule_at(layer).is_gradient for layer in range(1, self.depth + 1))

    @property
    def track_gradient(self) -> bool:
        """Whether a second backward sweep, for the true gradient, is needed."""
        return self.gradients and not self.one_sweep


class Inputs(NamedTuple):
    """The numbers of a problem."""

    x: Array  # (samples·positions, r), coordinates of the inputs
    y: Array  # (P, C)
    richness: Array
    dt: Array
    weight_decay: Array
    momentum: Array
    batches: Array  # (steps, P), how often a point teaches in a step; one row where all steps are alike


class State(eqx.Module):
    """All that a network is at one step.

    `matrices` and `feedbacks` belong to W¹ … W^{L−1}; per-layer lists to layers 1 … L.
    """

    step: Array
    key: Array
    scale: Array  # what weight decay has left of the initial weights
    inputs: Array  # W⁰ in input coordinates, (r, N)
    matrices: list[WideMatrix]
    feedbacks: list[WideMatrix | None]  # W̃
    readout: Array  # w, (C, positions, N)
    readout_initial: Array
    readout_feedback: Array | None  # w̃
    direct: list[Array | None]  # z̃, (C, positions, N)
    gates: list[Array | None]  # m, (samples, positions, N)
    sources: list[Source]
    velocity: tuple[Array, Array] | None  # of W⁰ and w
    previous: Any  # last step's teaching, for Adams–Bashforth
    f_initial: Array  # (samples, C), f of the first step, subtracted so that f starts at 0


class Fields(NamedTuple):
    """What a step computes on the way, per layer 1 … L."""

    h: list[Array]
    phi: list[Array]
    signal: list[Array]  # what the rule's feedback delivers
    z: list[Array]  # pre-gradient fields, empty when the signal is them
    g: list[Array]  # true gradients, empty when g̃ is them
    g_tilde: list[Array]
    patches: list[Array]  # rows asked of W¹ … W^{L−1}
    f: Array
    delta: Array
