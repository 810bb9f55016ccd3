"""Online and minibatch learning where only the batch and the test points pass through the network."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.engine.interpretation import Interpretation, Room, initialise
from widefield.engine.low_rank import make_low_rank
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.sources import Plain
from widefield.engine.wide_matrix import Rates
from widefield.errors import InputError

ONCE = {"steps": 6, "schedule": "cyclic"}  # 7 batches of 2 of 12 points: the last one, which only measures, comes back
OFTEN = {"steps": 11}  # of 5 points, some batches hold one twice
STRUCTURE = (wf.RankOne(strength=0.8, input=(0.5, 0.0, 0.0), overlap=0.3),)


def make_problem(points=5, network=None, rule="gd", shape=(3,), outputs=1, tests=2, **training) -> wf.Problem:
    rng = np.random.default_rng(4)
    y = rng.choice([-1.0, 1.0], points) if outputs == 1 else np.eye(outputs)[rng.integers(outputs, size=points)]
    y_test = y[:tests] if tests else None
    x_test = rng.normal(size=(tests, *shape)) if tests else None
    data = wf.Dataset(rng.normal(size=(points, *shape)), y, x_test=x_test, y_test=y_test)
    options = {"dt": 0.1, "batch_size": 2, "batch_seed": 2, "evaluate": "batch", **training}
    return wf.Problem(data, network or wf.MLP(2), rule, 1.0, wf.Training(**options))


def all_points(problem: wf.Problem) -> wf.Problem:
    return dataclasses.replace(problem, training=dataclasses.replace(problem.training, evaluate="all"))


def of_batches(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Values (time, point, …) of the points of every time."""
    return np.stack([value[chosen] for value, chosen in zip(values, points, strict=True)])


CASES = {
    "fa, momentum": {"rule": wf.rules.FA(0.5), "momentum": 0.5},
    "gln": {"rule": "gln"},
    "kolen-pollack, decay": {"rule": wf.rules.KolenPollack(), "weight_decay": 0.3},
    "classes": {"outputs": 3, "loss": "cross_entropy", "tests": 0},
    "cnn": {"network": wf.CNN(2), "shape": (4, 2), "weight_decay": 0.3},
    "rnn": {"network": wf.RNN(leak=0.5, gain=1.3, structure=STRUCTURE), "shape": (3, 3)},
    "rnn, gated": {"network": wf.RNN(readout="last"), "shape": (3, 3), "rule": "gln"},
}


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("points", [12, 5], ids=["once", "often"])
@pytest.mark.parametrize("case", list(CASES))
def test_dense_networks_do_not_depend_on_what_passes(case, points, every):
    problem = make_problem(points, **(ONCE if points == 12 else OFTEN), **CASES[case])
    batch, whole = (
        wf.simulate(p, 20, seeds=2, engine="dense", seed=1, every=every, record=["phi"], progress=False)
        for p in (problem, all_points(problem))
    )
    chosen = batch["point"].values
    recorded = np.union1d(np.arange(0, problem.training.steps, every), problem.training.steps)
    np.testing.assert_array_equal(chosen, problem.training.order(points)[recorded])
    np.testing.assert_allclose(batch["f"], of_batches(whole["f"].values, chosen), atol=1e-12)
    np.testing.assert_allclose(batch["delta"], of_batches(whole["delta"].values, chosen), atol=1e-12)
    phi = np.moveaxis(whole["phi"].values, 1, 3)  # (time, P, P, layer, …)
    phi = of_batches(of_batches(phi, chosen).swapaxes(1, 2), chosen).swapaxes(1, 2)
    np.testing.assert_allclose(np.moveaxis(batch["phi"].values, 1, 3), phi, atol=1e-12)
    if problem.data.test_points:
        np.testing.assert_allclose(batch["f_test"], whole["f_test"], atol=1e-12)
        np.testing.assert_allclose(batch["test_loss"], whole["test_loss"], atol=1e-12)


