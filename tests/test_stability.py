"""Steps that are too large are warned of, and exploded runs are errors rather than results."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.engine import run as engine_run
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.stability import LOST, MOST_POINTS, largest_eigenvalue, stable_step
from widefield.errors import DivergenceError, InputError, StabilityWarning
from widefield.results import growth
from widefield.results.growth import check_growth
from widefield.results.result import make_result

X = np.random.default_rng(3).standard_normal((6, 5))
Y = np.sign(X[:, 0])


def make_problem(rule="gd", network=None, richness=1.0, data=None, steps=5, dt=0.1, **training) -> wf.Problem:
    training = wf.Training(steps, dt, **training)
    return wf.Problem(data or wf.Dataset(X, Y), network or wf.MLP(2, "erf"), rule, richness, training)


def simulate(problem: wf.Problem, **options) -> wf.Result:
    return wf.simulate(problem, 20, 2, engine="dense", progress=False, **options)


def test_power_iterations_find_the_largest_eigenvalue():
    spread = np.random.default_rng(0).standard_normal((40, 25))
    kernel = spread @ spread.T + 20 * np.ones((40, 40))
    assert largest_eigenvalue(kernel) == pytest.approx(np.linalg.eigvalsh(kernel)[-1], rel=1e-6)


@pytest.mark.parametrize("rule", ["gd", "gln", "dfa", wf.rules.FA(0.5), wf.rules.Mixture(("gd", "dfa"))], ids=repr)
def test_the_stable_step_is_two_over_the_largest_eigenvalue(rule):
    """1024 random neurons know the largest eigenvalue to a few per cent; the draw is fixed."""
    problem = make_problem(rule)
    exact = 2 / np.linalg.eigvalsh(wf.lazy.kernels(X, problem.network, problem.rule, outputs=("entk",)).entk)[-1]
    assert stable_step(problem) == pytest.approx(exact, rel=0.1)


def test_what_else_the_stable_step_depends_on():
    plain = stable_step(make_problem())
    curvature = 2 / plain
    assert stable_step(make_problem(integrator="ab2")) == pytest.approx(plain / 2)
    # A logistic loss bends by a quarter.
    assert stable_step(make_problem(loss="logistic")) == pytest.approx(4 * plain)
    # With momentum the growth factor of the slowest mode leaves the unit circle: dt²λ + 2dt = 4τ.
    dt = stable_step(make_problem(momentum=0.3))
    step = np.array([[1 - dt / 0.3, -curvature * dt / 0.3], [dt * (1 - dt / 0.3), 1 - curvature * dt * dt / 0.3]])
    assert np.abs(np.linalg.eigvals(step)).max() == pytest.approx(1.0)
    assert stable_step(make_problem(batch_size=1)) > plain


def test_curvatures_of_losses_by_hand():
    """Of cross entropy at f = 0: δ_cc'/C − 1/C² has the largest eigenvalue 1/C. A loss without one tells nothing."""
    plain = stable_step(make_problem())
    data = wf.Dataset(X, np.eye(3)[np.arange(6) % 3])
    assert stable_step(make_problem(data=data, loss="cross_entropy")) == pytest.approx(3 * plain)
    assert stable_step(make_problem(loss=lambda f, y: 3 * (f - y) ** 2)) == pytest.approx(plain / 6)
    assert stable_step(make_problem(loss=lambda f, y: jnp.abs(f) ** 1.5)) == np.inf
    assert stable_step(make_problem(data=wf.Dataset(0 * X, Y), network=wf.MLP(1, "linear"))) == np.inf
    assert largest_eigenvalue(np.zeros((2, 2))) == 0


def test_batches_are_like_some_of_the_points():
    """Of equal points with K = k, λ_max is k times their number."""
    data = wf.Dataset(np.ones((6, 2)), Y)
    steps = [stable_step(make_problem(data=data, batch_size=size)) for size in (0, 1, 2, 6)]
    np.testing.assert_allclose(steps, steps[0] * np.array([1, 6, 3, 1]), rtol=1e-6)


def test_of_many_points_some_tell():
    """Points in clusters, whose largest eigenvalue grows with their number."""
    x = np.random.default_rng(1).standard_normal((3, 4))[np.arange(2 * MOST_POINTS) % 3]
    data = wf.Dataset(x, np.ones(len(x)))
    problem = make_problem(data=data, network=wf.MLP(1, "linear"))
    exact = np.linalg.eigvalsh(2 * x @ x.T / 4)[-1]
    assert stable_step(problem) == pytest.approx(2 / exact, rel=0.15)


