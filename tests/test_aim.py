"""What `wf.solve` chooses by itself: particles, replicates, tolerance, precision and what is recorded."""

from __future__ import annotations

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import widefield as wf
from widefield.engine import prepare
from widefield.engine.interpretation import Room
from widefield.engine.run import Outcome
from widefield.errors import AccuracyWarning
from widefield.observables import ALIGNMENTS, DEFAULT_KERNELS
from widefield.solvers.mean_field import solve as mean_field
from widefield.solvers.mean_field.aim import Aim, default_slack, default_tolerance, relative_error


def problem(points: int = 3, steps: int = 5, depth: int = 2, **changes) -> wf.Problem:
    arguments = {"data": wf.datasets.sphere(points, 4, seed=1), "network": wf.MLP(depth, "tanh"), "rule": "gd",
                 "richness": 1.0, "training": wf.Training(steps, 0.2)}  # fmt: skip
    return wf.Problem(**(arguments | changes))


def test_the_default_reaches_one_percent_in_single_precision():
    result = wf.solve(problem(), progress=False)
    assert 0 < result.info["accuracy"] <= 0.01
    assert result.info["precision"] == "float32"
    runs = {name: result.replicates[name].values for name in ("f", "phi", "entk", "g")}
    assert result.info["accuracy"] == pytest.approx(relative_error(runs), rel=1e-3)
    assert result["f"].dtype == np.float64
    # The same question in double precision, with errors of 1 % of both: 6 standard errors of some 100 numbers.
    careful = wf.solve(problem(), samples=4096, seeds=4, seed=5, progress=False)
    gap = np.abs(result["f"].values - careful["f"].values)[1:]
    error = np.hypot(result["f_se"].values, careful["f_se"].values)[1:]
    assert careful.info["precision"] == "float64"
    assert np.all(gap < 10 * error + 1e-3)


def test_a_replicate_does_not_depend_on_how_many_there_are():
    options = {"samples": 64, "tolerance": 0.05, "progress": False}
    few, many = (wf.solve(problem(), seeds=seeds, **options).replicates for seeds in (2, 4))
    for name in ("f", "entk", "h_final"):
        np.testing.assert_array_equal(few[name].values, many[name].values[:2])
    assert not np.allclose(many["f"].values[0], many["f"].values[2])


def test_a_higher_accuracy_takes_more():
    coarse, fine = (wf.solve(problem(steps=3), accuracy=a, progress=False).info for a in (0.05, 0.003))
    assert coarse["accuracy"] <= 0.05
    assert fine["accuracy"] <= 0.003
    assert coarse["samples"] * coarse["seeds"] < fine["samples"] * fine["seeds"]


def test_as_many_replicates_as_the_error_asks_for_at_once():
    """Errors fall as 1/√(replicates): from 8, an error of 1.3 times the accuracy asks for 1.05·8·1.3² = 15 in all."""
    asked = []

    def run(samples, seeds, tolerance, room=None) -> Outcome:
        asked.append((samples, list(seeds)))
        # Replicates in turn above and below 1, by as much as makes the standard error of all n of them c/√n.
        ups_and_downs = np.array([1.0 + 0.0368 * (-1) ** k for k in seeds])
        return Outcome({"f": ups_and_downs[:, None]}, {"seeds": len(asked[-1][1])}, Room())

    aim = Aim(SimpleNamespace(run=run, problem=problem(), directions=lambda tolerance: 0), 128, 0.02, True)  # type: ignore[arg-type]
    first = relative_error(run(128, range(8), 0.02).arrays)
    assert 1.25 < first / 0.0107 < 1.35
    asked.clear()
    assert aim.accurate(0.0107).info["seeds"] == 15
    assert asked == [(128, list(range(8))), (128, list(range(8, 15)))]


