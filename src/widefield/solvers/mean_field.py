"""`method="mean_field"`: the engine at N = ∞, one causal pass in time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..engine.interpretation import Interpretation, reserved_rows
from ..engine.prepare import check_size, make_recording, prepare
from ..engine.run import Outcome, Recording, Report, Run
from ..engine.state import Inputs, Spec, State
from ..engine.two_time import two_time as two_time_objects
from ..errors import NotConvergedError, require, require_flag, require_integer, require_number, require_one_of
from ..numerics.sobol import MOST_DIRECTIONS, quasi_normals
from ..observables import look_up
from ..problem.activations import LINEAR
from ..problem.problem import Problem
from ..progress import make_progress
from ..results.derived import derive
from ..results.result import Result, make_result

DEFAULT_SAMPLES = 4096
DEFAULT_SEEDS = 4
# Relative size of a direction that is dropped: TOLERANCE·min(1, γ₀)/√S stays below the sampling error, whatever S.
# Features move by O(γ₀) and f = ⟨wφ⟩/γ₀ feels that in full, hence the γ₀.
TOLERANCE = 0.2
MOST_RELATIVE = 0.01  # what a dropped direction may cost of f
# Smaller ones are noise: the square root of the rounding error, with a margin (design §3.4).
LOWEST_TOLERANCE = {"float64": 1e-7, "float32": 2e-3}
MOST_SAMPLES = 2**18


def solve_mean_field(
    problem: Problem,
    *,
    samples: int | None = None,
    seeds: int | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    accuracy: float | None = None,
    extrapolate: bool = False,
    precision: str = "float64",
    every: int = 1,
    record: Sequence[str] | None = None,
    neurons: int = 1000,
    two_time: int | bool = 0,
    progress: bool | None = None,
) -> Result:
    """Infinite width with S = `samples` particles in `seeds` independent replicates.

    Args:
        accuracy: choose samples and replicates so that the relative standard error of f and
            of the eNTK is below this.
        extrapolate: remove the O(1/S) bias with a second run at half the samples.
        precision: "float64" or "float32".
        tolerance: relative size below which a new direction is dropped.
        every: record every k-th step.
        record: kernels and single-neuron trajectories to record, from entk, phi, g, g_tilde, g_tilde_tilde,
            phi_positions, g_tilde_positions, h_particles, z_particles, g_tilde_particles; default all kernels
            (with several outputs phi).
        neurons: how many particles `h_final` and the trajectories keep.
        two_time: two-time kernels at every so many steps, 0 for none; 1 gives the responses as well.
    """
    require_one_of("precision", precision, LOWEST_TOLERANCE)
    require_flag("extrapolate", extrapolate)
    if samples is not None:
        require_integer("samples", samples, 16)
    if seeds is not None:
        require_integer("seeds", seeds, 2)
    require_integer("seed", seed, 0)
    lowest = LOWEST_TOLERANCE[precision]
    if tolerance is not None:
        require_number("tolerance", tolerance, f"a number in [{lowest:g}, 0.5]", at_least=lowest, at_most=0.5)
    least = lowest / MOST_RELATIVE
    remedy = "method='lazy'" if precision == "float64" else "precision='float64'"
    require(problem.richness >= least, "richness", problem.richness, f"{least:g} or more here; below, use {remedy}")
    if accuracy is not None:
        require_number("accuracy", accuracy, "a number in (0, 1)", above=0, at_most=1)
        require(samples is None, "samples", samples, "None where accuracy chooses them")
    recording = make_recording(problem, record, every, neurons)
    two_time = int(two_time) if isinstance(two_time, bool) else two_time
    require_integer("two_time", two_time, 0)
    if two_time:
        wiring = problem.wiring
        plain = wiring.layout.positions == 1 and wiring.feed_forward and problem.data.outputs == 1
        require(plain, "two_time", two_time, "0 for a CNN, a recurrent network or several outputs")
        recording = dataclasses.replace(recording, fields_every=two_time)
    check_size(problem, recording, samples or DEFAULT_SAMPLES, seeds or DEFAULT_SEEDS)
    spec, inputs = prepare(problem, recording, precision)
    kind = Interpretation("mean_field", samples or DEFAULT_SAMPLES, dtype=precision)
    replicates = seeds or DEFAULT_SEEDS
    with make_progress(progress) as bar:

        def once(width: int, count: int, shift: int = 0) -> Outcome:
            allowed = tolerance or default_tolerance(problem, width, precision)
            numbers = inputs._replace(tolerance=jnp.asarray(allowed, precision))
            sized = dataclasses.replace(kind, width=width)
            return _run(problem, spec, numbers, sized, recording, count, seed, shift, bar.update)

        if accuracy is not None:
            outcome, arrays = _until_accurate(problem, accuracy, replicates, once)
        else:
            outcome = once(kind.width, replicates)
            arrays = derive(problem, outcome.arrays)
        if extrapolate:
            half = derive(problem, once(outcome.info["samples"] // 2, outcome.info["seeds"], shift=1).arrays)
            arrays = extrapolated(arrays, half)
    info = outcome.info | {"extrapolated": extrapolate, "precision": precision}
    steps = recording.steps(problem.training.steps)
    coordinates = two_time_coordinates(problem, two_time) if two_time else {}
    return make_result(
        problem, "mean_field", arrays, steps=steps, seed=seed, info=info, coordinates=coordinates,
        observables=recording.wanted,
    )  # fmt: skip


def two_time_coordinates(problem: Problem, every: int) -> dict[str, np.ndarray]:
    """Labels of two-time variables at every `every`-th step."""
    kept = np.arange(0, problem.training.steps + 1, every)
    return {"step": kept, "step_": kept, "inner_layer": np.arange(1, problem.network.depth)}


def default_tolerance(problem: Problem, samples: int, precision: str) -> float:
    """Below the sampling error, above rounding; linear networks have no sampling error."""
    lowest = LOWEST_TOLERANCE[precision]
    if problem.network.activation == LINEAR:
        return lowest
    return max(TOLERANCE * min(1.0, problem.richness) / math.sqrt(samples), lowest)


def extrapolated(whole: dict[str, np.ndarray], half: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """2·(S particles) − (S/2 particles) of every average; single particles are draws, not averages, and stay."""
    return {name: value if look_up(name).draws else 2 * value - half[name] for name, value in whole.items()}


def _run(
    problem: Problem, spec: Spec, inputs: Inputs, kind: Interpretation, recording: Recording, seeds: int, seed: int,
    shift: int, report: Report,
) -> Outcome:  # fmt: skip
    """`seeds` replicates."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), shift), seeds)
    most = max(reserved_rows(spec, layer) for layer in range(spec.populations))
    directions = min(inputs.x.shape[-1] + 4 * inputs.x.shape[1] + most, MOST_DIRECTIONS)
    quasi = quasi_normals(
        2 * seed + shift, seeds, spec.populations, directions, kind.width, kind.dtype, joint=spec.wiring.crosses
    )

    def finish(state: State, records: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        fields = records.pop("fields", None)
        if fields is None:
            return records
        return records | two_time_objects(problem.layer_rules, state, fields, recording.fields_every == 1)

    run = Run(spec, inputs, kind, recording, problem.training.steps, keys, quasi, report, finish)
    outcome = run.to_the_end()
    info = dict(outcome.info)
    info["samples"] = info.pop("width")
    return Outcome(outcome.arrays, info)


def _until_accurate(problem: Problem, accuracy: float, seeds: int, once) -> tuple[Outcome, dict[str, np.ndarray]]:
    """Raise the samples until the relative standard error is below `accuracy`."""
    samples = 1024
    while True:
        outcome = once(samples, seeds)
        arrays = derive(problem, outcome.arrays)
        error = relative_error(arrays)
        if error <= accuracy:
            return outcome, arrays
        # The error falls as S^(−1/2) at worst.
        wanted = samples * min(max((error / accuracy) ** 2, 2.0), 16.0)
        samples = 2 ** math.ceil(math.log2(wanted))
        if samples > MOST_SAMPLES:
            raise NotConvergedError(
                f"the relative error is {error:.2g} with {outcome.info['samples']} samples, above {accuracy:g}; "
                f"raise seeds (now {seeds}) or accuracy"
            )


def relative_error(arrays: dict[str, np.ndarray]) -> float:
    """Largest root-mean-square standard error of f and of the eNTK over time, relative to their size."""
    errors = []
    for name in ("f", "entk"):
        if name in arrays:
            value = arrays[name]
            spread = value.std(0, ddof=1) / np.sqrt(len(value))
            size = np.sqrt(np.mean(value.mean(0) ** 2))
            errors.append(float(np.sqrt(np.mean(spread**2)) / size) if size > 0 else 0.0)
    return max(errors)
