"""The problem of a result as a file holds it: text without data, and the data; read back only when asked for."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InputError, one_line, require
from ..problem.dataset import Dataset
from ..problem.problem import Problem
from ..problem.references import references_trusted
from ..problem.toml import make_problem, split_header

ATTRIBUTES = ("problem", "method", "info", "versions")
ARRAYS = ("x", "y", "x_test", "y_test")


class StoredProblem:
    """A problem that is made when it is asked for.

    Args:
        header: all but the data, as TOML text.
        data: the data, or TOML text with them as the first versions wrote it, or None if they were not kept.
        trust: whether modules that the text names may be imported.
    """

    def __init__(self, header: str, data: Dataset | str | None, trust: bool = False):
        self.header, self.trust, self._data = header, trust, data

    @cached_property
    def data(self) -> Dataset | None:
        return _read_data(self._data) if isinstance(self._data, str) else self._data

    def restore(self) -> Problem:
        if self.data is None:
            raise InputError(
                "the data of this result's problem were not kept with it; allowed: results of solvers and of wf.load, "
                "or Result(dataset, problem)"
            )
        with references_trusted(self.trust):
            return make_problem(read_header({"problem": self.header}), self.data)


def check_attributes(attributes: Mapping[Any, Any]) -> None:
    """Raise an `InputError` unless all is there that a result says about itself."""
    missing = [name for name in ATTRIBUTES if name not in attributes]
    if missing:
        raise InputError(
            f"the dataset has no attribute {', '.join(missing)}; allowed: the dataset or the replicates of a result; "
            "for arrays of your own there is Result.from_arrays"
        )
    for name in ATTRIBUTES:
        if not isinstance(attributes[name], str):
            raise InputError(f"the attribute {name} is {type(attributes[name]).__name__}; allowed: text")
    for name in ("info", "versions"):
        try:
            good = isinstance(json.loads(attributes[name]), dict)
        except (ValueError, RecursionError):
            good = False
        if not good:
            raise InputError(f"the attribute {name} cannot be read; allowed: a JSON object")
    seed = attributes.get("seed", 0)
    require(isinstance(seed, (int, np.integer)), "the attribute seed", seed, "a whole number")
    read_header(attributes)


def read_header(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """The problem without its data, as plain values; nothing is imported."""
    try:
        content = tomllib.loads(split_header(attributes["problem"])[0])
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"the attribute problem cannot be read ({one_line(error)}); allowed: TOML text") from error
    needed = {"network": "kind", "rule": "name", "training": "steps"}
    whole = all(isinstance(content.get(table), dict) and key in content[table] for table, key in needed.items())
    if not whole or "richness" not in content:
        raise InputError("the attribute problem is not that of a result; allowed: what Problem.to_toml writes")
    return content


def _read_data(text: str) -> Dataset:
    try:
        arrays = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"the data of the problem cannot be read ({one_line(error)})") from error
    # Nothing but arrays: a path would read another file, a kind would make other data.
    if not set(arrays) <= set(ARRAYS) or not {"x", "y"} <= set(arrays):
        raise InputError(f"the data of the problem are {', '.join(arrays)}; allowed: {', '.join(ARRAYS)}")
    return Dataset(**arrays)
