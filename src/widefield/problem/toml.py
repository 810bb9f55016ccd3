"""A problem as a TOML file, and back, without loss.

richness = 1.0
[network]            # kind = "mlp" or "cnn", and its fields
[rule]               # name = "fa" or "module:Name", and its parameters
[training]
[data]               # x, y, x_test, y_test, or kind = "sphere" and the arguments of that generator
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ..atomic import write_file
from ..errors import InputError, one_line, require, shown
from ..rules.lookup import RULES, as_rule, rule_name
from ..rules.rule import Rule
from .activations import ACTIVATIONS, Activation
from .dataset import Dataset
from .losses import LOSSES, Loss
from .networks import NETWORKS, Network, RankOne
from .problem import Problem
from .references import modules_beside
from .training import Training

TABLES = ("richness", "network", "rule", "training", "data")
_DATA_HEADER = "\n[data]\n"


def read_problem(source: str | Path) -> Problem:
    """Read a TOML file, or TOML text (which has a line break).

    Paths of `.npz` files are relative to the file's folder, and modules beside the file are found.
    """
    content, folder = _parse(source)
    _check_tables(content, TABLES)
    with modules_beside(folder):
        return make_problem(content, _read_data(content["data"], folder or Path()))


def read_variants(source: str | Path) -> tuple[dict[str, Problem] | Problem, dict[str, Any] | None]:
    """A problem file with variants of the problem, and what is varied.

    Tables `[candidates.NAME]` hold what differs: richness, a rule, or keys of network and training; the answer is the
    problems by name. Or `[vary]` has lists of values by field, as `wf.sweep` takes them; the answer is the problem and
    these.
    """
    content, folder = _parse(source)
    _check_tables(content, (*TABLES, "candidates", "vary"))
    variants, vary = content.pop("candidates", None), content.pop("vary", None)
    if (variants is None) == (vary is None):
        raise InputError("the file has no candidates, or two kinds; allowed: [candidates.NAME] tables, or one [vary]")
    with modules_beside(folder):
        data = _read_data(content["data"], folder or Path())
        problem = make_problem(content, data)
        if variants is None:
            require(isinstance(vary, dict), "vary", vary, "a table, [vary]")
            return problem, vary
        require(isinstance(variants, dict) and len(variants) > 0, "candidates", variants, "tables [candidates.NAME]")
        return {name: make_problem(_changed(content, name, change), data) for name, change in variants.items()}, None


def _changed(content: Mapping[str, Any], name: str, change: Any) -> dict[str, Any]:
    """The tables of a variant: a rule as a whole, single keys of network and training."""
    allowed = ("richness", "network", "rule", "training")
    require(isinstance(change, dict), f"candidates.{name}", change, f"a table with {', '.join(allowed)}")
    _check_keys(f"[candidates.{name}]", change, allowed, ())
    for table in allowed[1:]:
        given = change.get(table, {})
        require(isinstance(given, dict), f"candidates.{name}.{table}", given, "a table")
    merged = {table: content[table] | change.get(table, {}) for table in ("network", "training")}
    return {**content, **change, **merged}


def _parse(source: str | Path) -> tuple[dict[str, Any], Path | None]:
    text, folder = _open(source)
    try:
        return tomllib.loads(text), folder
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, and tables in tables
        where = "the TOML text" if folder is None else str(source)
        raise InputError(f"{where} is not valid TOML: {one_line(error)}") from error


def _check_tables(content: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    _check_keys("the problem", content, allowed, TABLES)
    for name in TABLES[1:]:
        require(isinstance(content[name], dict), name, content[name], f"a table, [{name}]")


def make_problem(content: Mapping[str, Any], data: Dataset) -> Problem:
    """The problem of a TOML file's tables, with its data from elsewhere."""
    return Problem(
        data=data,
        network=_read_network(content["network"]),
        rule=_read_rule(content["rule"]),
        richness=content["richness"],
        training=_read_training(content["training"]),
    )


def write_header(problem: Problem) -> str:
    """All but the data as TOML text."""
    header = {
        "richness": problem.richness,
        "network": _write_network(problem.network),
        "rule": _write_rule(problem.rule),
        "training": _write_fields(problem.training),
    }
    return tomli_w.dumps(header)


def write_problem(problem: Problem, path: str | Path | None = None) -> str:
    """The problem as TOML text with its data as arrays; also written to `path` if there is one."""
    # [data] stands last, so that `split_header` can take it off.
    text = write_header(problem) + _DATA_HEADER + _write_data(problem.data)
    if path is not None:
        write_file(path, text.encode())
    return text


def split_header(text: str) -> tuple[str, str]:
    """All but the data, and the data, of a text that `write_problem` wrote."""
    header, _, data = text.partition(_DATA_HEADER)
    return header, data


def _open(source: str | Path) -> tuple[str, Path | None]:
    if isinstance(source, str) and "\n" in source:
        return source, None
    require(isinstance(source, (str, Path)), "path", source, "a TOML file, or TOML text with a line break")
    try:
        return Path(source).read_text(encoding="utf-8-sig"), Path(source).parent
    except OSError as error:
        raise InputError(f"{source} cannot be read ({error.strerror}); allowed: a TOML file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not text; allowed: a TOML file in UTF-8") from error
    except ValueError as error:  # a name that no file can have
        raise InputError(f"path is {shown(source)} ({one_line(error)}); allowed: a TOML file") from error


