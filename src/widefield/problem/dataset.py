"""A data set: training points that teach and test points that do not."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import require
from .arrays import real_array
from .fields import checked, convert_fields, frozen


def _floats(argument: str, value: ArrayLike) -> np.ndarray:
    """A read-only copy as 64-bit floats."""
    array = real_array(argument, value)
    array = array.copy()
    array.setflags(write=False)
    return array


def _floats_or_none(argument: str, value: ArrayLike | None) -> np.ndarray | None:
    return None if value is None else _floats(argument, value)


@frozen(eq=False)
class Dataset:
    """Training points `x` (P, D) with targets `y` (P,) or (P, C), and optional test points.

    For a `CNN`, x is (P, positions, channels) or (P, height, width, channels).
    """

    x: np.ndarray = checked(converter=partial(_floats, "x"))
    y: np.ndarray = checked(converter=partial(_floats, "y"))
    x_test: np.ndarray | None = checked(converter=partial(_floats_or_none, "x_test"), default=None)
    y_test: np.ndarray | None = checked(converter=partial(_floats_or_none, "y_test"), default=None)

    def __post_init__(self) -> None:
        convert_fields(self)
        require(
            self.x.ndim >= 2, "x", f"of shape {self.x.shape}", "shape (P, D), or (P, positions…, channels) for a CNN"
        )
        require(0 not in self.x.shape, "x", f"of shape {self.x.shape}", "at least one point and one dimension")
        require(self.y.ndim in (1, 2), "y", f"of shape {self.y.shape}", "shape (P,) or (P, C)")
        require(0 not in self.y.shape, "y", f"of shape {self.y.shape}", "at least one point and one output")
        self._same_count("y", self.y, "x", self.x)
        if self.x_test is not None:
            same = self.x_test.ndim == self.x.ndim and self.x_test.shape[1:] == self.x.shape[1:]
            require(
                same, "x_test", f"of shape {self.x_test.shape}", f"(P_test, …) with points of shape {self.x.shape[1:]}"
            )
            require(len(self.x_test) > 0, "x_test", f"of shape {self.x_test.shape}", "at least one point, or None")
        if self.y_test is not None:
            require(self.x_test is not None, "y_test", "given without x_test", "y_test together with x_test")
            assert self.x_test is not None
            require(self.y_test.ndim > 0, "y_test", "a single number", "one row per row of x_test")
            self._same_count("y_test", self.y_test, "x_test", self.x_test)
            same = self.y_test.shape[1:] == self.y.shape[1:]
            require(
                same, "y_test", f"of shape {self.y_test.shape}", f"(P_test, …) with targets of shape {self.y.shape[1:]}"
            )

    @staticmethod
    def _same_count(a: str, a_value: np.ndarray, b: str, b_value: np.ndarray) -> None:
        require(
            len(a_value) == len(b_value),
            a,
            f"of shape {a_value.shape}",
            f"one row per row of {b}, {len(b_value)} of them",
        )

    @property
    def points(self) -> int:
        """P."""
        return len(self.x)

    @property
    def outputs(self) -> int:
        """C."""
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @property
    def test_points(self) -> int:
        return 0 if self.x_test is None else len(self.x_test)

    @property
    def y_columns(self) -> np.ndarray:
        """y as (P, C), also for C = 1."""
        return self.y.reshape(len(self.y), -1)

    @property
    def all_x(self) -> np.ndarray:
        """Training points, then test points."""
        return self.x if self.x_test is None else np.concatenate([self.x, self.x_test])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        return all(a is b is None or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(((self.x + 0.0).tobytes(), (self.y + 0.0).tobytes()))  # −0.0 equals 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, self._arrays()  # made anew, because a pickled array forgets that it is read-only

    def _arrays(self) -> tuple[np.ndarray | None, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def __repr__(self) -> str:
        test = f", {self.test_points} test points" if self.test_points else ""
        return f"Dataset({self.points} points of shape {self.x.shape[1:]}, {self.outputs} outputs{test})"
