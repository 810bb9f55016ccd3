"""A data set: training points that teach and test points that do not."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError, require
from .arrays import real_array
from .fields import checked, convert_fields, frozen


def _floats(argument: str, value: ArrayLike, missing: bool = False) -> np.ndarray:
    """A read-only copy as 64-bit floats; NaN only where numbers may be `missing`."""
    array = real_array(argument, value, missing=missing).copy()
    array.setflags(write=False)
    return array


def _floats_or_none(argument: str, value: ArrayLike | None) -> np.ndarray | None:
    return None if value is None else _floats(argument, value)


def _targets(argument: str, value: ArrayLike) -> np.ndarray:
    """As `_floats`, but a list of whole numbers is asked back: they may be names of classes."""
    try:
        given = np.asarray(value)
    except Exception:  # rows of different lengths and the like, which `_floats` says better
        return _floats(argument, value)
    if given.ndim == 1 and given.dtype.kind in "iub" and not np.all(np.abs(given.astype(np.int64)) == 1):
        raise InputError(
            f"{argument} is whole numbers, which may be names of classes; allowed: one-hot "
            f"rows, np.eye(C)[{argument}] (−1.0 and 1.0 for two classes), or, if they are numbers, floats"
        )
    return _floats(argument, value, missing=given.ndim > 1)


def _targets_or_none(argument: str, value: ArrayLike | None) -> np.ndarray | None:
    return None if value is None else _targets(argument, value)


@frozen(eq=False)
class Dataset:
    """Training points `x` with targets `y`, and optional test points, which are recorded and never teach.

    Args:
        x: inputs (P, D) with entries of order one; for a `CNN` (P, positions, channels) or (P, height, width,
            channels); for an `RNN` (P, T, D).
        y: targets (P,) or (P, C): any numbers for the squared loss, ±1 for the logistic loss, one-hot rows
            for cross entropy. Class labels 0, 1, 2, … are refused; write `np.eye(C)[labels]`. For an `RNN` with a
            readout at every frame (P, T) or (P, T, C), NaN at frames without a target.
        x_test: inputs of test points, or None.
        y_test: their targets, or None.

    Example:
        >>> wf.Dataset(x, np.eye(3)[labels], x_test, np.eye(3)[labels_test])
    """

    x: np.ndarray = checked(converter=partial(_floats, "x"))
    y: np.ndarray = checked(converter=partial(_targets, "y"))
    x_test: np.ndarray | None = checked(converter=partial(_floats_or_none, "x_test"), default=None)
    y_test: np.ndarray | None = checked(converter=partial(_targets_or_none, "y_test"), default=None)

    def __post_init__(self) -> None:
        convert_fields(self)
        require(
            self.x.ndim >= 2, "x", f"of shape {self.x.shape}", "shape (P, D), or (P, positions…, channels) for a CNN"
        )
        require(0 not in self.x.shape, "x", f"of shape {self.x.shape}", "at least one point and one dimension")
        most = 3 if self.x.ndim == 3 else 2
        shapes = "shape (P,) or (P, C)" + (", or (P, T, C) for an RNN" if most == 3 else "")
        require(1 <= self.y.ndim <= most, "y", f"of shape {self.y.shape}", shapes)
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
        """Columns of y: C, or frames times C with a target at every frame; `Problem.outputs` is C."""
        return self.y_columns.shape[1]

    @property
    def test_points(self) -> int:
        return 0 if self.x_test is None else len(self.x_test)

    @property
    def y_columns(self) -> np.ndarray:
        """y as (P, columns), also for one."""
        return self.y.reshape(len(self.y), -1)

    @property
    def all_x(self) -> np.ndarray:
        """Training points, then test points."""
        return self.x if self.x_test is None else np.concatenate([self.x, self.x_test])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        return all(
            a is b or (a is not None and b is not None and np.array_equal(a, b, equal_nan=True)) for a, b in pairs
        )

    def __hash__(self) -> int:
        return hash(((self.x + 0.0).tobytes(), (self.y + 0.0).tobytes()))  # −0.0 equals 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, self._arrays()  # made anew, because a pickled array forgets that it is read-only

    def _arrays(self) -> tuple[np.ndarray | None, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def __repr__(self) -> str:
        test = f", {self.test_points} test points" if self.test_points else ""
        return f"Dataset({self.points} points of shape {self.x.shape[1:]}, {self.outputs} outputs{test})"