@pytest.mark.parametrize("engine", ["mean_field", "conditioned"])
@pytest.mark.parametrize(("points", "options"), [(12, ONCE), (5, OFTEN)], ids=["once", "often"])
@pytest.mark.parametrize("rule", ["gd", wf.rules.FA(0.5)], ids=repr)
def test_deep_linear_networks_know_what_fresh_points_start_with(rule, points, options, engine):
    """Their averages close, so that particles give them to rounding: the same whatever passes, and whenever.

    At finite width outputs are those of one network; without what fresh points start with they would be off by 1/√N.
    """
    problem = make_problem(points, wf.MLP(2, "linear"), rule, **options, weight_decay=0.2)
    if engine == "mean_field":
        options = {"samples": 256, "seeds": 2, "method": engine, "progress": False, "record": ()}
        batch, whole = (wf.solve(p, **options) for p in (problem, all_points(problem)))
        np.testing.assert_allclose(batch["f"], of_batches(whole["f"].values, batch["point"].values), atol=1e-7)
        np.testing.assert_allclose(batch["f_test"], whole["f_test"], atol=1e-7)
    else:
        # Of 40 numbers, correlated: 5 standard errors of 200 networks are a false alarm in under 1 in 10,000 keys.
        batch = wf.simulate(problem, 60, seeds=200, engine=engine, record=(), progress=False)
        whole = wf.simulate(all_points(problem), 60, seeds=200, engine="dense", seed=1, record=(), progress=False)
        gap = batch["f_test"] - whole["f_test"]
        error = np.sqrt(batch["f_test_se"] ** 2 + whole["f_test_se"] ** 2)
        assert float(np.abs(gap / (error + 1e-12)).max()) < 5
        ratio = (batch["f_test_se"] / whole["f_test_se"])[1:]
        assert 0.7 < float(ratio.min()) <= float(ratio.max()) < 1.4  # 7 standard errors of a ratio of deviations


def test_what_a_matrix_started_with_is_not_changed_by_learning():
    rng, width = np.random.default_rng(0), 40
    tolerances = (jnp.asarray(1e-3), jnp.asarray(1e-3))
    matrix = make_low_rank(
        width, width, width, (24, 24), "float64", tolerances, frozenset(), jnp.asarray(0.0), False, 3
    )
    rows, later = (jnp.asarray(rng.standard_normal((3, width))) for _ in range(2))
    source, key = Plain(width), jax.random.key(0)
    matrix, source, before, asked = matrix.forward(rows, source, key)
    rates = Rates(*(jnp.asarray(number) for number in (0.9, 1.0, 0.0, 0.0)))
    matrix = matrix.update(asked, rows, jnp.asarray(rng.standard_normal((3, width))), rates)
    matrix, source, initial, _ = matrix.forward(rows, source, key, initial=True)
    np.testing.assert_allclose(initial, before, atol=1e-10)
    matrix, source, initial, _ = matrix.forward(later, source, jax.random.key(1), initial=True)
    matrix, source, current, _ = matrix.forward(later, source, key)
    # Rows asked for the first time have learnt nothing but along those that taught.
    learnt = np.asarray(current - 0.9 * initial)
    overlap = np.asarray(later @ rows.T)
    np.testing.assert_allclose(learnt - overlap @ np.linalg.lstsq(overlap, learnt, rcond=None)[0], 0, atol=1e-10)
    assert np.abs(learnt).max() > 0.01


def test_points_that_pass_once_keep_nothing():
    def slots(points: int) -> int | None:
        problem = make_problem(points, **ONCE)
        spec, inputs = prepare(problem, make_recording(problem, (), 1, 1), "float64", 1e-3)
        kind = Interpretation("conditioned", 16, Room(((8, 8),), (0,)))
        state = jax.eval_shape(lambda: initialise(spec, kind, inputs, jax.random.key(0), ()))
        rest = state.matrices[0].rest
        return None if rest is None else len(rest.rows)

    assert slots(12) is None
    assert slots(11) == 11


@pytest.mark.slow
@pytest.mark.parametrize("points", [40, 12], ids=["once", "often"])
def test_theory_agrees_with_wide_networks(points):
    # About 60 independent entries: 5 standard errors are a false alarm in under 1 in 10,000 keys.
    problem = make_problem(points, rule=wf.rules.FA(0.5), steps=10, batch_size=4, tests=5)
    theory = wf.solve(problem, samples=2048, seeds=12, progress=False)
    networks = wf.simulate(problem, 2000, seeds=24, engine="dense", seed=5, progress=False)
    for name in ("f", "f_test", "phi", "loss"):
        error = np.sqrt(theory[f"{name}_se"] ** 2 + networks[f"{name}_se"] ** 2) + 1e-4
        assert float(np.abs((theory[name] - networks[name]) / error).max()) < 5, name


