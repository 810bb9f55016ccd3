"""Buffers are made for what a run comes to need: the pilot that guesses it, against the engine itself."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widefield as wf
from widefield.engine.pilot import Pilot, pilot
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.run import Run
from widefield.precision import double_precision
from widefield.solvers.mean_field.aim import default_slack, default_tolerance
from widefield.solvers.mean_field.replicates import Replicates


def problem(data: wf.Dataset, depth: int = 2, activation="tanh", rule="gd", steps: int = 30) -> wf.Problem:
    return wf.Problem(data, wf.MLP(depth, activation), rule, 1.0, wf.Training(steps, 0.5 / len(data.x)))


def guessed(one: wf.Problem, tolerance: float = 0.1) -> Pilot | None:
    spec, inputs = prepare(one, make_recording(one, (), 1, 1), "float64", tolerance)
    return pilot(spec, inputs, len(one.data.x))


def replicate(one: wf.Problem) -> Run:
    tolerance = default_tolerance(one, 0.01, "float32")
    recording = make_recording(one, (), 1, 1)
    shared = Replicates(one, recording, "float32", 0, lambda *_: None, slack=default_slack(one))
    return shared.prepared(1024, range(1), tolerance)


CASES = {
    "more points than dimensions": problem(wf.datasets.sphere(30, 3)),
    "digits": problem(wf.datasets.digits((3, 8), 60)),
    "depth 3": problem(wf.datasets.sphere(40, 6), depth=3),
    "relu": problem(wf.datasets.sphere(25, 4), activation="relu"),
}


@pytest.mark.parametrize("name", CASES)
@double_precision
def test_directions_are_those_of_the_first_step(name):
    """Measured: 0.98 to 1.33 times as many. The ladder of the pilot rounds up by a third at most; the bounds leave
    about as much again for the draw of its fields, more where few directions are counted."""
    run = replicate(CASES[name])
    made = pilot(run.spec, run.inputs, len(run.inputs.y))
    assert made is not None
    first = run.advance(dataclasses.replace(run.start(0), chunk=1)).used
    for (ahead, back), (asked, taught) in zip(made.directions, first.matrices, strict=True):
        assert 0.7 * int(asked) <= ahead <= 1.5 * int(asked)
        assert 0.6 * int(taught) <= back <= 1.7 * int(taught) + 1


@pytest.mark.parametrize(
    ("points", "depth", "rule"), [(10, 3, "gd"), (10, 2, wf.rules.FA(rho=0.5)), (20, 2, "gd")], ids=str
)
@double_precision
def test_the_first_buffers_last_and_are_used(points, depth, rule):
    """Else the run is compiled again on the way, or multiplies with zeros."""
    run = replicate(problem(wf.datasets.sphere(points, 20), depth, rule=rule, steps=100))
    *_, last = run.legs(0)
    assert last.kind.room == run.start(0).kind.room
    rooms, used = (np.ravel(np.array(part.matrices)) for part in (last.kind.room, last.used))
    assert np.sum(used) >= 0.6 * np.sum(rooms)


def test_points_that_share_directions_count_once():
    data = wf.datasets.sphere(12, 3)
    twice = wf.Dataset(np.concatenate([data.x, 2 * data.x[::-1]]), np.concatenate([data.y, data.y]))
    linear = problem(twice, activation="linear")
    made = guessed(linear, tolerance=1e-6)
    assert made == Pilot(((3, made.directions[0][1]),), False)  # type: ignore[union-attr]
    spread = guessed(problem(wf.datasets.sphere(24, 30)))
    assert spread.directions[0][0] == 24  # type: ignore[union-attr]


@settings(deadline=None, max_examples=20)
@given(tolerances=st.tuples(st.floats(0.02, 0.4), st.floats(0.02, 0.4)), seed=st.integers(0, 5))
def test_a_smaller_tolerance_never_has_fewer_directions(tolerances, seed):
    one = problem(wf.datasets.sphere(15, 4, seed=seed))
    fine, coarse = (guessed(one, tolerance) for tolerance in sorted(tolerances))
    for more, less in zip(np.ravel(fine.directions), np.ravel(coarse.directions), strict=True):  # type: ignore[union-attr]
        assert more >= less


def test_only_activations_whose_derivative_jumps_do():
    made = {name: guessed(problem(wf.datasets.sphere(5, 5), activation=name)) for name in ("relu", "gelu", "erf")}
    assert {name: one.jumps for name, one in made.items() if one} == {"relu": True, "gelu": False, "erf": False}
    assert guessed(problem(wf.datasets.sphere(5, 5), activation=lambda h: jnp.abs(h))).jumps  # type: ignore[union-attr]
    assert not guessed(problem(wf.datasets.sphere(5, 5), activation=jnp.sin)).jumps  # type: ignore[union-attr]


def test_numbers_of_the_training_change_nothing():
    one = problem(wf.datasets.sphere(20, 4), rule=wf.rules.FA(rho=0.2))
    other = dataclasses.replace(one, rule=wf.rules.FA(rho=0.9), richness=0.3, training=wf.Training(50, 0.01))
    assert guessed(one) == guessed(other)


def test_several_positions_and_frames_have_no_pilot():
    images = wf.Dataset(np.ones((3, 4, 2)), np.ones(3))
    assert guessed(wf.Problem(images, wf.CNN(2, 3), "gd", 1.0, wf.Training(2, 0.1))) is None
    assert guessed(wf.Problem(images, wf.RNN(), "gd", 1.0, wf.Training(2, 0.1))) is None


def test_without_hidden_matrices_there_is_nothing_to_guess():
    assert guessed(problem(wf.datasets.sphere(4, 5), depth=1)) == Pilot((), False)
