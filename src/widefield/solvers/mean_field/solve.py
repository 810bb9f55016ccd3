"""`method="mean_field"`: arguments, checks and the labelled result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ...engine.checkpoint import Checkpoint, identity
from ...engine.devices import Place, about_devices, announce, choose_devices
from ...engine.prepare import check_size, make_recording
from ...engine.run import Recording
from ...errors import require, require_flag, require_integer, require_number, require_one_of
from ...observables import Observable, look_up
from ...precision import double_precision
from ...problem.activations import LINEAR
from ...problem.problem import Problem
from ...progress import Progress, make_progress
from ...results.derived import derive
from ...results.result import Result, make_result
from .aim import (
    HIGHEST_TOLERANCE,
    LOWEST_TOLERANCE,
    Aim,
    default_slack,
    default_tolerance,
    first_samples,
    relative_error,
)
from .replicates import Replicates

DEFAULT_ACCURACY = 0.01
DEFAULT_SEEDS = 4
# Below, the numbers that f = ⟨wφ⟩/γ₀ is a difference of differ by less than rounding.
LOWEST_RICHNESS = {"float64": 1e-5, "float32": 1e-2}
SINGLE_ACCURACY = 2e-3  # down to this accuracy large arrays are kept in single precision


@double_precision
def solve_mean_field(
    problem: Problem,
    *,
    samples: int | None = None,
    seeds: int | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    accuracy: float | None = None,
    extrapolate: bool = False,
    precision: str | None = None,
    every: int = 1,
    record: Any = None,
    neurons: int = 1000,
    two_time: int | bool = 0,
    checkpoint: str | Path | None = None,
    devices: Any = None,
    progress: bool | Progress | None = None,
) -> Result:
    """Infinite width, by S = `samples` particles in `seeds` independent replicates; arguments as in `wf.solve`."""
    settings = _Settings(problem, samples, seeds, tolerance, accuracy, precision)
    require_integer("seed", seed, 0)
    require_flag("extrapolate", extrapolate)
    where = choose_devices(devices)
    recording = _recording(problem, record, every, neurons, two_time)
    check_size(problem, recording, settings.samples, settings.seeds, Place(where))
    trainer = None
    if checkpoint is not None:
        said = {"samples": samples, "seeds": seeds, "seed": seed, "tolerance": tolerance, "accuracy": accuracy,
                "extrapolate": extrapolate, "precision": settings.precision, "every": every, "neurons": neurons,
                "two_time": two_time, "record": [one.name for one in recording.wanted]}  # fmt: skip
        trainer = Checkpoint(checkpoint, identity(problem, said), devices=where)
    announce(where, progress)
    with make_progress(progress) as bar:
        slack = default_slack(problem) if tolerance is None else 1.0
        shared = Replicates(problem, recording, settings.precision, seed, bar.update, trainer, slack, where)
        aim = Aim(shared, settings.samples, settings.tolerance, mends=tolerance is None)
        outcome = aim.accurate(settings.accuracy) if settings.aims else aim.fixed(settings.seeds)
        info = outcome.info | {"accuracy": relative_error(outcome.arrays, not problem.wiring.feed_forward)}
        steps = recording.steps(problem.training.steps)
        arrays = derive(problem, outcome.arrays, steps)
        if extrapolate:
            half = shared.run(aim.samples // 2, range(outcome.info["seeds"]), aim.tolerance, shift=1)
            arrays = extrapolated(arrays, derive(problem, half.arrays, steps), recording.wanted)
    info |= {"extrapolated": extrapolate, "precision": settings.precision} | about_devices(where)
    notes = [*aim.notes, *filter(None, [recording.note])]
    if notes:
        info["notes"] = "; ".join(notes)
    coordinates = two_time_coordinates(problem, recording.fields_every) if recording.fields_every else {}
    return make_result(
        problem, "mean_field", arrays, steps=steps, seed=seed, info=info, coordinates=coordinates,
        observables=recording.wanted,
    )  # fmt: skip


class _Settings:
    """The numbers that a call leaves open, filled in, and those that it gives, checked."""

    def __init__(
        self, problem: Problem, samples: int | None, seeds: int | None, tolerance: float | None,
        accuracy: float | None, precision: str | None,
    ):  # fmt: skip
        if samples is not None:
            require_integer("samples", samples, 16)
        if seeds is not None:
            require_integer("seeds", seeds, 2)
        if accuracy is not None:
            require_number("accuracy", accuracy, "a number in (0, 1)", above=0, at_most=1)
            require(samples is None, "samples", samples, "None where accuracy chooses them")
            require(seeds is None, "seeds", seeds, "None where accuracy chooses them")
        self.aims = samples is None and seeds is None
        self.seeds = seeds or DEFAULT_SEEDS
        self.samples = samples or first_samples(problem)
        # About the relative standard error that so many particles and replicates have.
        implied = 1 / math.sqrt(self.samples * self.seeds)
        self.accuracy = (accuracy or DEFAULT_ACCURACY) if self.aims else implied
        self.precision = self._precision(problem, precision)
        lowest, highest = LOWEST_TOLERANCE[self.precision], HIGHEST_TOLERANCE
        if tolerance is not None:
            allowed = f"a number in [{lowest:g}, {highest:g}]"
            require_number("tolerance", tolerance, allowed, at_least=lowest, at_most=highest)
        self.tolerance = tolerance or default_tolerance(problem, self.accuracy, self.precision)
        least = LOWEST_RICHNESS[self.precision]
        remedy = "method='lazy'" if self.precision == "float64" else "precision='float64'"
        require(problem.richness >= least, "richness", problem.richness, f"{least:g} or more here; below, use {remedy}")

    def _precision(self, problem: Problem, precision: str | None) -> str:
        if precision is not None:
            require_one_of("precision", precision, LOWEST_TOLERANCE)
            return precision
        coarse = self.aims and self.accuracy >= SINGLE_ACCURACY and problem.network.activation != LINEAR
        return "float32" if coarse and problem.richness >= 10 * LOWEST_RICHNESS["float32"] else "float64"


def _recording(problem: Problem, record: Any, every: int, neurons: int, two_time: int | bool) -> Recording:
    recording = make_recording(problem, record, every, neurons)
    require_integer("two_time", int(two_time) if isinstance(two_time, bool) else two_time, 0)
    if not two_time:
        return recording
    wiring = problem.wiring
    plain = wiring.layout.positions == 1 and wiring.feed_forward and problem.data.outputs == 1
    require(plain, "two_time", two_time, "0 for a CNN, a recurrent network or several outputs")
    require(not problem.online, "two_time", two_time, "0 where evaluate is 'batch': every time has other points")
    return dataclasses.replace(recording, fields_every=int(two_time))


def two_time_coordinates(problem: Problem, every: int) -> dict[str, np.ndarray]:
    """Labels of two-time variables, every `every` steps."""
    kept = np.arange(0, problem.training.steps + 1, every)
    return {"step": kept, "step_": kept, "inner_layer": np.arange(1, problem.network.depth)}


def extrapolated(
    whole: dict[str, np.ndarray], half: dict[str, np.ndarray], observables: Iterable[Observable] = ()
) -> dict[str, np.ndarray]:
    """2·(S particles) − (S/2 particles) of every average; single particles are draws, not averages, and stay."""
    draws = {one.name for one in observables if one.draws}
    return {n: v if n in draws or look_up(n).draws else 2 * v - half[n] for n, v in whole.items()}
