"""A table of numbers and words as a data set: `wf.datasets.table`."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import InputError, one_line, require, require_integer, shown
from .problem.dataset import Dataset

MISSING = ("", "na", "nan", "null", "none")
DELIMITERS = ",;\t"


def table(
    path: str | Path | Any,
    target: str,
    *,
    inputs: Sequence[str] | None = None,
    classes: bool | None = None,
    test: float | int = 0,
    seed: int = 0,
) -> Dataset:
    """A CSV file with a header line, or a pandas `DataFrame`.

    Inputs of words become one column per word. Then every column is standardised by mean and standard deviation of the
    training points, so that |x|² ≈ D. A target of words is a class: ±1 for two (in alphabetical order), one-hot
    for more.

    Args:
        path: the file (separated by comma, semicolon or tab), or a `DataFrame`.
        target: the column to learn.
        inputs: the columns to learn from; default all others.
        classes: whether the target is a class; must be said where it is whole numbers other than ±1.
        test: which part of the rows tests and does not teach: a fraction below 1, or a number of rows.
        seed: of the random choice of test rows; the same seed gives the same rows.

    Raises:
        InputError: a column does not exist, a value is missing, or whole numbers may be classes or numbers.

    Example:
        >>> wf.datasets.table("flowers.csv", target="kind", test=0.25)
    """
    columns = _columns(path)
    names = [name for name in columns if name != target] if inputs is None else list(inputs)
    for argument, name in (("target", target), *(("inputs", name) for name in names)):
        require(name in columns, argument, name, f"a column: {', '.join(columns)}")
    require(len(names) > 0 and target not in names, "inputs", names, "one or more columns besides the target")
    require(classes in (None, True, False), "classes", classes, "True, False or None")
    require_integer("seed", seed, 0)
    rows = len(columns[target].values)
    tests = _tests(test, rows)
    order = np.random.default_rng(seed).permutation(rows)
    teaching, testing = np.sort(order[tests:]), np.sort(order[:tests])

    x = np.concatenate([_input(columns[name]) for name in names], axis=1)
    mean, spread = x[teaching].mean(0), x[teaching].std(0)
    x = (x - mean) / np.where(spread > 0, spread, 1.0)  # a constant column is 0
    y = _target(columns[target], classes)
    if not tests:
        return Dataset(x, y)
    return Dataset(x[teaching], y[teaching], x[testing], y[testing])


class Column(NamedTuple):
    """A column of a table: `numbers`, or None where some value is a word."""

    name: str
    values: list[str]
    numbers: np.ndarray | None


def _columns(source: Any) -> dict[str, Column]:
    pandas = sys.modules.get("pandas")  # who has a DataFrame has loaded it
    if pandas is not None and isinstance(source, pandas.DataFrame):
        read = {str(name): [_text(value) for value in source[name].tolist()] for name in source.columns}
    else:
        require(isinstance(source, (str, Path)), "path", type(source).__name__, "a CSV file or a pandas DataFrame")
        read = _read(source)
    return {name: _column(name, values) for name, values in read.items()}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _read(path: str | Path) -> dict[str, list[str]]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"path is '{path}', which cannot be read ({error.strerror}); allowed: a CSV file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"path is '{path}', which is not text in UTF-8; allowed: a CSV file") from error
    except ValueError as error:  # a name that no file can have
        raise InputError(f"path is {shown(path)} ({one_line(error)}); allowed: a CSV file") from error
    lines = text.splitlines()
    require(len(lines) > 0, "path", str(path), "a CSV file with a header line; this one is empty")
    delimiter = max(DELIMITERS, key=lines[0].count)
    header, *rows = csv.reader(lines, delimiter=delimiter)
    header = [name.strip() for name in header]
    require(len(set(header)) == len(header), f"the header of '{path}'", header, "different names of columns")
    rows = [row for row in rows if row]
    require(len(rows) > 0, "path", str(path), "a CSV file with rows below its header line")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise InputError(f"row {number} of '{path}' has {len(row)} values; allowed: {len(header)}, as the header")
    return {name: [row[k].strip() for row in rows] for k, name in enumerate(header)}


def _column(name: str, values: list[str]) -> Column:
    for row, value in enumerate(values, start=1):
        if value.lower() in MISSING:
            raise InputError(f"column {name} has no value in row {row}; allowed: tables without missing values")
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        return Column(name, values, None)
    bad = next((row for row, value in enumerate(numbers, start=1) if not math.isfinite(value)), None)
    if bad is not None:
        raise InputError(f"column {name} is {values[bad - 1]} in row {bad}; allowed: finite numbers, or words")
    return Column(name, values, numbers)


def _input(column: Column) -> np.ndarray:
    if column.numbers is not None:
        return column.numbers[:, None]
    words = sorted(set(column.values))
    if len(words) > max(2, len(column.values) // 2):
        raise InputError(
            f"inputs has the column {column.name} with {len(words)} different words in {len(column.values)} rows; "
            "allowed: columns of numbers, or of words that come again (name the ones to use with inputs=[…])"
        )
    return _one_hot(column.values, words)


def _target(column: Column, classes: bool | None) -> np.ndarray:
    numbers = column.numbers
    if numbers is None:
        require(classes is not False, "classes", classes, f"True or None: the column {column.name} has words")
        return _class_targets(column.values, sorted(set(column.values)), column.name)
    if classes is None and np.all(numbers == np.round(numbers)) and not np.all(np.abs(numbers) == 1):
        raise InputError(
            f"target {column.name} is whole numbers, which may be names of classes; "
            "allowed: with classes=True (±1 or one-hot), or classes=False (they are numbers)"
        )
    if not classes:
        return numbers
    values = [f"{number:g}" for number in numbers]
    return _class_targets(values, sorted(set(values), key=float), column.name)


def _class_targets(values: list[str], labels: list[str], name: str) -> np.ndarray:
    require(len(labels) > 1, "target", f"{name}, always {labels[0]}", "a column with two or more classes")
    one_hot = _one_hot(values, labels)
    return 2 * one_hot[:, 1] - 1 if len(labels) == 2 else one_hot


def _one_hot(values: list[str], labels: list[str]) -> np.ndarray:
    return (np.array(values)[:, None] == np.array(labels)).astype(np.float64)


def _tests(test: float | int, rows: int) -> int:
    """How many rows test."""
    allowed = f"a fraction from 0 to below 1, or a whole number below the {rows} rows"
    number = isinstance(test, (int, float)) and not isinstance(test, bool)
    require(number and test >= 0 and (test < 1 or test == int(test)), "test", test, allowed)
    count = round(test * rows) if test < 1 else int(test)
    require(count < rows, "test", test, allowed)
    return count