@pytest.mark.parametrize("slow", [False, True])
def test_starting_again_is_said_at_once_where_it_takes_long(monkeypatch, slow):
    """Scatter only at the second of three times, and less of it with more particles."""
    clock = itertools.count(step=100.0 if slow else 0.01)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))

    def run(samples, seeds, tolerance, room=None) -> Outcome:
        f = np.ones((len(seeds), 3, 2))
        f[:, 1] += (0.2 if samples == 128 else 0.001) * np.array([(-1) ** k for k in seeds])[:, None]
        return Outcome({"f": f}, {"seeds": len(seeds)}, Room())

    aim = Aim(SimpleNamespace(run=run, problem=problem(), directions=lambda tolerance: 0), 128, 0.02, True)  # type: ignore[arg-type]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        aim.accurate(0.01)
    assert aim.samples > 128
    assert "largest at time 2 of 3; starts again with" in aim.notes[0]
    assert [str(one.message) for one in said] == (aim.notes[:1] if slow else [])


def test_fixed_particles_go_on_with_a_larger_tolerance_and_say_so():
    with pytest.warns(AccuracyWarning, match=r"directions are too many for 32 particles.*samples="):
        result = wf.solve(problem(points=6, steps=20), samples=32, seeds=2, progress=False)
    assert "too many for 32 particles" in result.info["notes"]
    assert result.info["tolerance"] > default_tolerance(problem(), 1 / np.sqrt(64), "float64")


def test_open_particles_become_more(monkeypatch):
    monkeypatch.setattr(mean_field, "first_samples", lambda problem: 16)
    monkeypatch.setattr(mean_field.Replicates, "directions", lambda self, tolerance: 0)
    result = wf.solve(problem(points=6, steps=10), accuracy=0.2, progress=False)
    assert result.info["samples"] > 16
    assert "particles" in result.info["notes"]
    assert result.info["directions"] <= result.info["samples"] // 2


def test_backward_questions_have_a_larger_tolerance_by_default():
    recurrent = problem(data=wf.Dataset(np.ones((2, 3, 4)), np.ones(2)), network=wf.RNN())
    assert [default_slack(problem(points=points)) for points in (3, 100, 101)] == [1.5, 1.5, 2.0]
    assert [default_slack(problem(points=points, network=wf.MLP(2, "relu"))) for points in (100, 101)] == [1.5, 2.8]
    assert default_slack(problem(network=wf.MLP(2, "linear"))) == default_slack(recurrent) == 1.0
    options = {"samples": 512, "seeds": 2, "precision": "float32", "progress": False}
    chosen, given = wf.solve(problem(), **options), wf.solve(problem(), tolerance=0.05, **options)
    assert chosen.info["tolerance_back"] == pytest.approx(1.5 * chosen.info["tolerance"])
    assert given.info["tolerance_back"] == given.info["tolerance"] == pytest.approx(0.05)


def test_tolerance_follows_from_the_accuracy():
    assert default_tolerance(problem(), 0.01, "float64") == pytest.approx(0.02)
    assert default_tolerance(problem(points=25), 0.01, "float64") == pytest.approx(0.04)
    assert default_tolerance(problem(points=100), 0.01, "float64") == pytest.approx(0.1)
    assert default_tolerance(problem(points=300), 0.01, "float64") == pytest.approx(0.1)
    assert default_tolerance(problem(network=wf.MLP(2, "linear")), 0.01, "float64") == 1e-7


def test_large_kernels_are_not_recorded_unasked(monkeypatch):
    whole = wf.simulate(problem(), 30, 2, engine="dense", progress=False)
    monkeypatch.setattr(prepare, "LARGEST_RECORD", 100)
    small = wf.simulate(problem(), 30, 2, engine="dense", progress=False)
    assert not set(DEFAULT_KERNELS) & set(small.dataset.data_vars)
    assert "record=" in small.info["notes"]
    # What is recorded by itself is what would have followed from the kernels.
    for name in ALIGNMENTS:
        np.testing.assert_allclose(small.replicates[name].values, whole.replicates[name].values, atol=1e-12)


@pytest.mark.parametrize("rule", ["gd", "fa", "hebb"])
def test_alignments_by_themselves_follow_the_kernels_of_several_outputs(rule):
    data = wf.datasets.sphere(4, 5, seed=2, outputs=3)
    asked = problem(data=data, rule=rule)
    parts = wf.simulate(asked, 20, 2, engine="dense", record=ALIGNMENTS, progress=False)
    whole = wf.simulate(asked, 20, 2, engine="dense", record=DEFAULT_KERNELS, progress=False)
    for name in ALIGNMENTS:
        np.testing.assert_allclose(parts[name].values, whole[name].values, atol=1e-12)
