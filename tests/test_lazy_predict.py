"""Predictions of static kernels: gradient flow, steps, other losses, and the engine as γ₀ → 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.integrate

import widefield as wf
from widefield.errors import DivergenceError, InputError
from widefield.solvers.lazy import kernels, predict, solve_lazy
from widefield.solvers.lazy.flow import flow_outputs
from widefield.solvers.linear.solve import solve_linear

RNG = np.random.default_rng(0)
DATA = wf.Dataset(
    RNG.standard_normal((6, 4)), RNG.standard_normal(6), RNG.standard_normal((3, 4)), RNG.standard_normal(3)
)
NETWORK = wf.MLP(2, "relu")


def problem(rule="gd", data=DATA, network=NETWORK, **training):
    return wf.Problem(data, network, rule, 1.0, wf.Training(**({"steps": 20, "dt": 0.02} | training)))


def blocks(data=DATA, rule="gd", network=NETWORK):
    return kernels(data.x, network, rule).entk, kernels(data.x_test, network, rule, data.x).entk


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_flow_solves_its_equation(ridge):
    """Against SciPy's integrator on df/dt = K(y−f) − r f."""
    train, test = blocks()
    every = np.concatenate([train, test])
    times = np.array([0.0, 0.3, 2.0])
    path = scipy.integrate.solve_ivp(
        lambda t, f: every @ (DATA.y - f[:6]) - ridge * f, (0, 2), np.zeros(9), "DOP853", times, rtol=1e-11, atol=1e-12
    )
    found = predict(problem(), times, ridge)
    np.testing.assert_allclose(found["f"], path.y.T[:, :6], atol=1e-8)
    np.testing.assert_allclose(found["f_test"], path.y.T[:, 6:], atol=1e-8)
    np.testing.assert_allclose(found["time"], times)


def test_infinite_time_is_kernel_regression():
    train, test = blocks()
    found = predict(problem(), [1.0, np.inf])
    np.testing.assert_allclose(found["f"][-1], DATA.y, atol=1e-10)
    np.testing.assert_allclose(found["f_test"][-1], test @ np.linalg.solve(train, DATA.y), atol=1e-10)
    ridge = predict(problem(), np.inf, ridge=0.5)
    np.testing.assert_allclose(ridge["f_test"][0], test @ np.linalg.solve(train + 0.5 * np.eye(6), DATA.y), atol=1e-10)


def test_duplicates_do_not_break_infinite_time():
    data = wf.Dataset(np.concatenate([DATA.x, DATA.x]), np.concatenate([DATA.y, DATA.y]), DATA.x_test)
    found = predict(problem(data=data), np.inf)
    np.testing.assert_allclose(found["f_test"], predict(problem(), np.inf)["f_test"], atol=1e-8)


def test_kernels_that_are_not_symmetric():
    kernel = np.array([[1.0, 0.5], [-0.2, 0.8]])
    y = np.array([[1.0], [-1.0]])
    path = scipy.integrate.solve_ivp(
        lambda t, f: kernel @ (y[:, 0] - f), (0, 3), np.zeros(2), "DOP853", rtol=1e-11, atol=1e-12
    )
    np.testing.assert_allclose(flow_outputs(kernel, None, y, np.array([3.0]), 0.0)[0, :, 0], path.y[:, -1], atol=1e-8)
    np.testing.assert_allclose(flow_outputs(kernel, None, y, np.array([np.inf]), 0.0)[0], y, atol=1e-10)


def test_negative_directions_have_no_limit():
    kernel = np.diag([1.0, -0.5])
    with pytest.raises(DivergenceError, match="∞"):
        flow_outputs(kernel, None, np.ones((2, 1)), np.array([np.inf]), 0.0)
    with pytest.raises(DivergenceError):
        flow_outputs(kernel, None, np.ones((2, 1)), np.array([1e5]), 0.0)
    with pytest.raises(DivergenceError, match=r"an eigenvalue of -0\.5, along which"):
        flow_outputs(np.array([[1.0, 1.0], [0.0, -0.5]]), None, np.ones((2, 1)), np.array([np.inf]), 0.0)
    # A ridge lifts them.
    for one in (kernel, np.array([[1.0, 1.0], [0.0, -0.5]])):
        y = np.array([[1.0], [2.0]])
        expected = one @ np.linalg.solve(one + 0.75 * np.eye(2), y)
        np.testing.assert_allclose(flow_outputs(one, None, y, np.array([np.inf]), 0.75)[0], expected, rtol=1e-10)


