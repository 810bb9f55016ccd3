"""How networks of a run are spread over threads and calls, which changes nothing but the time that they take."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import widefield as wf
from widefield.engine import crew
from widefield.engine.prepare import make_recording
from widefield.engine.run import Run
from widefield.precision import double_precision
from widefield.solvers.mean_field.replicates import Replicates


def problem(points: int = 4, steps: int = 6) -> wf.Problem:
    return wf.Problem(
        wf.datasets.sphere(points, points), wf.MLP(2, "tanh"), "gd", 1.0, wf.Training(steps, 0.2 / points)
    )


def replicates(one: wf.Problem, count: int = 3, samples: int = 128) -> Run:
    recording = make_recording(one, ("phi",), 1, 1)
    return Replicates(one, recording, "float32", 0, lambda *_: None).prepared(samples, range(count), 0.1)


@double_precision
def test_short_networks_start_together_and_long_ones_after_the_first(monkeypatch):
    """With the same numbers: what a replicate is does not depend on who goes first."""
    run, order = replicates(problem()), []
    train = crew.Crew._train

    def watched(self, run, numbers, room):
        order.append((numbers, room is None))
        return train(self, run, numbers, room)

    monkeypatch.setattr(crew.Crew, "_train", watched)
    assert run.short
    together = run.to_the_end()
    assert sorted(order) == [([0], False), ([1], False), ([2], False)]
    order.clear()
    monkeypatch.setattr("widefield.engine.run.SHORT", 0.0)
    assert not run.short
    one_first = run.to_the_end()
    assert order[0] == ([0], True)
    assert sorted(order[1:]) == [([1], False), ([2], False)]
    for name, values in together.arrays.items():
        np.testing.assert_array_equal(values, one_first.arrays[name])


@double_precision
def test_runs_of_long_steps_report_after_the_first_and_short_runs_take_one_call():
    """A step of 300 points takes a second on a slow processor: Ctrl-C must not wait for many."""
    small, large = replicates(problem()), replicates(problem(points=300, steps=5000), samples=2048)
    assert small._first_chunk(small.kind) >= small.total
    kind = dataclasses.replace(large.kind, room=large.first_room())
    assert large._first_chunk(kind) == 1
    assert not large.short


def test_dense_networks_start_together(monkeypatch):
    """There are no buffers that the first could size."""
    counts = []
    side_by_side = crew.Crew._side_by_side

    def watched(self, tasks, room, workers):
        counts.append(len(tasks))
        return side_by_side(self, tasks, room, workers)

    monkeypatch.setattr(crew.Crew, "_side_by_side", watched)
    wf.simulate(problem(), 16, 3, engine="dense", progress=False)
    assert counts == [3]


@pytest.mark.parametrize("seeds", [2, 5])
def test_results_do_not_depend_on_the_number_of_processors(monkeypatch, seeds):
    found = []
    for count in (1, 3):
        monkeypatch.setattr("widefield.engine.run.processors", lambda count=count: count)
        found.append(wf.solve(problem(), samples=128, seeds=seeds, progress=False))
    np.testing.assert_array_equal(*(one.replicates["f"].values for one in found))
