"""Options of `solve` and `simulate` against what they mean, worked out from runs without them or by a plain loop."""

from __future__ import annotations

import dataclasses
import itertools
import os
from types import SimpleNamespace

import numpy as np
import pytest

import widefield as wf
from widefield.engine.interpretation import Interpretation, Room
from widefield.engine.prepare import check_size, make_recording
from widefield.engine.run import Run
from widefield.errors import MemoryBudgetError
from widefield.numerics.processors import processors
from widefield.solvers.mean_field.replicates import Replicates
from widefield.solvers.methods import choose_method

X = np.random.default_rng(5).standard_normal((3, 4))
PROBLEM = wf.Problem(wf.Dataset(X, [1.0, -1.0, 0.5]), wf.MLP(1, "erf"), "gd", 1.0, wf.Training(steps=5, dt=0.2))
PARTICLES = {"samples": 256, "seeds": 2, "tolerance": 0.01, "precision": "float64"}
KEPT = [0, 2, 4, 5]  # of every second step, and the last


@pytest.fixture(scope="module")
def theory() -> wf.Result:
    return wf.solve(PROBLEM, two_time=1, neurons=16, progress=False, **PARTICLES)


@pytest.fixture(scope="module")
def networks() -> wf.Result:
    return wf.simulate(PROBLEM, 8, 3, neurons=6, progress=False)


def alone(samples: int, number: int, shift: int) -> dict[str, np.ndarray]:
    """One replicate by itself."""
    recording = make_recording(PROBLEM, ("phi",), 1, 4)
    shared = Replicates(PROBLEM, recording, "float64", 0, lambda done, total, message: None)
    arrays = shared.run(samples, range(number, number + 1), PARTICLES["tolerance"], shift=shift).arrays
    return {name: value[0] for name, value in arrays.items()}


@pytest.mark.parametrize(("free", "count", "expected"), [(700, 8, 3), (None, 8, 4), (5000, 2, 2), (10, 8, 1)])
def test_replicates_run_side_by_side_in_half_of_the_memory(monkeypatch, free, count, expected):
    """Each takes 100 bytes, and there are four processors."""
    monkeypatch.setattr("widefield.engine.run.processors", lambda: 4)
    place = SimpleNamespace(split=False, free_bytes=lambda: free)
    kind = Interpretation("mean_field", 64)
    run = SimpleNamespace(place=place, kind=kind, _sizes=lambda kind, place: (0, 100))
    assert Run.workers(run, Room(), count) == expected  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds processes to processors")