def test_steps_by_hand():
    """Euler, momentum and Adams–Bashforth, written out."""
    train, test = blocks()
    every, dt, tau = np.concatenate([train, test]), 0.02, 0.1
    for options in ({}, {"momentum": tau}, {"integrator": "ab2"}):
        f, velocity, before = np.zeros(9), np.zeros(9), None
        path = [f]
        for _ in range(20):
            force = every @ (DATA.y - f[:6])
            if "momentum" in options:
                velocity = velocity + dt / tau * (force - velocity)
                f = f + dt * velocity
            elif "integrator" in options and before is not None:
                f = f + dt * (1.5 * force - 0.5 * before)
            else:
                f = f + dt * force
            before = force
            path.append(f)
        found = solve_lazy(problem(**options))
        np.testing.assert_allclose(found["f"], np.stack(path)[:, :6], atol=1e-12)
        np.testing.assert_allclose(found["f_test"], np.stack(path)[:, 6:], atol=1e-12)
        some = predict(problem(**options), [0.0, 0.1, 0.4], discrete=True)
        np.testing.assert_allclose(some["f"], np.stack(path)[[0, 5, 20], :6], atol=1e-12)


def test_small_steps_reach_gradient_flow():
    """Euler's error falls with dt to the first power."""
    flow = predict(problem(), 0.4)["f"].values[0]
    errors = [
        np.abs(predict(problem(dt=dt), 0.4, discrete=True)["f"].values[0] - flow).max() for dt in (0.02, 0.01, 0.005)
    ]
    slope = np.polyfit(np.log([0.02, 0.01, 0.005]), np.log(errors), 1)[0]
    assert 0.9 < slope < 1.2


@pytest.mark.parametrize("rule", ["gd", wf.rules.FA(0.5), "dfa"])
def test_linear_networks_reach_it_as_richness_vanishes(rule):
    """The exact linear solver at γ₀ = 1e-5 moves its kernels by O(γ₀)."""
    lazy = problem(rule, network=wf.MLP(2, "linear"))
    rich = wf.Problem(lazy.data, lazy.network, lazy.rule, 1e-5, lazy.training)
    found, reference = solve_lazy(lazy), solve_linear(rich)
    for name in (
        "f",
        "f_test",
        "loss",
        "entk",
        "phi",
        "g",
        "g_tilde",
        "g_tilde_tilde",
        "entk_alignment",
        "gradient_cosine",
    ):
        np.testing.assert_allclose(found[name], reference[name], atol=2e-4, err_msg=name)
        assert found[name].dims == reference[name].dims


@pytest.mark.parametrize("network", [NETWORK, wf.CNN(1, 3, "relu"), wf.CNN(2, 3, "relu", "zero", "pool")])
def test_networks_reach_it_as_richness_vanishes(network):
    """Finite networks at γ₀ = 0.01: 5 standard errors plus 3 % for 1/N and γ₀; false alarms below 1e-4."""
    x = RNG.standard_normal((4, 4)) if isinstance(network, wf.MLP) else RNG.standard_normal((4, 5, 2))
    data = wf.Dataset(x, np.array([1.0, -1.0, 1.0, -1.0]))
    lazy = problem(data=data, network=network, steps=5, dt=0.01)
    nets = wf.simulate(wf.Problem(data, network, "gd", 0.01, lazy.training), width=256, seeds=16, engine="dense")
    found = solve_lazy(lazy)
    for name in ("f", "phi", "g", "g_tilde", "entk"):
        gap = np.abs(found[name] - nets[name])
        assert np.all(gap <= 5 * nets[f"{name}_se"] + 0.03 * np.abs(found[name]).max()), name


def test_classes():
    labels = np.arange(12) % 3
    x = np.eye(3)[labels] * 2 + 0.3 * RNG.standard_normal((12, 3))
    data = wf.Dataset(x[:9], np.eye(3)[labels[:9]], x[9:], np.eye(3)[labels[9:]])
    found = predict(problem(data=data), [0.1, 5.0, np.inf])
    assert found["f"].dims == ("time", "sample", "output")
    assert found["test_accuracy"].values[-1] == 1
    single = predict(problem(data=wf.Dataset(data.x, data.y[:, 0], data.x_test)), 5.0)
    np.testing.assert_allclose(found["f"][1, :, 0], single["f"][0], atol=1e-12)
    # Cross entropy by the integrator, against small steps.
    entropy = predict(problem(data=data, loss="cross_entropy"), [0.0, 1.0])
    steps = predict(problem(data=data, loss="cross_entropy", dt=0.0005), [1.0], discrete=True)
    np.testing.assert_allclose(entropy["f_test"][1], steps["f_test"][0], atol=2e-3)
    assert entropy["loss"].values[1] < entropy["loss"].values[0]
    kept = solve_lazy(problem(data=data), record=("entk",), every=5)
    assert kept["entk"].shape == (5, 9, 9, 3, 3)
    np.testing.assert_array_equal(kept["entk"][0, :, :, 0, 0], kept["entk"][0, :, :, 2, 2])


