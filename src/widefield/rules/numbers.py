"""A rule as a form and its numbers, so that rules which differ only in numbers share one compiled program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .feedback import Past, Vectors
from .promises import probe_site
from .rule import Rule


class Shape(NamedTuple):
    """What a program must know of a layer's rule while it is compiled; it may depend on the numbers."""

    uses: frozenset[str]  # parts of W that the feedback is made of
    direct: bool
    entrywise: Callable[[Array], Array] | None
    gated: bool
    is_gradient: bool


@dataclasses.dataclass(frozen=True)
class Form:
    """Layer rules without their numbers; hashable, and equal for rules that differ only in numbers.

    Attributes:
        layers: rules of layers 1..L, with 0.0 in place of every number: only to be `filled`.
        shapes: what is known of each while compiling.
    """

    layers: tuple[Rule, ...]
    shapes: tuple[Shape, ...]

    def filled(self, numbers: tuple[Any, ...]) -> tuple[Rule, ...]:
        """The rules with these numbers, which may be traced."""
        rest = iter(numbers)
        return tuple(_fill(rule, rest) for rule in self.layers) if numbers else self.layers


def split_numbers(layers: tuple[Rule, ...]) -> tuple[Form, tuple[float, ...]]:
    """The form of rules and their numbers; rules that cannot be traced with abstract numbers keep them in the form."""
    shapes = tuple(_shape(rule) for rule in layers)
    numbers = tuple(number for rule in layers for number in _numbers(rule))
    form = Form(tuple(_fill(rule, iter(len(list(_numbers(rule))) * (0.0,))) for rule in layers), shapes)
    if not numbers or not _traceable(form, numbers):
        return Form(layers, shapes), ()
    return form, numbers


def _shape(rule: Rule) -> Shape:
    feedback = rule.feedback
    return Shape(feedback.uses, feedback.direct, feedback.entrywise, rule.gated, rule.is_gradient)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Rule):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name))
    elif isinstance(value, tuple):
        for entry in value:
            yield from _numbers(entry)
    elif isinstance(value, float):
        yield value


def _fill(value: Any, rest: Iterator[Any]) -> Any:
    """`value` with its numbers taken from `rest`, in the order of `_numbers`."""
    if isinstance(value, Rule):
        made = object.__new__(type(value))  # no __init__: it would check numbers that are not known yet
        for field in dataclasses.fields(value):
            object.__setattr__(made, field.name, _fill(getattr(value, field.name), rest))
        return made
    if isinstance(value, tuple):
        return tuple(_fill(entry, rest) for entry in value)
    return next(rest) if isinstance(value, float) else value


def _traceable(form: Form, numbers: tuple[float, ...]) -> bool:
    """Whether everything that a program asks of the rules can be traced with abstract numbers."""

    def ask(numbers: tuple[Any, ...]) -> list[Any]:
        site, found = probe_site(), []
        error, target = site.error[:, :, 0, 0], site.target[:, :, 0, 0]
        one = jnp.ones((1, 1, 1))
        for rule in form.filled(numbers):
            past = Past(one[0, 0, 0], one[0, 0, 0], one[0, 0, 0])
            top = rule.feedback.top(Vectors(one, one, one, one), past) if rule.feedback.chained else one
            found += [rule.local(site), rule.teach(error, target), top, rule.feedback.coefficients(past)]
        return found

    try:
        jax.eval_shape(ask, numbers)
    except Exception:  # any failure means that the numbers must stay known while compiling
        return False
    return True
