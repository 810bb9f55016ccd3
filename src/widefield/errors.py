"""Named errors. Each message says what was wrong, what is allowed and what to change."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

MOST_LETTERS = 1000  # of a message
MOST_SHOWN = 120  # of a value in a message
LARGEST_INTEGER = 2**63 - 1  # what random keys, sizes and files can hold


class WidefieldError(Exception):
    """Base of every error that widefield raises on purpose; its message is one line, whatever went into it."""

    def __init__(self, message: str = "") -> None:
        super().__init__(cut(" ".join(str(message).split()), MOST_LETTERS))


class InputError(WidefieldError, ValueError):
    """An argument is not what it may be; raised before any work starts."""


class DivergenceError(WidefieldError, RuntimeError):
    """A run produced NaN or infinity, or a loss that grows without bound."""


class TooFewSamplesError(WidefieldError, RuntimeError):
    """There are too many Gaussian directions for the number of particles."""

    def __init__(self, message: str, directions: int = 0):
        super().__init__(message)
        self.directions = directions


class AccuracyWarning(UserWarning):
    """A run went on with other settings than were asked for, since it could not have come to its end with them."""


class NotConvergedError(WidefieldError, RuntimeError):
    """An iteration used up its budget before it met its tolerance."""


class MemoryBudgetError(WidefieldError, RuntimeError):
    """A run would need more memory than there is."""


class MissingExtraError(WidefieldError, ImportError):
    """A part of the installation is missing that only some users need."""


class ClusterError(WidefieldError, RuntimeError):
    """A Dask cluster is gone, or its workers cannot do the work."""


class IncompleteError(WidefieldError, RuntimeError):
    """Some of the runs that are needed failed."""


class ResultFileError(WidefieldError, OSError):
    """A result could not be read or written."""


class WidefieldWarning(UserWarning):
    """Base of every warning that widefield gives."""


class StabilityWarning(WidefieldWarning):
    """A step is larger than what is stable at the start of training."""


def one_line(error: BaseException) -> str:
    """The message of an error of any origin, fit to stand inside one of ours."""
    return printable(" ".join(str(error).split()))[:300]


def printable(text: str) -> str:
    """Text from a file without control characters, which a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown(value: object) -> str:
    """A value of any kind as part of a message."""
    try:
        return cut(" ".join(repr(value).split()), MOST_SHOWN)
    except Exception:  # a user's object, or a number of more digits than Python writes
        return f"a value of type {type(value).__name__}"


def require(condition: bool, argument: str, got: object, allowed: str) -> None:
    """Raise an `InputError` that names `argument`, what it was and what is allowed."""
    if not condition:
        raise InputError(f"{argument} is {shown(got)}; allowed: {allowed}")


def require_integer(argument: str, value: object, minimum: int) -> None:
    """Check that `value` is a whole number, of Python or NumPy, from `minimum` on."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    require(whole and value >= minimum, argument, value, f"a whole number, {minimum} or more")  # type: ignore[operator]
    require(value <= LARGEST_INTEGER, argument, value, "a whole number below 2⁶³")  # type: ignore[operator]


def require_number(
    argument: str,
    value: object,
    allowed: str,
    *,
    above: float = -float("inf"),
    at_least: float = -float("inf"),
    at_most: float = float("inf"),
) -> None:
    """Check that `value` is a finite number (NumPy's too) with above < value and at_least <= value <= at_most."""
    number = isinstance(value, Real) and not isinstance(value, bool) and _fits(value)
    require(number and above < value < float("inf") and at_least <= value <= at_most, argument, value, allowed)  # type: ignore[operator]


def require_one_of(argument: str, value: object, names: Iterable[str]) -> None:
    """Check that `value` is one of some names; arrays and the like are not."""
    names = tuple(names)
    require(isinstance(value, str) and value in names, argument, value, f"one of {', '.join(names)}")


def require_flag(argument: str, value: object) -> None:
    require(isinstance(value, bool), argument, value, "True or False")


def _fits(value: Any) -> bool:
    try:
        float(value)
    except (OverflowError, ValueError, TypeError):
        return False
    return True


def plain(value: Any) -> Any:
    """A NumPy number as Python's, which files and compiled programs take; anything else as it is."""
    import numpy as np

    return value.item() if isinstance(value, (np.number, np.bool_)) else value