def test_a_process_that_is_bound_to_processors_counts_those():
    """Two replicates at once on one processor would push each other out of its cache."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert processors() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert processors() == len(before)


def test_kernels_that_take_much_memory_are_not_recorded_unasked():
    """8 bytes for 5 kernels (one output) or Φ alone (several) of 64² pairs at every time: up to half a gibibyte."""

    def recorded(steps, outputs=1, every=1, network=None):
        data = wf.Dataset(np.ones((64, 2) if network is None else (64, 2, 1)), np.ones((64, outputs)))
        training = wf.Training(steps, 0.1)
        asked = wf.Problem(data, network or wf.MLP(1, "erf"), "gd", 1.0, training)
        found = make_recording(asked, None, every, 1)
        return {one.name for one in found.wanted}, found.note

    kernels = {"entk", "phi", "g", "g_tilde", "g_tilde_tilde"}
    assert recorded(3275) == (kernels, "")
    names, note = recorded(3276)
    assert names == {"entk_alignment", "phi_alignment", "gradient_cosine"}
    assert note.startswith("kernels of 64 points at 3277 times would take 0.5 GiB per replicate; recorded alignments")
    assert recorded(2 * 3275 + 1, every=2) == (kernels, "")
    assert recorded(2 * 3276, every=2)[1].startswith("kernels of 64 points at 3277 times")
    assert recorded(16383, outputs=2) == ({"phi"}, "")
    assert recorded(16384, outputs=2)[0] == {"phi_alignment"}
    every = wf.RNN(readout="every")
    assert recorded(4095, network=every, outputs=2)[0] == {"phi"}
    assert recorded(4096, network=every, outputs=2)[0] == set()


@pytest.mark.parametrize(("every", "batch", "records"), [(1, 0, 60), (2, 0, 40), (1, 2, 60 + 5 * 3)])
def test_what_cannot_fit_into_memory_is_refused(every, batch, records):
    """Fields of 3·width·points·layers numbers; f of 2 networks and 5 points at 6 or 4 times; batches mark 3 points."""
    data = wf.Dataset(X, [1.0, -1.0, 0.5], X[:2])
    training = dataclasses.replace(PROBLEM.training, batch_size=batch)
    asked = dataclasses.replace(PROBLEM, data=data, network=wf.MLP(2, "erf"), training=training)
    recording = make_recording(asked, (), every, 1)
    size = 8 * (3 * 7 * 5 * 2 + records)
    for free in (size, size - 1):
        place = SimpleNamespace(devices=(), free_bytes=lambda free=free: free)
        if free == size:
            check_size(asked, recording, 7, 2, place)  # type: ignore[arg-type]
            continue
        with pytest.raises(MemoryBudgetError, match="a run of width 7, 2 seeds and 5 steps"):
            check_size(asked, recording, 7, 2, place)  # type: ignore[arg-type]


def test_extrapolate_is_twice_all_particles_less_half_of_them():
    """2·a(S) − a(S/2) has no error of order 1/S where a(S) = a + b/S."""
    found = wf.solve(PROBLEM, extrapolate=True, record="phi", neurons=4, progress=False, **PARTICLES).replicates
    for number in range(2):
        whole, half = alone(256, number, shift=0), alone(128, number, shift=1)
        run = found.isel(seed=number)
        np.testing.assert_allclose(run["phi"].values, 2 * whole["phi"] - half["phi"], rtol=1e-12)
        f = 2 * whole["f"] - half["f"]
        np.testing.assert_allclose(run["f"].values, f[..., 0], rtol=1e-12)
        assert np.abs(whole["phi"] - half["phi"]).max() > 1e-6


def test_two_time_records_every_kth_step(theory):
    """Every second step of what every step gives; its diagonal is the kernel itself."""
    some = wf.solve(PROBLEM, two_time=2, neurons=16, progress=False, **PARTICLES)
    names = [name for name, array in theory.dataset.items() if "step_" in array.dims and not name.endswith("_se")]
    shared = [name for name in names if name in some.dataset]
    assert len(shared) >= 3
    for name in shared:
        expected = theory[name].isel(step=slice(None, None, 2), step_=slice(None, None, 2))
        assert list(some[name]["step"].values) == [0, 2, 4]
        np.testing.assert_allclose(some[name].values, expected.values, atol=1e-9)
    phi = theory["phi_two_time"].transpose("step", "step_", "layer", "sample", "sample_").values
    for step in range(6):
        np.testing.assert_allclose(phi[step, step], theory["phi"].values[step], atol=1e-9)


def test_every_and_record_leave_the_numbers_alone(theory):
    some = wf.solve(PROBLEM, every=2, record=("phi", "entk"), neurons=16, progress=False, **PARTICLES)
    np.testing.assert_allclose(some["time"].values, 0.2 * np.array(KEPT))
    for name in ("f", "loss", "phi", "entk", "entk_alignment"):
        np.testing.assert_allclose(some[name].values, theory[name].values[KEPT], atol=1e-9)
    assert not {"g", "g_tilde"} & set(some.dataset)


def test_record_names_what_is_kept(networks):
    some = wf.simulate(PROBLEM, 8, 3, record=["g"], neurons=6, progress=False)
    np.testing.assert_allclose(some["g"].values, networks["g"].values, atol=1e-12)
    assert not {"phi", "entk", "g_tilde", "g_tilde_tilde"} & set(some.dataset)
    nothing = wf.simulate(PROBLEM, 8, 3, record=(), neurons=6, progress=False)
    assert not {"phi", "entk", "g"} & set(nothing.dataset)
    np.testing.assert_allclose(nothing["f"].values, networks["f"].values, atol=1e-12)


def test_neurons_are_the_first_ones_of_every_network(networks):
    fewer = wf.simulate(PROBLEM, 8, 3, neurons=2, progress=False)["h_final"]
    assert fewer.sizes == {"layer": 1, "sample": 3, "neuron": 3 * 2}
    all_of_them = networks["h_final"].values.reshape(1, 3, 3, 6)
    np.testing.assert_array_equal(fewer.values.reshape(1, 3, 3, 2), all_of_them[..., :2])


def test_seed_and_seeds(networks):
    again = wf.simulate(PROBLEM, 8, 3, neurons=6, seed=0, progress=False)
    np.testing.assert_array_equal(again["f"].values, networks["f"].values)
    other = wf.simulate(PROBLEM, 8, 3, neurons=6, seed=1, progress=False)
    assert np.abs(other["f"].values - networks["f"].values)[1:].min() > 0
    runs = networks.replicates["f"].values
    assert runs.shape == (3, 6, 3)
    assert len(np.unique(runs[:, 1, 0])) == 3
    np.testing.assert_allclose(networks["f_se"].values, runs.std(0, ddof=1) / np.sqrt(3), rtol=1e-9)


def test_progress_goes_from_the_first_step_to_the_last_of_all_networks():
    calls = []

    class Mine:
        def update(self, done, total, message=""):
            calls.append((done, total))

    wf.simulate(PROBLEM, 8, 3, neurons=6, progress=Mine())
    assert {total for _, total in calls} == {3 * 6}
    assert calls[-1] == (18, 18)
    assert all(a <= b for (a, _), (b, _) in itertools.pairwise(calls))


def test_the_lazy_limit_takes_record_and_every():
    whole = wf.solve(PROBLEM, "lazy", progress=False)
    some = wf.solve(PROBLEM, "lazy", record=("phi",), every=2, progress=False)
    np.testing.assert_allclose(some["time"].values, 0.2 * np.array(KEPT))
    np.testing.assert_array_equal(some["phi"].values, whole["phi"].values[KEPT])
    assert "entk" in whole.dataset
    assert "entk" not in some.dataset


def test_auto_takes_what_is_cheapest():
    linear = dataclasses.replace(PROBLEM, network=wf.MLP(1, "linear"))
    assert wf.solve(linear, "auto", progress=False).method == "linear"
    assert wf.solve(dataclasses.replace(PROBLEM, richness=1e-4), "auto", progress=False).method == "lazy"


def test_auto_takes_the_lazy_limit_up_to_a_richness_and_batches_in_mean_field():
    batched = dataclasses.replace(PROBLEM.training, batch_size=2)
    for network, richness, training, method in (
        (wf.MLP(1, "erf"), 1e-3, PROBLEM.training, "lazy"),
        (wf.MLP(1, "erf"), 1.01e-3, PROBLEM.training, "mean_field"),
        (wf.MLP(1, "linear"), 1e-4, PROBLEM.training, "linear"),
        (wf.MLP(1, "linear"), 1e-4, batched, "mean_field"),
        (wf.MLP(2, "linear", residual=True), 1.0, PROBLEM.training, "mean_field"),
    ):
        asked = dataclasses.replace(PROBLEM, network=network, richness=richness, training=training)
        assert choose_method(asked) == method
