"""One way to check and convert what a user writes down: each field of a frozen dataclass says how.

@frozen()
class Training:
    steps: int = checked(whole(1))
    loss: Loss = checked(converter=as_loss, default="squared")

    def __post_init__(self) -> None:
        convert_fields(self)
        require(…)  # what concerns several fields
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, dataclass_transform

from ..errors import plain, require, require_flag, require_integer, require_number, require_one_of

T = TypeVar("T")
Check = Callable[[str, Any], None]


def checked(check: Check | None = None, *, converter: Callable[[Any], Any] | None = None, default: Any = ...) -> Any:
    """A field: `check` raises an error that names the field, then `converter` gives the value that is kept."""
    metadata = {"check": check, "converter": converter}
    if default is ...:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, field_specifiers=(checked,))
def frozen(*, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """A frozen dataclass; type checkers take an argument's type from the field's converter."""
    return dataclasses.dataclass(frozen=True, eq=eq)


def convert_fields(instance: Any) -> None:
    """Check and convert every field; the first thing that `__post_init__` does."""
    for field in dataclasses.fields(instance):
        value = plain(getattr(instance, field.name))
        check, converter = field.metadata.get("check"), field.metadata.get("converter")
        if check is not None:
            check(field.name, value)
        object.__setattr__(instance, field.name, value if converter is None else converter(value))


def real(value: float) -> float:
    return float(value)


def whole(minimum: int, maximum: int | None = None) -> Check:
    def check(name: str, value: Any) -> None:
        require_integer(name, value, minimum)
        require(maximum is None or value <= maximum, name, value, f"a whole number from {minimum} to {maximum}")

    return check


def number(allowed: str, **bounds: float) -> Check:
    """A finite number within the bounds of `require_number`."""
    return lambda name, value: require_number(name, value, allowed, **bounds)


def one_of(names: Sequence[str]) -> Check:
    return lambda name, value: require_one_of(name, value, names)


def flag(name: str, value: Any) -> None:
    require_flag(name, value)


def instance_of(kind: type | tuple[type, ...], allowed: str) -> Check:
    return lambda name, value: require(isinstance(value, kind), name, type(value).__name__, allowed)
