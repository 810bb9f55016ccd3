"""Low-rank parts of the initial recurrent weights, and eigenvalues of what is learnt."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreement import alarm, runs_of, wide_networks
from test_recurrent import RULES, check_against_loop, check_refused, make_problem, one_input

import widefield as wf
from widefield.engine.capacity import first_room
from widefield.engine.eigenvalues import largest
from widefield.engine.interpretation import Interpretation, initialise
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.program import step
from widefield.engine.sources import Pool
from widefield.observables import DEFAULT_KERNELS as KERNELS

SLOW = pytest.mark.slow
PARTS = (
    {"strength": 1.7, "overlap": 0.4, "input": [0.8, 0.0], "readout": [0.6]},
    {"strength": -0.9, "input": [0.3, 0.5]},
)


def structured(*args, **options) -> wf.Problem:
    problem = make_problem(*args, **options)
    return dataclasses.replace(problem, network=dataclasses.replace(problem.network, structure=PARTS))


@pytest.mark.parametrize(
    "rule",
    [
        rule if rule in (wf.rules.FA(0.6), wf.rules.WeightMirror(1.5, 0.4)) else pytest.param(rule, marks=SLOW)
        for rule in RULES
    ],
    ids=repr,
)
def test_networks_are_the_plain_loop(rule):
    """Feedback made of W(0) is made of its low-rank part too."""
    check_against_loop(structured(rule, "every", 0.5, gain=1.3, weight_decay=0.1))


@pytest.mark.parametrize("gain", [pytest.param(0.0, marks=SLOW), 1.3])
def test_vectors_overlap_as_they_should(gain):
    """Matched Gaussians of infinite width have these overlaps exactly."""
    problem, width = structured(gain=gain), 256
    spec, inputs = prepare(problem, make_recording(problem, ("phi",), 1, 1), "float64", 1e-7)
    kind = Interpretation("mean_field", width)
    kind = dataclasses.replace(kind, room=first_room(kind, spec, 3, inputs.x.shape[-1], (float(inputs.tolerance),) * 2))
    basis = Pool(np.random.default_rng(0).standard_normal((4, width)), (1,)).basis(kind.room.sources[0])
    state = initialise(spec, kind, inputs, jax.random.key(0), [jnp.asarray(basis)])
    assert state.structure is not None
    strengths = np.array([1.7, -0.9])
    m, n = np.asarray(state.structure[0]) / strengths[:, None], np.asarray(state.structure[1])
    rows = problem.data.x.swapaxes(0, 1).reshape(-1, 2) / np.sqrt(2)
    u = np.linalg.pinv(rows) @ np.asarray(inputs.x).reshape(len(rows), -1) @ np.asarray(state.inputs)
    w = np.asarray(state.readout)[0, 0]
    for vector in (*m, *n, *u, w):
        assert vector @ vector / width == pytest.approx(1)
    np.testing.assert_allclose(m @ w / width, [0.6, 0], atol=1e-10)
    np.testing.assert_allclose(n @ u.T / width, [[0.8, 0], [0.3, 0.5]], atol=1e-10)
    np.testing.assert_allclose(m @ n.T / width, [[0.4, 0], [0, 0]], atol=1e-10)
    # W(0) asked with n gives θm⟨nn⟩ on top of its Gaussian part.
    found = np.asarray(state.matrices[0].outliers(2))
    np.testing.assert_allclose(found, [[1.7 * 0.4, 0], [0, 0]], atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [wf.rules.KolenPollack(0.3), *RULES[:4]], ids=repr)
def test_linear_networks_with_structure_are_solved_exactly(rule):
    problem = structured(rule, "last", 0.6, 1.2, activation="linear", steps=3, dt=0.1, weight_decay=0.1)
    exact = wf.solve(problem, method="linear", progress=False)
    theory = wf.solve(problem, samples=384, seeds=2, record=("phi", "entk"), progress=False)
    for name in ("f", "phi", "entk"):
        np.testing.assert_allclose(exact[name], theory[name], atol=1e-8, err_msg=name)
    plain = wf.solve(dataclasses.replace(problem, network=wf.RNN("linear", 0.6, gain=1.2)), method="linear")
    assert np.abs(plain["f"].values[-1] - exact["f"].values[-1]).max() > 1e-3, "the structure is not felt"


@pytest.mark.slow
@pytest.mark.parametrize("rule", [wf.rules.GD(), wf.rules.FA(0.6), wf.rules.DFA()], ids=repr)
def test_theory_is_the_limit_of_wide_networks(rule):
    """False alarm in less than 1 of 1000 keys."""
    problem = structured(rule, "every", 0.5, 1.2, points=2, richness=1.5, steps=5, dt=0.2)
    networks = wide_networks(problem, 600)
    theory = wf.solve(problem, samples=2048, seeds=12, record=KERNELS, progress=False)
    runs = {name: values.reshape(len(values), -1) for name, values in runs_of(theory).items() if name in networks}
    where, chance = alarm(runs, {name: values.reshape(len(values), -1) for name, values in networks.items()})
    assert chance > 1e-3, where


def test_largest_eigenvalues():
    values = np.array([-3.0, 0.5, 1 + 2j, 1 - 2j, 1e-9])
    turn = np.random.default_rng(0).standard_normal((5, 5))
    block = np.diag([-3.0, 0.5, 1, 1, 1e-9])
    block[2, 3], block[3, 2] = 2, -2
    found = np.asarray(largest(jnp.asarray(turn @ block @ np.linalg.inv(turn)), 7))
    expected = values[[0, 2, 3, 1, 4]]
    np.testing.assert_allclose(found[:5, 0] + 1j * found[:5, 1], expected, atol=1e-10)
    np.testing.assert_array_equal(found[5:], 0)


def test_outliers_are_eigenvalues_of_what_was_learnt():
    """Dense networks, against all eigenvalues of W(t) less what three steps of decay have left of W(0)."""
    problem = make_problem("gd", "last", 0.6, gain=1.2, steps=3, dt=0.3, weight_decay=0.2)
    record = ("outliers_real", "outliers_imaginary")
    spec, inputs = prepare(problem, make_recording(problem, record, 1, 1), "float64")
    state = initialise(spec, Interpretation("dense", 30), inputs, jax.random.key(0), [])
    start = np.asarray(state.matrices[0].weights)
    for _ in range(4):
        state, fields = step(spec, inputs, state)
    learnt = np.asarray(fields.matrices[0].weights) - (1 - 0.3 * 0.2) ** 3 * start
    values = np.linalg.eigvals(learnt)
    found = np.asarray(fields.matrices[0].outliers(4))
    order = np.argsort(-np.abs(values))[:4]
    np.testing.assert_allclose(np.hypot(*found.T), np.abs(values[order]), atol=1e-10)
    np.testing.assert_allclose(np.sort(found[:, 0]), np.sort(values[order].real), atol=1e-10)


@pytest.mark.slow
def test_outliers_are_recorded_and_kept_in_files(tmp_path):
    problem = make_problem("gd", "last", 0.6, gain=1.2, steps=3)
    record = ("outliers_real", "outliers_imaginary")
    result = wf.simulate(problem, 30, 2, record=record, progress=False)
    assert result["outliers_real"].dims == ("time", "eigenvalue")
    np.testing.assert_allclose(result["outliers_real"].values[0], 0, atol=1e-12)
    assert np.abs(result["outliers_real"].values[-1, 0]) > 1e-3
    result.save(tmp_path / "outliers.nc")
    np.testing.assert_array_equal(wf.load(tmp_path / "outliers.nc")["outliers_real"], result["outliers_real"])


@pytest.mark.slow
def test_outliers_of_theory_are_those_of_wide_networks():
    """The largest one, of conditioned networks of 4000 neurons; within 5 errors in all but 1 of 10⁵ keys."""
    problem = structured("gd", "last", 0.6, gain=0.8, richness=1.5, steps=10, dt=0.2)
    theory = wf.solve(problem, samples=4096, seeds=8, record=("outliers_real",), progress=False)
    nets = wf.simulate(problem, 4000, 8, engine="conditioned", record=("outliers_real",), progress=False)
    a, b = (one["outliers_real"].values[:, 0] for one in (theory, nets))
    error = np.hypot(*(one["outliers_real_se"].values[:, 0] for one in (theory, nets)))
    assert np.all(np.abs(a - b) < 5 * error + 1e-12)


def test_problems_with_structure_are_written_and_read(tmp_path):
    problem = structured()
    assert wf.Problem.from_toml(problem.to_toml()) == problem
    assert problem.network.structure[1] == wf.RankOne(-0.9, overlap=0.0, input=(0.3, 0.5))


WRONG = {
    "no list": (lambda: wf.RNN(structure=1.5), ["structure is 1.5", "RankOne"]),
    "no parts": (lambda: wf.RNN(structure=[1.5]), ["structure has 1.5", "RankOne"]),
    "unknown field": (lambda: wf.RNN(structure=[{"strength": 1, "rank": 2}]), ["structure is", "strength, overlap"]),
    "overlap": (lambda: wf.RankOne(1.0, overlap=2), ["overlap is 2", "[−1, 1]"]),
    "strength": (lambda: wf.RankOne(np.nan), ["strength is nan"]),
    "readout": (lambda: wf.RankOne(1.0, readout=[1, 1]), ["readout is", "at most 1"]),
    "input": (lambda: wf.RankOne(1.0, 0.9, input=[0.9]), ["input is", "at most 1"]),
    "text": (lambda: wf.RankOne(1.0, input="abc"), ["input is", "numbers"]),
    "inputs of the data": (
        lambda: dataclasses.replace(make_problem(), network=wf.RNN(structure=[wf.RankOne(1.0, input=[0.1] * 3)])),
        ["input is", "2 numbers"],
    ),
    "lazy": (lambda: wf.solve(structured(), method="lazy"), ["structure is", "lazy"]),
    "outliers of layers": (lambda: wf.solve(one_input(2, "tanh")[1], record="outliers_real"), ["record is 'outliers"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused(case):
    check_refused(*case)
