"""Whether a run has exploded."""

from __future__ import annotations

import numpy as np

from ..errors import DivergenceError
from ..problem.training import Training
from .result import Result

# A loss that ends so many times above its start, at its largest, has exploded: rules that learn badly stay far below.
FAR = 1e3


def check_growth(result: Result, training: Training) -> None:
    """Raise a `DivergenceError` where a number is not finite, or the loss ends far above its start and growing."""
    runs = result.replicates
    steps = np.rint(runs["time"].values / training.dt).astype(int)
    for name, array in runs.data_vars.items():
        finite = np.isfinite(array.values)
        if not finite.all():
            others = tuple(axis for axis, dim in enumerate(array.dims) if dim != "time")
            step = int(steps[np.argmin(finite.all(axis=others))]) if "time" in array.dims else int(steps[-1])
            remedy = "lower dt, or lower richness" if step > 0 else "scale x or y down"
            raise DivergenceError(f"the run diverged at step {step}, where {name} is not finite; {remedy}")
    check_loss(runs["loss"].transpose("seed", "time").values, steps)


def check_loss(loss: np.ndarray, steps: np.ndarray) -> None:
    """Raise a `DivergenceError` where the loss of a run (runs, times) ends far above its start and growing."""
    start, last = np.abs(loss[:, 0]), loss[:, -1]
    exploded = np.flatnonzero((start > 0) & (last > FAR * start) & (last >= loss.max(axis=1)))
    if len(exploded):
        path = loss[exploded[0]]
        step = int(steps[np.argmax(path > FAR * abs(path[0]))])
        raise DivergenceError(
            f"the run diverged at step {step}: the loss went from {path[0]:.3g} to {path[-1]:.3g} and was still "
            "growing; lower dt, or lower richness"
        )