def test_results_of_batches(tmp_path):
    problem = make_problem(12, **ONCE, rule=wf.rules.FA(0.5))
    result = wf.simulate(problem, 10, seeds=2, record=["phi", "phi_test"], progress=False)
    y = problem.data.y[result["point"].values]
    runs = result.replicates["f"].values
    np.testing.assert_allclose(result.replicates["loss"], 0.5 * np.sum((runs - y) ** 2, axis=-1))
    np.testing.assert_allclose(result["accuracy"][1:], (np.sign(runs) == np.sign(y)).mean((0, 2))[1:])
    phi, target = result.replicates["phi"].values, np.einsum("tm,tn->tmn", y, y)
    along = np.einsum("stlmn,tmn->stl", phi, target) / 2 / np.sqrt(np.sum(phi**2, axis=(-2, -1)))
    np.testing.assert_allclose(result.replicates["phi_alignment"], along)
    assert result["phi_test"].dims == ("time", "layer", "test_sample", "test_sample_")
    result.save(tmp_path / "online.nc")
    again = wf.load(tmp_path / "online.nc")
    assert again.dataset.identical(result.dataset)
    assert again.problem.training == problem.training
    assert "evaluate batch" in " ".join(result.summary().split())
    assert "2 points at a time, 2 test points" in result.summary()
    own = wf.Result.from_arrays(problem, {"f": runs}, steps=np.arange(7))
    np.testing.assert_allclose(own["loss"], result["loss"])
    np.testing.assert_array_equal(own["point"], result["point"])


def test_kernels_of_test_points_are_those_of_the_same_points_as_training_points():
    problem = make_problem(6, steps=1, batch_size=0, evaluate="all", tests=4)
    data = problem.data
    swapped = dataclasses.replace(problem, data=wf.Dataset(np.concatenate([data.x_test, data.x]), np.ones(10)))
    tested = wf.simulate(problem, 400, seeds=2, engine="dense", record=["phi_test"], progress=False)
    taught = wf.simulate(swapped, 400, seeds=2, engine="dense", record=["phi"], progress=False)
    # W⁰ is drawn in other coordinates: the same in law, 0.1 is 5 standard errors at this width.
    np.testing.assert_allclose(tested["phi_test"][0], taught["phi"][0, :, :4, :4], atol=0.1)


def test_records_of_all_points_say_what_costs_less():
    problem = all_points(make_problem(240, **ONCE))
    result = wf.simulate(problem, 10, seeds=2, record=(), progress=False)
    assert "evaluate='batch'" in result.info["notes"]
    result = wf.simulate(make_problem(240, **ONCE), 10, seeds=2, record=(), progress=False)
    assert "notes" not in result.info


def bad(match: str, call):
    return pytest.param(match, call, id=match)


@pytest.mark.parametrize(
    ("match", "call"),
    [
        bad("evaluate is 'batch'.*batch_size is 0", lambda: wf.Training(3, 0.1, evaluate="batch")),
        bad("evaluate is 'some'", lambda: wf.Training(3, 0.1, batch_size=2, evaluate="some")),
        bad("evaluate is 'batch'.*lazy", lambda: wf.solve(make_problem(steps=3), method="lazy")),
        bad("evaluate is 'batch'.*lazy limit", lambda: wf.lazy.predict(make_problem(steps=3), [0.1], discrete=True)),
        bad("two_time is 1.*other points", lambda: wf.solve(make_problem(steps=3), two_time=1)),
        bad("phi_test.*x_test", lambda: wf.solve(make_problem(steps=3, tests=0), record=["phi_test"])),
        bad("evaluate of a is 'batch'", lambda: wf.candidates({"a": make_problem(steps=3)}, steps=[0, 3])),
    ],
)
def test_what_has_no_batches_refuses_them(match, call):
    with pytest.raises(InputError, match=match):
        call()
