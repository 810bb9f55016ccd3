"""From what is varied to cells: every combination of values, each a problem and options."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError, WidefieldError, one_line, require
from ..problem.activations import Activation
from ..problem.losses import Loss
from ..problem.problem import Problem
from ..rules.lookup import as_rule
from ..rules.rule import Rule
from .cells import Cell
from .fields import check_field, check_options, fields_of, with_field


@dataclass(frozen=True)
class Axis:
    """One swept field: its values, and what they are called in the result."""

    field: str
    values: tuple[Any, ...]
    labels: tuple[Any, ...]  # numbers, or text

    @property
    def coordinate(self) -> np.ndarray:
        return np.array(self.labels)


Index = tuple[int, ...]
MOST_CELLS = 10**5  # each one is a problem in memory and a file


@dataclass(frozen=True)
class Grid:
    """Swept fields and the cell of every combination of their values."""

    axes: tuple[Axis, ...]
    cells: dict[Index, Cell]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.values) for axis in self.axes)

    def title(self, index: Index) -> str:
        return title(self.axes, index)


def title(axes: Iterable[Axis], index: Index) -> str:
    """A cell as a user knows it: "richness=0.3, rule.rho=0.5"."""
    return ", ".join(f"{axis.field}={_short(axis.labels[i])}" for axis, i in zip(axes, index, strict=True))


def make_grid(problem: Problem, vary: Mapping[str, Any], run: Callable[..., Any], options: Mapping[str, Any]) -> Grid:
    """Check everything and make all problems, before anything runs."""
    require(isinstance(problem, Problem), "problem", type(problem).__name__, "a widefield.Problem")
    require(callable(run), "run", run, "wf.solve, wf.simulate or another function of a problem and options")
    require(isinstance(vary, Mapping), "vary", type(vary).__name__, 'a dictionary, e.g. {"richness": [0.3, 1, 3]}')
    require(len(vary) > 0, "vary", vary, 'one field or more, e.g. {"richness": [0.3, 1, 3]}')
    check_options(run, options, list(vary))
    rules = _entries("rule", vary["rule"])[1] if "rule" in vary else ()
    for field in vary:
        check_field(field, problem, run, options, rules)
    axes = tuple(_axis(field, values) for field, values in vary.items())
    parts = set(fields_of(problem)) | {field for field in vary if "." in field}
    count = math.prod(len(axis.values) for axis in axes)
    require(count <= MOST_CELLS, "vary", f"a grid of {count} cells", f"up to {MOST_CELLS} cells")
    cells: dict[Index, Cell] = {}
    for index in itertools.product(*(range(len(axis.values)) for axis in axes)):
        chosen = {axis.field: axis.values[i] for axis, i in zip(axes, index, strict=True)}
        own = {field: value for field, value in chosen.items() if field not in parts}
        made = problem
        try:
            # Whole parts first: "rule" before "rule.rho".
            for field in sorted(chosen.keys() - own.keys(), key=lambda field: field.count(".")):
                made = with_field(made, field, chosen[field])
        except WidefieldError as error:
            raise InputError(f"cell {title(axes, index)}: {one_line(error)}") from error
        cells[index] = Cell(run, made, {**options, **own})
    return Grid(axes, cells)


def _axis(field: str, values: Any) -> Axis:
    labels, entries = _entries(field, values)
    require(len(entries) > 0, field, values, "one value or more")
    require(len(set(labels)) == len(labels), field, list(labels), "values with different names; give {name: value}")
    return Axis(field, entries, labels)


def _entries(field: str, values: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Names and values."""
    if isinstance(values, Mapping):
        for name in values:
            require(isinstance(name, str), field, name, "a dictionary whose keys are names")
        return tuple(values), tuple(map(_plain, values.values()))
    if field == "data":
        raise InputError("data is not a dictionary; allowed: data sets by name, {name: Dataset}")
    listed = isinstance(values, Iterable) and not isinstance(values, (str, bytes))
    require(listed, field, values, "a list of values, or a dictionary {name: value}")
    entries = tuple(map(_plain, values))
    entries = tuple(as_rule(entry) if field == "rule" else entry for entry in entries)
    return tuple(_labels(entries)), entries


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _labels(values: tuple[Any, ...]) -> list[Any]:
    """Numbers stand for themselves; others get short names, and long ones where short ones are not unique."""
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return [float(value) if any(isinstance(v, float) for v in values) else value for value in values]
    short = [_name(value) for value in values]
    return short if len(set(short)) == len(short) else [repr(value) for value in values]


def _name(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (Activation, Loss)):
        return value.name
    if isinstance(value, Rule):
        return _rule_label(value)
    return getattr(value, "__name__", None) or repr(value)


def _rule_label(rule: Rule) -> str:
    """Its name, with its parameters where they are not the usual ones: "gd", "fa(rho=0.5)"."""
    from ..rules.lookup import rule_name

    name = rule_name(rule).rpartition(":")[2]
    fields = [field for field in dataclasses.fields(rule) if field.init]
    other = [f for f in fields if f.default is dataclasses.MISSING or getattr(rule, f.name) != f.default]
    inside = ", ".join(f"{f.name}={_short(getattr(rule, f.name))}" for f in other)
    return f"{name}({inside})" if inside else name


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)