def test_networks_whose_hidden_kernels_are_not_known_have_a_bound():
    lines = wf.Dataset(np.random.default_rng(2).standard_normal((4, 5, 2)), np.array([1.0, -1.0, 1.0, -1.0]))
    for network in (wf.CNN(2, activation="erf"), wf.CNN(2, activation="erf", readout="pool")):
        problem = make_problem(data=lines, network=network)
        exact = 2 / np.linalg.eigvalsh(wf.lazy.kernels(lines.x, network, "gd", outputs=("entk",)).entk)[-1]
        assert exact < stable_step(problem) < 50 * exact
        # It is that of the readout's part, Φ summed over positions or averaged over pairs of them.
        phi = wf.lazy.kernels(lines.x, network, "gd", outputs=("phi",)).phi[-1]
        readout = phi.sum(-1) if network.readout == "position" else phi.mean((-2, -1))
        assert stable_step(problem) == pytest.approx(2 / np.linalg.eigvalsh(readout)[-1], rel=0.15)
    residual = wf.MLP(2, "erf", residual=True)
    readout = wf.lazy.kernels(X, residual, "gd", outputs=("phi",)).phi[-1]
    assert stable_step(make_problem(network=residual)) == pytest.approx(2 / np.linalg.eigvalsh(readout)[-1], rel=0.1)
    recurrent = wf.RNN("erf", leak=0.5)
    readout = wf.lazy.kernels(lines.x, recurrent, "gd", outputs=("phi",)).phi[0, :, :, -1, -1]
    found = stable_step(make_problem(data=lines, network=recurrent))
    assert found == pytest.approx(2 / np.linalg.eigvalsh(readout)[-1], rel=0.1)


def test_a_large_step_is_warned_of_with_the_number():
    problem = make_problem(dt=1.05 * stable_step(make_problem()))
    with pytest.warns(
        StabilityWarning, match=rf"above the largest stable .* about {stable_step(problem):.2g}"
    ) as caught:
        simulate(problem)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(make_problem())


@pytest.mark.filterwarnings("ignore::widefield.errors.StabilityWarning")
def test_an_exploded_run_names_the_step_and_a_stable_dt():
    problem = make_problem(dt=2.0, steps=8)
    says = rf"at step \d+: the loss went from 3 to .*still growing; lower dt.*about {stable_step(problem):.2g}"
    with pytest.raises(DivergenceError, match=says):
        simulate(problem)
    with pytest.raises(DivergenceError, match=says):
        wf.solve(problem, "lazy")


@pytest.mark.filterwarnings("ignore::widefield.errors.StabilityWarning")
@pytest.mark.parametrize("method", ["networks", "theory"])
def test_an_explosion_ends_a_run_at_its_step(method, monkeypatch):
    """The step at which the loss passes its limit, from a run without one, which goes on."""

    def run(steps, neurons):
        problem = make_problem(dt=4.0, steps=steps, network=wf.MLP(1, "erf"))
        options = {"record": (), "neurons": neurons, "progress": False}  # another number makes another program
        if method == "networks":
            return wf.simulate(problem, 20, 1, engine="dense", **options)
        return wf.solve(problem, samples=64, seeds=2, precision="float64", **options)

    with monkeypatch.context() as patch:
        patch.setattr(engine_run, "LOST", np.inf)
        patch.setattr(growth, "FAR", np.inf)
        loss = run(40, 3).replicates["loss"].values[0]
    step = int(np.argmax(loss > LOST * loss[0]))
    assert 3 < step < 40
    says = rf"at step {step}, where the loss is .* times that of the start .*lower dt.* about {{}} are unstable"
    stable = stable_step(make_problem(network=wf.MLP(1, "erf")))
    with pytest.raises(DivergenceError, match=says.format(f"{stable:.2g}")):
        run(10**5, 4)


def test_growth_by_hand():
    """½|f−y|² over ½|y|²; a network whose targets are 0 has no start to compare with."""
    for y, expected in ((Y, [1.0, 4.0, 0.0]), (0 * Y, [0.0, 0.0, 0.0])):
        problem = make_problem(data=wf.Dataset(X, y, X[:2]))
        spec, inputs = prepare(problem, make_recording(problem, (), 1, 1), "float64")
        for factor, share in zip((0.0, 3.0, 1.0), expected, strict=True):
            f = np.concatenate([factor * y, [7.0, 7.0]])[:, None, None]  # test points do not count
            assert float(engine_run.growth(spec, inputs, jnp.asarray(f))) == pytest.approx(share)


def test_frames_without_a_target_do_not_count_in_growth():
    y = np.array([[2.0, np.nan], [np.nan, 1.0]])
    problem = make_problem(data=wf.Dataset(X[:2, :4].reshape(2, 2, 2), y), network=wf.RNN("erf", readout="every"))
    spec, inputs = prepare(problem, make_recording(problem, (), 1, 1), "float64")
    f = jnp.asarray([[[4.0], [50.0]], [[50.0], [1.0]]])
    assert float(engine_run.growth(spec, inputs, f)) == pytest.approx(4 / 5)


