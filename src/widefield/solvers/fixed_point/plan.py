"""What each layer's single-site process contains, read off the rule's feedback (no rule is known by name)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...problem.activations import Activation
from ...problem.problem import Problem
from ...rules.rule import Rule


@dataclass(frozen=True)
class Grid:
    """Size of a field: n = (steps+1)·P entries, ordered by time, then by point."""

    steps: int
    points: int

    @property
    def times(self) -> int:
        return self.steps + 1

    @property
    def size(self) -> int:
        return self.times * self.points


@dataclass(frozen=True)
class LayerPlan:
    """Structure of hidden layer ℓ; layers with the same structure share their compiled code.

    A^ℓ and C^ℓ are never both nonzero: h^ℓ can feel r^ℓ only where all layers above ℓ pass on the true
    gradient, and v^ℓ is a field of its own only where they do not.

    Attributes:
        bottom, top: ℓ = 1, ℓ = L.
        true_above: g̃^{ℓ+1} is g^{ℓ+1}, so v^ℓ = r^ℓ and D^ℓ = B^ℓ.
        true_here: g̃^ℓ is g^ℓ.
        has_a, has_c: whether A^ℓ, C^ℓ can be nonzero.
        has_d_below: whether D^{ℓ−1} is measured: where it is not B^{ℓ−1}, if the network has a C at all.
    """

    rule: Rule
    activation: Activation
    bottom: bool
    top: bool
    true_above: bool
    true_here: bool
    has_a: bool
    has_c: bool
    has_d_below: bool

    @property
    def rho(self) -> float:
        """Correlation of the feedback weights with W^ℓ(0); 0 without feedback weights."""
        return self.rule.feedback.rho

    @property
    def fresh(self) -> float:
        """√(1−ρ²), the part of ζ̃ in the signal; 0 without feedback weights."""
        return math.sqrt(1 - self.rho**2) if self.rule.feedback.chained else 0.0

    @property
    def learns(self) -> bool:
        return self.rule.feedback.learns

    @property
    def direct(self) -> bool:
        return self.rule.feedback.direct

    @property
    def uses_v(self) -> bool:
        """Whether v^ℓ is needed as a field of its own."""
        return self.rho != 0 and not self.true_above


@dataclass(frozen=True)
class Plan:
    """The static part of the iteration: everything that decides shapes and which terms exist."""

    layers: tuple[LayerPlan, ...]
    grid: Grid

    @property
    def depth(self) -> int:
        return len(self.layers)


def make_plan(problem: Problem) -> Plan:
    depth = problem.network.depth
    rules = problem.layer_rules
    true_from = [all(rule.is_gradient for rule in rules[i:]) for i in range(depth + 1)]  # [i]: layers i+1 … L
    shares = [rule.feedback.rho for rule in rules]
    has_c = [i + 1 < depth and rho != 0 and not true_from[i + 1] for i, rho in enumerate(shares)]
    layers: list[LayerPlan] = []
    for i, (rule, rho) in enumerate(zip(rules, shares, strict=True)):
        inner, below = i + 1 < depth, layers[-1] if layers else None
        layers.append(
            LayerPlan(
                rule=rule,
                activation=problem.network.activation,
                bottom=i == 0,
                top=not inner,
                true_above=true_from[i + 1],
                true_here=true_from[i],
                has_a=inner and ((rho != 0 and true_from[i + 1]) or (below is not None and below.has_a)),
                has_c=has_c[i],
                has_d_below=below is not None and any(has_c) and not true_from[i],
            )
        )
    return Plan(tuple(layers), Grid(problem.training.steps, problem.data.points))
