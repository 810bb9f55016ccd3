"""Low-rank parts of the initial recurrent weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import InputError, plain, require, require_number, shown
from ..fields import checked, convert_fields, frozen, number, real


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(float(plain(one)) for one in value)


def _vector(name: str, value: Any) -> None:
    allowed = "a list of finite numbers"
    require(isinstance(value, Sequence) and not isinstance(value, str), name, value, allowed)
    for one in value:
        require_number(name, plain(one), allowed)


@frozen()
class RankOne:
    """A part θ m nᵀ/N of W(0)/√N, with entries N(0, 1) of the vectors m and n over the neurons.

        m = Σ_c r_c w_c + (independent),   n = c m + Σ_d q_d U_d + (independent)

    with w the readout weights of output c and U the input weights of input d. Parts that overlap neither with inputs
    nor with each other's are not felt at infinite width, because nothing excites them.

    Args:
        strength: θ.
        overlap: c, the correlation of m and n; θc is the eigenvalue of the part.
        input: q, one number per input, or none; c² + |q|² may be at most 1.
        readout: r, one number per output, or none; |r|² may be at most 1.
    """

    strength: float = checked(number("a number"), converter=real)
    overlap: float = checked(number("a number in [−1, 1]", at_least=-1, at_most=1), converter=real, default=0.0)
    input: tuple[float, ...] = checked(_vector, converter=_numbers, default=())
    readout: tuple[float, ...] = checked(_vector, converter=_numbers, default=())

    def __post_init__(self) -> None:
        convert_fields(self)
        # Rounding may take a unit vector a little beyond 1.
        require(math.hypot(*self.readout) <= 1 + 1e-12, "readout", self.readout, "numbers with |r|² of at most 1")
        size = math.hypot(self.overlap, *self.input)
        require(size <= 1 + 1e-12, "input", self.input, f"numbers with c² + |q|² of at most 1, c = {self.overlap:g}")


def as_structure(value: Any) -> tuple[RankOne, ...]:
    """A sequence of `RankOne`s, or of dictionaries of their fields, as a tuple."""
    known = [field.name for field in dataclasses.fields(RankOne)]
    allowed = f"a list of widefield.RankOne, or of dictionaries with {', '.join(known)}"
    require(isinstance(value, Sequence) and not isinstance(value, str), "structure", value, allowed)
    found = []
    for part in value:
        if isinstance(part, Mapping):
            fits = set(part) <= set(known) and "strength" in part
            require(fits, "structure", dict(part), allowed)
            part = RankOne(**part)
        if not isinstance(part, RankOne):
            raise InputError(f"structure has {shown(part)}; allowed: {allowed}")
        found.append(part)
    return tuple(found)
