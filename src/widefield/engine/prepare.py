"""From a problem to what the engine runs on."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, require, require_integer
from ..numerics.memory import check_memory
from ..observables import ALIGNMENTS, DEFAULT_KERNELS, OBSERVABLES, as_observables
from ..problem.networks import Network
from ..problem.problem import Problem
from ..rules.numbers import split_numbers
from ..rules.promises import share_one_sweep
from .devices import ANYWHERE, Place
from .run import Recording
from .state import Inputs, Spec

MANY_POINTS = 200  # of which a record is dear
LARGEST_RECORD = 2**29  # bytes per replicate that are recorded unasked
# f = w·φ/(γ₀N) less its value at the start: rounding, and what is dropped below the least tolerance of conditioned
# networks, 1e-7, are divided by γ₀.
LEAST_DENSE = 1e-9
LEAST_CONDITIONED = 1e-5


def make_recording(problem: Problem, record: Any, every: int, neurons: int) -> Recording:
    """Check what is to be recorded; None is all kernels (with several outputs, or outputs at several frames, Φ)."""
    require_integer("every", every, 1)
    require_integer("neurons", neurons, 1)
    note = ""
    if record is None:
        record, note = _default_record(problem, every)
    training, points = problem.training, problem.data.points
    if training.batch_size and not problem.online and points >= MANY_POINTS and points >= 5 * training.batch_size:
        passes = (
            f"recorded steps pass all {points} points; with Training(evaluate='batch') none passes more than its batch"
        )
        note = "; ".join(filter(None, [note, passes]))
    wanted = as_observables(record)
    if OBSERVABLES["phi_test"] in wanted:
        require(problem.data.test_points > 0, "record", "phi_test", "other observables where there is no x_test")
    if not problem.wiring.feed_forward:
        for name in ("phi_positions", "g_tilde_positions", *ALIGNMENTS):  # the last follow from kernels there
            require(OBSERVABLES[name] not in wanted, "record", name, "other observables for this network")
    for one in wanted if problem.wiring.feed_forward else ():
        require(not one.weights, "record", one.name, "other observables for a feed-forward network")
    return Recording(tuple(sorted(wanted, key=lambda one: one.name)), every, neurons, note=note)


def _default_record(problem: Problem, every: int) -> tuple[tuple[str, ...], str]:
    """All kernels of one output, Φ of several; where they are too large, what is most looked at of them."""
    wiring = problem.wiring
    one = problem.outputs * wiring.reads == 1
    kernels = 1 + 4 * problem.network.depth if one else problem.network.depth * len(wiring.stages) ** 2
    size = 8 * kernels * problem.recorded_points**2 * (problem.training.steps // every + 1)
    if size <= LARGEST_RECORD:
        return DEFAULT_KERNELS if one else ("phi",), ""
    note = (
        f"kernels of {problem.recorded_points} points at {problem.training.steps // every + 1} times would take "
        f"{size / 2**30:.1f} GiB per replicate; recorded alignments only (record= and every= ask for more)"
    )
    if not wiring.feed_forward:
        return (), note
    return ALIGNMENTS if one else ("phi_alignment",), note


def check_size(problem: Problem, recording: Recording, width: int, seeds: int, place: Place = ANYWHERE) -> None:
    """Refuse what cannot fit into memory, before anything of its size is made; a bound from below.

    One network has its fields, which devices may share; all of them together have their outputs at every recorded time.
    """
    data, layout = problem.data, problem.wiring.layout
    points, steps = problem.recorded_points + data.test_points, problem.training.steps
    fields = 3 * width * points * layout.positions * problem.network.depth // max(1, len(place.devices))
    times = -(-steps // recording.every) + 1
    order = steps * problem.recorded_points if problem.training.batch_size else 0
    records = seeds * times * points * data.outputs + order
    what = f"a run of width {width}, {seeds} seeds and {steps} steps{place}"
    remedy = "lower width, samples, seeds or steps, or record less often (every=)"
    check_memory(8 * (fields + records), what, remedy, place.free_bytes())


def prepare(
    problem: Problem, recording: Recording, dtype: str, tolerance: float = 0.0, slack: float = 1.0
) -> tuple[Spec, Inputs]:
    """The compiled part of a problem, and its numbers."""
    training, data = problem.training, problem.data
    gradients = any(one.gradients for one in recording.wanted)
    form, numbers = split_numbers(problem.layer_rules)
    true = all(rule.is_gradient for rule in problem.layer_rules)
    spec = Spec(
        wiring=problem.wiring,
        activation=problem.network.activation,
        form=form,
        loss=training.loss,
        points=problem.recorded_points,
        outputs=problem.outputs,
        integrator=training.integrator,
        momentum=training.momentum > 0,
        track_gradient=gradients and not true,
        initial=problem.online or any(one.weights for one in recording.wanted),
        decays=training.weight_decay > 0,
        online=problem.online,
        returns=not problem.online or training.steps * training.batch_size > data.points,
        per_output=problem.outputs * problem.wiring.reads == 1 or gradients or not share_one_sweep(problem.layer_rules),
    )
    check_feedback(problem)

    targets = problem.targets
    missing = np.any(np.isnan(targets), axis=-1)

    def array(value: Any) -> Any:
        return jax.device_put(np.asarray(value, dtype))  # a conversion by JAX would be compiled

    coordinates, directions = input_coordinates(problem.network, data.all_x)
    parts = [part.input or (0.0,) * data.x.shape[-1] for part in problem.wiring.structure]
    inputs = Inputs(
        x=array(coordinates),
        y=array(np.where(missing[..., None], targets[~missing][0], targets)),
        richness=array(problem.richness),
        dt=array(training.dt),
        weight_decay=array(training.weight_decay),
        momentum=array(training.momentum),
        batches=jnp.asarray(training.order(data.points), jnp.int32) if training.batch_size else None,
        tolerance=array(tolerance),
        tolerance_back=array(slack * tolerance),
        rule=tuple(array(number) for number in numbers),
        along=array(np.array(parts) @ directions) if parts else None,
        taught=array(~missing) if missing.any() else None,
    )
    return spec, inputs


def check_feedback(problem: Problem) -> None:
    """Refuse feedback that follows the weights faster than the step allows."""
    for rule in problem.layer_rules:
        share = problem.training.dt * rule.feedback.follow
        require(share <= 1, "rate", rule.feedback.follow, f"at most 1/dt = {1 / problem.training.dt:g}")


def input_coordinates(network: Network, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows x̂ (blocks, P·positions, r) with x̂x̂ᵀ = Φ⁰ of all input patches, directions of most variance first; and
    these directions (offsets·D, r).

    W⁰ acts only on the span of the data, so r ≤ min(rows, offsets·D) Gaussian columns have its exact law.
    """
    layout, blocks = network.wiring(x.shape).layout, network.blocks(x)
    patches = np.stack([np.asarray(layout.unfold(block)) for block in blocks])
    rows = patches.reshape(-1, patches.shape[-1]) / math.sqrt(blocks.shape[-1])
    u, s, v = np.linalg.svd(rows, full_matrices=False)
    rank = max(1, int(np.sum(s > s[0] * 1e-13))) if s[0] > 0 else 1
    return (u[:, :rank] * s[:rank]).reshape(len(blocks), -1, rank), v[:rank].T


def require_richness(problem: Problem, engine: str) -> None:
    """Refuse networks whose outputs would be rounding noise."""
    least = LEAST_CONDITIONED if engine == "conditioned" else LEAST_DENSE
    remedy = "wf.solve(…, method='lazy')" if least == LEAST_DENSE else "engine='dense'"
    require(problem.richness >= least, "richness", problem.richness, f"{least:g} or more here; below, use {remedy}")


def require_dense(problem: Problem, engine: str) -> None:
    """Refuse networks without entries where a rule's feedback is a function of single entries."""
    for rule in problem.layer_rules:
        if rule.feedback.entrywise is not None and engine == "conditioned":
            raise InputError(
                f"engine is 'conditioned', which has no single weights, and rule {rule!r} sends signals through a "
                "function of them; allowed: 'dense' or 'auto'"
            )