@dataclass(frozen=True)
class Targets(wf.rules.GD):
    """Hidden layers are taught by the target, the readout by the error."""

    def teach(self, error, target):
        return target


@dataclass(frozen=True)
class ReadsError(wf.rules.Rule):
    def local(self, site):
        return site.phi_dot * site.signal * site.error


def test_other_teaching_signals():
    train = kernels(DATA.x, NETWORK, "gd")
    readout = train.phi[-1]
    f = np.zeros(6)
    for _ in range(20):
        f = f + 0.02 * (readout @ (DATA.y - f) + (train.entk - readout) @ DATA.y)
    np.testing.assert_allclose(solve_lazy(problem(Targets()))["f"][-1], f, atol=1e-12)
    np.testing.assert_allclose(predict(problem(Targets(), dt=1e-4), 0.4)["f"][0], f, rtol=0.05, atol=0.05)


def test_steps_with_minibatches_follow_a_plain_loop():
    question = problem(batch_size=2, batch_seed=4)
    kernel, y, dt = kernels(DATA.x, NETWORK, "gd").entk, DATA.y, question.training.dt
    f, rng, order = np.zeros(6), np.random.default_rng(4), []
    for _ in range(12):
        if len(order) < 2:
            order = [*order, *rng.permutation(6)]
        batch, order = order[:2], order[2:]
        f = f + dt * kernel[:, batch] @ (y - f)[batch]
    found = predict(question, 12 * dt, discrete=True)["f"].values[0]
    np.testing.assert_allclose(found, f, atol=1e-12)
    np.testing.assert_allclose(solve_lazy(question)["f"].values[12], f, atol=1e-12)
    assert np.abs(found - predict(problem(), 12 * dt, discrete=True)["f"].values[0]).max() > 0.01
    with pytest.raises(InputError, match=r"batch_size is 2.*discrete=True"):
        predict(question, 12 * dt)


def test_refusals():
    with pytest.raises(InputError, match="weight_decay"):
        predict(problem(weight_decay=0.1), 1.0)
    with pytest.raises(InputError, match="momentum"):
        predict(problem(momentum=0.1), 1.0)
    with pytest.raises(InputError, match="times"):
        predict(problem(), -1.0)
    with pytest.raises(InputError, match="multiples of dt"):
        predict(problem(), 0.03, discrete=True)
    with pytest.raises(InputError, match="ridge"):
        predict(problem(), 1.0, ridge=-1.0)
    signs = wf.Dataset(DATA.x, np.sign(DATA.y))
    with pytest.raises(InputError, match="finite times"):
        predict(problem(data=signs, loss="logistic"), np.inf)
    with pytest.raises(InputError, match="not static"):
        predict(problem(ReadsError()), 1.0)
    with pytest.raises(InputError, match="record"):
        solve_lazy(problem("hebb"), record=("g_tilde_tilde",))
    with pytest.raises(DivergenceError, match="dt"):
        solve_lazy(problem(dt=50.0, steps=300))
    assert "g_tilde_tilde" not in solve_lazy(problem("hebb"))


def test_predictions_say_how_they_were_made():
    signs = wf.Dataset(DATA.x, np.sign(DATA.y))
    for arguments, options, how in (
        ((problem(), 1.0), {}, "closed form"),
        ((problem(), 0.1), {"discrete": True}, "steps"),
        ((problem(data=signs, loss="logistic"), [0.0, 0.0]), {}, "integrator"),
    ):
        found = predict(*arguments, ridge=0.25, **options)
        assert found.info == {"prediction": how, "ridge": 0.25}
    np.testing.assert_array_equal(found["f"], np.zeros((2, 6)))


def test_what_the_lazy_limit_records_unasked():
    """All kernels of one output; Φ alone of several, or of several frames that are read."""
    kernels_of_one = {"entk", "phi", "g", "g_tilde", "g_tilde_tilde"}
    classes = wf.Dataset(DATA.x, np.eye(6)[:, :3])
    images = wf.Dataset(DATA.x[:, None], DATA.y)
    frames = wf.Dataset(DATA.x.reshape(6, 2, 2), np.ones((6, 2)))
    for question, expected in (
        (problem(), kernels_of_one),
        (problem(data=classes), {"phi"}),
        (problem(data=frames, network=wf.RNN("relu", readout="every")), {"phi"}),
        (problem(data=images, network=wf.CNN(1, 1, "relu")), kernels_of_one - {"g_tilde_tilde"}),
    ):
        assert set(solve_lazy(question, every=20).dataset) & kernels_of_one == expected
