"""Finite-width networks: `wf.simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax

from .engine.checkpoint import Checkpoint, identity
from .engine.devices import Device, Place, about_devices, announce, choose_devices
from .engine.interpretation import Interpretation
from .engine.prepare import LEAST_CONDITIONED, check_size, make_recording, prepare, require_dense, require_richness
from .engine.run import Run
from .engine.state import Spec
from .errors import require, require_integer, require_number, require_one_of
from .guard import guarded
from .precision import double_precision
from .problem.activations import LINEAR
from .problem.problem import Problem
from .progress import Progress, make_progress
from .results.derived import derive
from .results.result import Result, make_result

ENGINES = ("auto", "dense", "conditioned")
# What is left out of a question is its Gaussian part only: variances are those of a dense network to a millionth.
CONDITIONED_TOLERANCE = 1e-3
LOWEST_TOLERANCE = 1e-7
CROSSING = 6.5  # measured: width 820 for 5 points and 40 steps, where the rank is 120 to 125
SETTLED = 25


@double_precision
@guarded
def simulate(
    problem: Problem,
    width: int,
    seeds: int = 4,
    *,
    engine: str = "auto",
    seed: int = 0,
    every: int = 1,
    record: Sequence[str] | None = None,
    neurons: int = 1000,
    tolerance: float | None = None,
    checkpoint: str | Path | None = None,
    devices: Sequence[Device] | None = None,
    progress: bool | Progress | None = None,
) -> Result:
    """Train `seeds` networks of `width` neurons per hidden layer; mean and standard error over them.

    Args:
        problem: data, network, learning rule, richness and training.
        width: N, neurons per hidden layer.
        seeds: how many networks; two or more give standard errors.
        engine: "dense" holds N×N arrays; "conditioned" has the same law in O(N·rank) memory; "auto" takes the cheaper.
        seed: the same seed gives the same numbers.
        every: record every k-th step.
        record: kernels to record, from entk, phi, g, g_tilde, g_tilde_tilde; default all (with several outputs phi).
            On request: phi_test of the test points, phi_positions and g_tilde_positions of a CNN, h_particles,
            z_particles, g_tilde_particles.
        neurons: how many neurons' last preactivations `h_final` keeps.
        tolerance: relative size below which a new direction is dropped by "conditioned".
        checkpoint: a folder to which networks are written every five minutes and when they are done; the same call goes
            on from there, with the numbers of a run that was never stopped.
        devices: JAX devices to use; default all, those of other processes included where `jax.distributed` joins them.
            Networks are trained on one device each, or share all of them where they are few and large.
        progress: True for a bar, False for silence, or an object with update(done, total, message). Default: a
            bar on a terminal and in Jupyter, else lines in the log `widefield` (level INFO).
    """
    require(isinstance(problem, Problem), "problem", type(problem).__name__, "a widefield.Problem")
    require_integer("width", width, 2)
    require_integer("seeds", seeds, 1)
    require_integer("seed", seed, 0)
    require_one_of("engine", engine, ENGINES)
    if tolerance is None:
        tolerance = CONDITIONED_TOLERANCE if problem.network.activation != LINEAR else LOWEST_TOLERANCE
    require_number("tolerance", tolerance, "a number in [1e-7, 0.1]", at_least=LOWEST_TOLERANCE, at_most=0.1)
    recording = make_recording(problem, record, every, neurons)
    where = choose_devices(devices)
    require_dense(problem, engine)
    require_richness(problem, engine)
    check_size(problem, recording, width, seeds, Place(where))
    spec, inputs = prepare(problem, recording, "float64", tolerance)
    if engine == "auto":
        lazy = problem.richness < LEAST_CONDITIONED
        engine = "dense" if lazy else cheaper_engine(spec, width, problem.training.steps)
    keys = jax.random.split(jax.random.key(seed), seeds)
    announce(where, progress)
    with make_progress(progress) as bar:
        kind = Interpretation(engine, width)
        said = {"width": width, "seeds": seeds, "seed": seed, "engine": engine, "tolerance": tolerance,
                "every": every, "neurons": neurons, "record": [one.name for one in recording.wanted]}  # fmt: skip
        trainer = None if checkpoint is None else Checkpoint(checkpoint, identity(problem, said), devices=where)
        steps = problem.training.steps
        run = Run(spec, inputs, kind, recording, steps, keys, report=bar.update, trainer=trainer, devices=where)
        outcome = run.to_the_end()
    times = recording.steps(problem.training.steps)
    arrays = derive(problem, outcome.arrays, times)
    info = outcome.info | about_devices(where) | ({"notes": recording.note} if recording.note else {})
    return make_result(
        problem,
        f"simulate/{engine}",
        arrays,
        steps=times,
        seed=seed,
        info=info,
        observables=recording.wanted,
    )


def cheaper_engine(spec: Spec, width: int, steps: int) -> str:
    """The faster of dense and conditioned, by the crossing that benchmarks/width.py measures.

    A question costs N² in the one and N·rank in the other, so they cross at a width proportional to the rank. Every
    step asks one row per point, position and output, and most rows are new for the first `SETTLED` steps only.
    """
    if spec.wiring.matrices == 0 or any(shape.entrywise for shape in spec.form.shapes):
        return "dense"  # nothing to condition, or single weights are needed
    times = max(len(spec.wiring.asks(matrix)) for matrix in range(spec.wiring.matrices))
    rows = times * spec.points * spec.wiring.layout.positions * spec.sweeps
    return "dense" if width <= CROSSING * rows * min(steps, SETTLED) else "conditioned"
