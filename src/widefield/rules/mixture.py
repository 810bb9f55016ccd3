"""A rule of its own for every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jax import Array

from ..errors import require
from .rule import Rule, Site


@dataclass(frozen=True)
class Mixture(Rule):
    """One rule per hidden layer, first layer first: `Mixture((GD(), DFA(), "hebb"))`.

    A layer whose signal comes through weights gets it from whatever g̃ the layer above has.

    Args:
        rules: rules or their names, one per hidden layer.
    """

    rules: tuple[Rule, ...]

    def __init__(self, rules: Sequence[Rule | str]):
        from .lookup import as_rule  # the table of rules holds this one too

        given = isinstance(rules, (tuple, list)) and len(rules) > 0
        require(given, "rules", rules, "a list of rules or their names, one per hidden layer")
        made = tuple(as_rule(rule) for rule in rules)
        alike = len({rule.gated for rule in made}) == 1
        require(alike, "rules", made, "rules that are all gated or none of them: gates belong to the whole network")
        object.__setattr__(self, "rules", made)

    @property
    def gated(self) -> bool:  # type: ignore[override]
        return self.rules[0].gated

    def layers(self, depth: int) -> tuple[Rule, ...]:
        require(len(self.rules) == depth, "rules", self.rules, f"{depth} rules, one per hidden layer")
        return tuple(rule.layers(depth)[layer] for layer, rule in enumerate(self.rules))

    def local(self, site: Site) -> Array:
        raise TypeError("a mixture has no rule of its own; ask layers(depth)")