@pytest.mark.filterwarnings("ignore::widefield.errors.StabilityWarning")
def test_predicted_steps_that_explode_are_an_error():
    problem = make_problem(dt=2.0)
    with pytest.raises(DivergenceError, match=r"at step \d+: the loss went from 3 to .*lower dt"):
        wf.lazy.predict(problem, [2.0 * 30], discrete=True)
    wf.lazy.predict(make_problem(), [3.0], discrete=True)


def make_finished(loss, **others) -> wf.Result:
    problem = make_problem(steps=len(loss) - 1)
    arrays = {"loss": np.array([loss, loss], float), **others}
    return make_result(problem, "simulate", arrays, steps=np.arange(len(loss)))


def test_what_counts_as_an_explosion():
    training = make_problem().training
    for fine in ([1, 0.5, 0.1], [1, 900, 999], [1, 1e9, 2], [0, 0, 0], [0, 1e-9, 1e-3], [1, 2e3, 1.9e3], [2, 1, 1999]):
        check_growth(make_finished(fine), training)
    with pytest.raises(DivergenceError, match="at step 2: the loss went from 1 to 1e\\+05"):
        check_growth(make_finished([1, 10, 2e3, 1e5]), training)
    f = np.zeros((2, 3, 6, 1))
    f[1, 2, 4] = np.nan
    with pytest.raises(DivergenceError, match="at step 2, where f is not finite; lower dt"):
        check_growth(make_finished([1, 1, 1], f=f), training)
    f[1, 1, 4] = np.nan
    with pytest.raises(DivergenceError, match="at step 1, where f is not finite; lower dt"):
        check_growth(make_finished([1, 1, 1], f=f), training)
    with pytest.raises(DivergenceError, match="at step 2, where h_final is not finite"):
        check_growth(make_finished([1, 1, 1], h_final=np.full((2, 2, 6, 1), np.nan)), training)
    f[0, 0, 0] = np.inf
    with pytest.raises(DivergenceError, match="at step 0, where f is not finite; scale x or y down"):
        check_growth(make_finished([1, 1, 1], f=f), training)
    # One of several runs is enough.
    arrays = {"loss": np.array([[1.0, 0.5], [1.0, 1e4]])}
    with pytest.raises(DivergenceError, match="at step 1"):
        check_growth(make_result(make_problem(steps=1), "simulate", arrays, steps=np.arange(2)), training)


# Tiny richness


def test_networks_at_a_tiny_richness_are_those_of_the_lazy_limit_or_refused():
    """The same weights at every richness: f differs by O(γ₀), down to rounding over γ₀."""
    lazy = simulate(make_problem(richness=1e-6))["f"].values
    np.testing.assert_allclose(simulate(make_problem(richness=1e-9))["f"].values, lazy, atol=3e-6)
    with pytest.raises(InputError, match=r"richness is 1e-10; allowed: 1e-09 or more.*lazy"):
        simulate(make_problem(richness=1e-10))
    with pytest.raises(InputError, match=r"richness is 1e-06; allowed: 1e-05 or more.*dense"):
        wf.simulate(make_problem(richness=1e-6, steps=10**9), 20, engine="conditioned")
    assert wf.simulate(make_problem(richness=1e-6, steps=1), 2000, 1, progress=False).method == "simulate/dense"


# The last step


@pytest.mark.parametrize("every", [2, 9])
def test_the_last_step_is_recorded(every):
    problem = make_problem(network=wf.MLP(1, "erf"))
    kept = [*range(0, 5, every), 5]
    for run in (lambda **options: simulate(problem, **options), lambda **options: wf.solve(problem, "lazy", **options)):
        whole, some = run(), run(every=every)
        np.testing.assert_allclose(some["time"].values, 0.1 * np.array(kept))
        for name in ("f", "phi", "entk"):
            # Two compiled programs may round differently.
            np.testing.assert_allclose(some[name].values, whole[name].values[kept], rtol=0, atol=1e-14)


def test_numpy_numbers_are_numbers():
    training = wf.Training(np.int64(2), np.float32(0.5), momentum=np.float64(0.25))
    problem = wf.Problem(
        wf.Dataset(X, Y), wf.MLP(np.int32(1), "erf", residual=np.bool_(False)), "gd", np.int64(1), training
    )
    same = make_problem(network=wf.MLP(1, "erf"), steps=2, dt=0.5, momentum=0.25)
    assert problem == same
    assert wf.Problem.from_toml(problem.to_toml()) == same
    found = wf.simulate(problem, np.int64(10), np.int16(2), seed=np.uint8(3), progress=np.bool_(False))
    np.testing.assert_array_equal(found["f"].values, wf.simulate(same, 10, 2, seed=3, progress=False)["f"].values)
    found.summary()


def test_elementwise_functions_of_every_kind_are_taken():
    for phi in (jnp.sin, lambda h: jnp.where(h > 0, h, 0.1 * h), lambda h: h.reshape(h.shape) ** 3):
        assert wf.MLP(1, phi).activation.phi is phi