def _check_keys(where: str, table: Mapping[str, Any], allowed: tuple[str, ...], needed: tuple[str, ...]) -> None:
    for key in table:
        if key not in allowed:
            raise InputError(f"{key} is not a key of {where}; allowed: {', '.join(allowed)}")
    for key in needed:
        if key not in table:
            raise InputError(f"{key} is missing in {where}; it has: {', '.join(allowed)}")


def _call(where: str, factory: Callable[..., Any], arguments: Mapping[str, Any], extra: tuple[str, ...] = ()) -> Any:
    """Call `factory` with keys that its signature knows; `extra` keys of the table are named in errors too."""
    parameters = inspect.signature(factory).parameters.values()
    known = tuple(p.name for p in parameters)
    needed = tuple(p.name for p in parameters if p.default is inspect.Parameter.empty)
    _check_keys(where, arguments, extra + known, needed)
    return factory(**arguments)


def _take(table: Mapping[str, Any], key: str, where: str, allowed: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The entry of `allowed` that `table[key]` names, and the rest of the table."""
    rest = dict(table)
    name = rest.pop(key, None)
    require(isinstance(name, str) and name in allowed, f"{where}.{key}", name, f"one of {', '.join(allowed)}")
    return allowed[name], rest


# Data


def _read_data(table: Mapping[str, Any], folder: Path) -> Dataset:
    if "kind" not in table:
        return _call("[data]", Dataset, table, ("kind",))
    from ..datasets import GENERATORS

    generator, arguments = _take(table, "kind", "data", GENERATORS)
    if isinstance(arguments.get("path"), str):
        arguments["path"] = folder / arguments["path"]
    return _call(f"[data] with kind {table['kind']}", generator, arguments, ("kind",))


def _write_data(data: Dataset) -> str:
    # JSON's lists of numbers are TOML's, with the shortest digits that give back every bit.
    arrays = {f.name: getattr(data, f.name) for f in dataclasses.fields(data)}
    return "".join(f"{name} = {_write_array(value)}\n" for name, value in arrays.items() if value is not None)


def _write_array(array: np.ndarray) -> str:
    if array.ndim == 1:
        return _write_list(array)
    return "[\n" + "".join(f"  {_write_list(row)},\n" for row in array) + "]"


def _write_list(array: np.ndarray) -> str:
    # The one number that may be missing, a target, has another name in JSON.
    return json.dumps(array.tolist()).replace("NaN", "nan")


# Network and training


def _read_network(table: Mapping[str, Any]) -> Network:
    kind, fields = _take(table, "kind", "network", NETWORKS)
    _check_reference("activation", fields.get("activation"))
    return _call("[network]", kind, fields, ("kind",))


def _write_network(network: Network) -> dict[str, Any]:
    kind = next(name for name, kind in NETWORKS.items() if type(network) is kind)
    return {"kind": kind, **_write_fields(network)}


def _read_training(table: Mapping[str, Any]) -> Training:
    _check_reference("loss", table.get("loss"))
    return _call("[training]", Training, table)


def _write_fields(instance: Network | Training | RankOne) -> dict[str, Any]:
    values = {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance)}  # type: ignore[arg-type]
    return {name: _write_named(value) for name, value in values.items()}


def _write_named(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_write_fields(one) if isinstance(one, RankOne) else one for one in value]
    if not isinstance(value, (Activation, Loss)):
        return value
    table = ACTIVATIONS if isinstance(value, Activation) else LOSSES
    # A user's own object must not be read back as a built-in one of the same name.
    taken = value.name in table and table[value.name] != value
    return f"<your own {value.name}>" if taken else value.name


# Rule


def _read_rule(table: Mapping[str, Any]) -> Rule:
    parameters = {key: _read_parameter(key, value) for key, value in table.items() if key != "name"}
    name = table.get("name")
    require(isinstance(name, str), "rule.name", name, f"one of {', '.join(RULES)}, or 'module:Name' for your own")
    _check_reference("rule", name)
    return as_rule(table["name"], parameters)


def _read_parameter(key: str, value: Any) -> Any:
    """Lists become tuples (a rule is frozen), tables become rules (a rule may be made of rules)."""
    if isinstance(value, list):
        return tuple(_read_parameter(key, entry) for entry in value)
    if isinstance(value, dict):
        if "unwritable" in value:
            raise InputError(f"rule.{key} was {value['unwritable']}, which a file cannot hold; make the rule in Python")
        return _read_rule(value)
    return value


def _write_rule(rule: Rule) -> dict[str, Any]:
    values = {f.name: getattr(rule, f.name) for f in dataclasses.fields(rule) if f.init}
    return {"name": rule_name(rule), **{name: _write_parameter(value) for name, value in values.items()}}


def _write_parameter(value: Any) -> Any:
    if isinstance(value, Rule):
        return _write_rule(value)
    if isinstance(value, (list, tuple)):
        return [_write_parameter(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else {"unwritable": repr(value)}


def _check_reference(argument: str, name: object) -> None:
    """Say why the name of something that was made in a script or a function cannot be found again."""
    if not isinstance(name, str) or re.fullmatch(r"\w+|(?!__main__)[\w.]+:[\w.]+", name):
        return
    module, _, attribute = name.partition(":")
    if module == "__main__" and re.fullmatch(r"[\w.]+", attribute):
        import __main__

        target: Any = __main__
        for part in attribute.split("."):
            target = getattr(target, part, None)
        if target is not None:
            return  # still the script or notebook that defined it
        reason = "it was defined in a script or notebook that is not the one running now"
    else:
        reason = "it is a lambda or was made inside a function or an expression"
    raise InputError(
        f"{argument} is {name!r}, which cannot be found by name: {reason}; "
        f"allowed: a built-in name, or 'module:Name' of a module that Python can import"
    )
