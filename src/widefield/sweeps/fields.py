"""Fields of a problem by name, "richness" or "rule.rho", and options of the run."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InputError, one_line, require, shown
from ..problem.problem import Problem
from ..rules.lookup import as_rule

_PARTS = tuple(field.name for field in dataclasses.fields(Problem))


def fields_of(problem: Problem) -> list[str]:
    """All fields that a sweep can vary."""
    inner = {name: getattr(problem, name) for name in _PARTS}
    return [*_PARTS, *(f"{name}.{field}" for name, part in inner.items() for field in _inner(part))]


def options_of(run: Callable[..., Any], options: Mapping[str, Any]) -> list[str]:
    """Keyword arguments of a run; those of `wf.solve` depend on its method."""
    from ..solvers.methods import SOLVERS, solve

    if run is solve:
        solver = SOLVERS.get(options.get("method", "mean_field"), SOLVERS["mean_field"])
        return ["method", *_keywords(solver)]
    return _keywords(run)


def takes_option(run: Callable[..., Any], options: Mapping[str, Any], name: str) -> bool:
    from ..solvers.methods import solve

    any_name = run is not solve and any(p.kind is p.VAR_KEYWORD for p in _parameters(run)) and name.isidentifier()
    return name in options_of(run, options) or any_name


def with_field(problem: Problem, path: str, value: Any) -> Problem:
    """The problem with another value of a field; raises the `InputError` of the class that holds it."""
    part, _, name = path.partition(".")
    if not name:
        return dataclasses.replace(problem, **{part: _like(getattr(problem, part), value)})
    owner = getattr(problem, part)
    if name not in _inner(owner):
        there = ", ".join(f"{part}.{known}" for known in _inner(owner)) or "none"
        raise InputError(f"{path} is not a field of {type(owner).__name__}; allowed: {there}")
    new = dataclasses.replace(owner, **{name: _like(getattr(owner, name), value)})
    return dataclasses.replace(problem, **{part: new})


def check_field(path: str, problem: Problem, run: Callable[..., Any], options: Mapping[str, Any], rules: Any) -> None:
    """Raise an `InputError` with all there are if there is no such field or option.

    A field of the rule is that of one of `rules` at least, where rules are swept too.
    """
    known, further = fields_of(problem), options_of(run, options)
    own = {f"rule.{name}" for rule in rules for name in _inner(as_rule(rule))}
    allowed = f"{', '.join(known)}, and options of the run: {', '.join(further) or 'none'}"
    require(path in known or path in own or takes_option(run, options, path), "field", path, allowed)


def check_options(run: Callable[..., Any], options: Mapping[str, Any], swept: list[str]) -> None:
    """Raise an `InputError` for an option that the run does not have, or one that it needs and is not there."""
    known = options_of(run, options)
    for name in options:
        require(takes_option(run, options, name), f"option {name}", options[name], f"{', '.join(known) or 'none'}")
        if name in swept:
            raise InputError(f"option {name} is given, and swept as well; allowed: one of both")
    missing = [name for name in _needed(run) if name not in options and name not in swept]
    if missing:
        raise InputError(f"{run.__name__} needs {', '.join(missing)}; give it as an option, or vary it")


def _inner(part: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(part) if field.init] if dataclasses.is_dataclass(part) else []


def _like(present: Any, value: Any) -> Any:
    """A whole number where there is a real one becomes real, so that 0, 0.5 and 1 share one compilation."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and isinstance(present, float) else value


def _keywords(run: Callable[..., Any]) -> list[str]:
    return [p.name for p in _parameters(run) if p.kind is not p.VAR_KEYWORD]


def _needed(run: Callable[..., Any]) -> list[str]:
    return [p.name for p in _parameters(run) if p.default is p.empty and p.kind is not p.VAR_KEYWORD]


def _parameters(run: Callable[..., Any]) -> list[inspect.Parameter]:
    """All but the problem and `progress`, which the sweep gives."""
    try:
        parameters = list(inspect.signature(run).parameters.values())
    except (TypeError, ValueError) as error:  # built-in functions have none that can be read
        raise InputError(
            f"run is {shown(run)} ({one_line(error)}); allowed: a function of a problem and options"
        ) from error
    return [p for p in parameters[1:] if p.name != "progress"]
