"""Named errors. Each message says what was wrong, what is allowed and what to change."""


class WidefieldError(Exception):
    """Base of every error that widefield raises on purpose."""


class InputError(WidefieldError, ValueError):
    """An argument is not what it may be; raised before any work starts."""


class DivergenceError(WidefieldError, RuntimeError):
    """A run left the finite numbers."""


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


def one_line(error: BaseException) -> str:
    """The message of an error of any origin, fit to stand inside one of ours."""
    return printable(" ".join(str(error).split()))[:300]


def printable(text: str) -> str:
    """Text from a file without control characters, which a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def require(condition: bool, argument: str, got: object, allowed: str) -> None:
    """Raise an `InputError` that names `argument`, what it was and what is allowed."""
    if not condition:
        raise InputError(f"{argument} is {got!r}; allowed: {allowed}")


def require_integer(argument: str, value: object, minimum: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    require(whole and value >= minimum, argument, value, f"a whole number, {minimum} or more")  # type: ignore[operator]


def require_number(
    argument: str,
    value: object,
    allowed: str,
    *,
    above: float = -float("inf"),
    at_least: float = -float("inf"),
    at_most: float = float("inf"),
) -> None:
    """Check that `value` is a finite number with above < value and at_least <= value <= at_most."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(number and above < value < float("inf") and at_least <= value <= at_most, argument, value, allowed)  # type: ignore[operator]
