"""A user's own arrays as a result: `Result.from_arrays`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError, require
from ..problem.arrays import real_array
from ..problem.problem import Problem
from .derived import complete
from .labels import NAMES, dims_of, full_dims
from .result import Result, make_result

METHOD = "your own arrays"


def label_arrays(problem: Problem, arrays: Mapping[str, ArrayLike], steps: ArrayLike | None) -> Result:
    """Check names, shapes and values, add what follows from them, and label all."""
    require(isinstance(problem, Problem), "problem", type(problem).__name__, "a widefield.Problem")
    require(isinstance(arrays, Mapping), "arrays", type(arrays).__name__, "a dictionary of arrays by variable name")
    require(len(arrays) > 0, "arrays", "empty", f"one or more of {', '.join(NAMES)}")
    kept = np.arange(problem.training.steps + 1) if steps is None else _check_steps(steps)
    sizes = _sizes(problem, len(kept))
    found = {name: _check_array(name, value, problem, sizes) for name, value in arrays.items()}
    several = {name: value.ndim > len(dims_of(name, problem)) for name, value in found.items()}
    if len(set(several.values())) > 1:
        with_axis, without = (", ".join(n for n, s in several.items() if s is wanted) for wanted in (True, False))
        raise InputError(
            f"{with_axis} has an axis over networks in front and {without} has none; allowed: all of them or none"
        )
    if not any(several.values()):
        found = {name: value[None] for name, value in found.items()}
    counts = {name: len(value) for name, value in found.items()}
    require(len(set(counts.values())) == 1, "arrays", f"of {counts} networks", "the same number in all of them")
    # Output axes, which results drop where there is one output, are there while loss and alignments are computed.
    full = {name: value.reshape(len(value), *_lengths(name, value, problem)) for name, value in found.items()}
    return make_result(
        problem, METHOD, complete(problem, full, kept), steps=kept, info={"seeds": next(iter(counts.values()))}
    )


def _lengths(name: str, value: np.ndarray, problem: Problem) -> list[int]:
    """Lengths of all dimensions of the table, those of a single output included, for `value` (runs, …)."""
    known = dict(zip(dims_of(name, problem), value.shape[1:], strict=True))
    return [known.get(dim, 1) for dim in full_dims(name, problem)]


def _sizes(problem: Problem, times: int) -> dict[str, int]:
    points, depth, wiring = problem.recorded_points, problem.network.depth, problem.wiring
    frames = len(wiring.stages) // wiring.populations
    return {
        "time": times,
        "layer": depth,
        "inner_layer": depth - 1,
        "sample": points,
        "sample_": points,
        "output": problem.outputs,
        "output_": problem.outputs,
        "frame": frames,
        "frame_": frames,
        "read": wiring.reads,
        "read_": wiring.reads,
        "test_sample": problem.data.test_points,
        "test_sample_": problem.data.test_points,
    }


def _check_steps(steps: ArrayLike) -> np.ndarray:
    allowed = "training steps in increasing order, 0 or more"
    found = real_array("steps", steps)
    good = found.ndim == 1 and found.size > 0 and bool(found[0] >= 0)
    require(good and bool(np.all(np.diff(found) > 0)), "steps", steps, allowed)
    return found


def _check_array(name: str, value: ArrayLike, problem: Problem, sizes: dict[str, int]) -> np.ndarray:
    """`value` as float64, of the dimensions of variable `name` with or without an axis over networks in front."""
    require(name in NAMES, "arrays", f"{{{name!r}: …}}", f"names from {', '.join(NAMES)}")
    if np.ma.isMaskedArray(value):
        raise InputError(f"{name} is a masked array; allowed: an array of finite numbers")
    array = np.asarray(value)
    require(array.dtype.kind in "fiub", name, f"of type {array.dtype}", "an array of real numbers")
    dims = dims_of(name, problem)
    shape = array.shape if array.ndim == len(dims) else array.shape[1:]
    fits = len(shape) == len(dims) and all(sizes.get(d, n) == n > 0 for d, n in zip(dims, shape, strict=True))
    if not fits or 0 in array.shape:
        wanted = ", ".join(f"{d} {sizes[d]}" if d in sizes else d for d in dims)
        raise InputError(
            f"{name} has shape {array.shape}; allowed: ({wanted}), or the same with an axis over networks in front"
        )
    array = array.astype(np.float64)
    require(bool(np.isfinite(array).all()), name, "not finite everywhere", "an array of finite numbers")
    return array
