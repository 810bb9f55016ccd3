"""The engine at infinite width against exact routes, finite networks, and its own laws."""

from __future__ import annotations

import numpy as np
import pytest

import widefield as wf
from widefield.errors import InputError, TooFewSamplesError
from widefield.numerics.sobol import quasi_normals

RNG = np.random.default_rng(7)
X = RNG.normal(size=(4, 6))
Y = np.array([1.0, -1.0, 0.5, -0.7])
RULES = [wf.rules.GD(), wf.rules.FA(0.6), wf.rules.DFA(), wf.rules.GLN(), wf.rules.Hebb()]
KERNELS = ("f", "entk", "phi", "g", "g_tilde", "g_tilde_tilde")


def problem(rule="gd", depth=2, activation="tanh", richness=1.0, steps=10, dt=0.1, **training) -> wf.Problem:
    return wf.Problem(wf.Dataset(X, Y), wf.MLP(depth, activation), rule, richness, wf.Training(steps, dt, **training))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("depth", [1, 3])
def test_linear_networks_are_solved_exactly(rule, depth):
    question = problem(rule, depth, "linear")
    theory = wf.solve(question, samples=256, seeds=2)
    exact = wf.solve(question, method="linear")
    for name in KERNELS:
        np.testing.assert_allclose(theory[name], exact[name], atol=1e-8, err_msg=name)


@pytest.mark.parametrize(
    "rule", [*RULES[:2], *(pytest.param(rule, marks=pytest.mark.slow) for rule in RULES[2:])], ids=repr
)
def test_wide_networks_agree(rule):
    # 6 variables of up to 500 correlated entries; t with about 10 degrees of freedom. A largest deviation of
    # 8 standard errors has a false-alarm rate below 1 in 200 per rule, and keys are fixed.
    question = problem(rule, 2, richness=1.5)
    theory = wf.solve(question, samples=2048, seeds=8, seed=1)
    # Dense ones: conditioned networks share the engine's algebra, and with it its mistakes.
    networks = wf.simulate(question, width=1500, seeds=10, engine="dense")
    for name in KERNELS:
        error = np.sqrt(theory[name + "_se"] ** 2 + networks[name + "_se"] ** 2) + 1e-9
        deviation = np.abs((theory[name] - networks[name]) / error)
        assert float(deviation.max()) < 8, name
        assert float((deviation**2).mean()) < 4, name


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_small_richness_is_lazy(rule):
    # The lazy limit differs by O(γ₀) = 1e-3, the engine by its error bars: 6 of them with 7 degrees of freedom
    # for 40 correlated entries have a false-alarm rate below 1 in 100 per rule; keys are fixed.
    question = problem(rule, 2, richness=1e-3, steps=10)
    theory = wf.solve(question, samples=1024, seeds=8)
    lazy = wf.solve(question, method="lazy")
    for name in ("f", "entk", "phi", "g"):
        deviation = np.abs(theory[name] - lazy[name])
        assert np.all(deviation < 6 * theory[name + "_se"] + 5e-3), name


def test_causality():
    long = wf.solve(problem(steps=12), samples=256, seeds=2)
    short = wf.solve(problem(steps=6), samples=256, seeds=2)
    for name in KERNELS:
        np.testing.assert_allclose(long[name][:7], short[name], atol=1e-10, err_msg=name)


def test_test_points_never_teach():
    data = wf.Dataset(X, Y, x_test=X[::-1].copy(), y_test=Y[::-1].copy())
    question = wf.Problem(data, wf.MLP(2), "gd", 1.0, wf.Training(10, 0.1))
    theory = wf.solve(question, samples=256, seeds=2)
    np.testing.assert_allclose(theory["f_test"], theory["f"][:, ::-1], atol=1e-6)
    assert "f_test_se" in theory
    np.testing.assert_allclose(theory["test_loss"], theory["loss"], atol=1e-6)


def test_same_seed_same_numbers():
    first, again, other = (wf.solve(problem(), samples=256, seeds=2, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first["entk"], again["entk"])
    assert np.abs(first["entk"] - other["entk"]).max() > 0


def test_one_hidden_layer_fa_is_dfa():
    fa = wf.solve(problem(wf.rules.FA(0.0), 1), samples=256, seeds=2)
    dfa = wf.solve(problem("dfa", 1), samples=256, seeds=2)
    np.testing.assert_allclose(fa["f"], dfa["f"], atol=1e-10)


def test_permuting_samples_permutes_results():
    order = np.array([2, 0, 3, 1])
    plain = wf.solve(problem("gd", 1, "relu"), samples=256, seeds=2)
    data = wf.Dataset(X[order], Y[order])
    mixed = wf.solve(wf.Problem(data, wf.MLP(1, "relu"), "gd", 1.0, wf.Training(10, 0.1)), samples=256, seeds=2)
    # Input directions are the singular vectors of x, whose signs may flip: equal in law, and to sampling error here.
    error = np.sqrt(plain["f_se"].values[:, order] ** 2 + mixed["f_se"].values ** 2).max()
    assert np.abs(plain["f"].values[:, order] - mixed["f"].values).max() < 10 * error


def test_kernels_are_symmetric_and_positive():
    theory = wf.solve(problem("gd", 2, "relu"), samples=512, seeds=2)
    for name in ("phi", "g", "g_tilde_tilde", "entk"):
        kernel = theory[name].values
        np.testing.assert_allclose(kernel, np.swapaxes(kernel, -1, -2), atol=1e-10)
        assert np.linalg.eigvalsh(kernel).min() > -1e-10


def test_too_few_particles_is_an_error():
    with pytest.raises(TooFewSamplesError, match="raise samples"):
        wf.solve(problem("gd", 3, steps=40), samples=40, seeds=2, tolerance=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 3}, "samples"),
        ({"seeds": 1}, "seeds"),
        ({"tolerance": 1.0}, "tolerance"),
        ({"precision": "float16"}, "precision"),
        ({"accuracy": 0.0}, "accuracy"),
        ({"method": "magic"}, "method"),
        ({"sample": 10}, "sample"),
        ({"record": ["k"]}, "record"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        wf.solve(problem(), **options)


def test_accuracy_is_reached():
    theory = wf.solve(problem("gd", 1, steps=5), accuracy=0.02)
    for name in ("f", "entk"):
        assert np.sqrt((theory[name + "_se"] ** 2).mean()) <= 0.02 * np.sqrt((theory[name] ** 2).mean())


def test_float32_stays_within_its_error_bars():
    single = wf.solve(problem(), samples=1024, seeds=4, precision="float32")
    double = wf.solve(problem(), samples=1024, seeds=4, seed=9)
    error = np.sqrt(single["entk_se"] ** 2 + double["entk_se"] ** 2)
    assert float((((single["entk"] - double["entk"]) / error) ** 2).mean()) < 4


def test_second_order_integrator():
    # Gradient flow by a fine Euler run; halving dt divides the error of ab2 by about 4, that of Euler by 2.
    def final(steps, integrator):
        question = problem("gd", 2, "linear", steps=steps, dt=1.0 / steps, integrator=integrator)
        return wf.solve(question, samples=256, seeds=2)["f"].values[-1]

    coarse, fine, finest = (final(n, "ab2") for n in (10, 20, 40))
    order = np.log2(np.abs(coarse - fine).max() / np.abs(fine - finest).max())
    assert order > 1.7


def action(result, name):
    """Response times the kernel it acts on: what does not depend on how a response is split over smooth fields."""
    past = {"a": "g_two_time", "b": "phi_two_time", "c": "g_tilde_tilde_two_time", "d": "phi_two_time"}[name[-1]]
    kernel = result[past].values
    kernel = kernel[1:] if name[-1] in "ac" else kernel[:-1]
    return np.einsum("ltsmk,lsukn->ltumn", result[name].values, kernel)


@pytest.mark.parametrize("rule", [wf.rules.GD(), wf.rules.FA(0.6)], ids=repr)
def test_two_time_kernels_and_responses_of_linear_networks(rule):
    question = problem(rule, 3, "linear", steps=5)
    theory = wf.solve(question, samples=256, seeds=2, two_time=1)
    exact = wf.solve(question, method="linear", two_time=True)
    names = [n for n in exact.dataset.data_vars if "two_time" in n or "response" in n]
    assert {"phi_two_time", "response_a", "response_b"} <= set(names)
    for name in names:
        assert theory[name].dims == exact[name].dims
        if "response" in name:
            np.testing.assert_allclose(action(theory, name), action(exact, name), atol=1e-8, err_msg=name)
        else:
            np.testing.assert_allclose(theory[name], exact[name], atol=1e-8, err_msg=name)


def test_trajectories_of_particles():
    question = problem("dfa", 2, steps=5)
    kernels = ("phi", "h_particles", "z_particles", "g_tilde_particles")
    theory = wf.solve(question, samples=256, seeds=2, record=kernels, neurons=256)
    assert theory["h_particles"].dims == ("time", "layer", "sample", "neuron")
    assert theory["h_particles"].shape == (6, 2, 4, 512)
    np.testing.assert_allclose(
        (np.tanh(theory["h_particles"]) ** 2).mean("neuron"),
        np.einsum("tlmm->tlm", theory["phi"].values),
        atol=1e-10,
    )
    np.testing.assert_array_equal(theory["h_final"], theory["h_particles"][-1])


def test_minibatches_teach_only_their_points():
    training = wf.Training(6, 0.1, batch_size=2, schedule="cyclic")
    np.testing.assert_array_equal(training.batches(4)[:3], [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    shuffled = wf.Training(6, 0.1, batch_size=2, batch_seed=3).batches(4)
    np.testing.assert_array_equal(shuffled.reshape(3, 2, 4).sum(1), 1)  # every point once per epoch
    # Teaching points 0 and 1 only is training on them alone, with the others as test points.
    first = wf.Problem(wf.Dataset(X, Y), wf.MLP(2), "gd", 1.0, wf.Training(1, 0.1, batch_size=2, schedule="cyclic"))
    alone = wf.Dataset(X[:2], Y[:2], x_test=X[2:], y_test=Y[2:])
    second = wf.Problem(alone, wf.MLP(2), "gd", 1.0, wf.Training(1, 0.1))
    mixed, plain = (wf.simulate(p, 50, seeds=2, engine="dense", seed=1) for p in (first, second))
    np.testing.assert_allclose(mixed["f"][1, :2], plain["f"][1], atol=1e-12)
    np.testing.assert_allclose(mixed["f"][1, 2:], plain["f_test"][1], atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "network", "shape", "options"),
    [
        (wf.rules.FA(0.5), wf.MLP(2), (5, 3), {"momentum": 0.5}),
        ("gln", wf.MLP(2), (5, 3), {}),
        ("gd", wf.CNN(2), (5, 4, 2), {"weight_decay": 0.3}),
    ],
    ids=["fa", "gln", "cnn"],
)
def test_between_recorded_steps_only_the_batch_passes(rule, network, shape, options):
    """Dense networks do not depend on what passes through them; a batch of 2 of 5 holds a point twice now and then."""
    rng = np.random.default_rng(4)
    data = wf.Dataset(rng.normal(size=shape), rng.choice([-1.0, 1.0], 5), x_test=rng.normal(size=shape)[:2])
    problem = wf.Problem(data, network, rule, 1.0, wf.Training(11, 0.1, batch_size=2, batch_seed=2, **options))
    every, third = (wf.simulate(problem, 20, seeds=2, engine="dense", seed=1, every=k) for k in (1, 3))
    kept = [0, 3, 6, 9, 11]
    np.testing.assert_allclose(third["f"], every["f"][kept], atol=1e-12)
    np.testing.assert_allclose(third["f_test"], every["f_test"][kept], atol=1e-12)
    np.testing.assert_allclose(third["h_final"], every["h_final"], atol=1e-12)


@pytest.mark.slow
def test_minibatches_agree_with_wide_networks():
    # 20 correlated entries, about 14 degrees of freedom: 7 standard errors are a false alarm in under 1 in 500 keys.
    training = wf.Training(8, 0.1, batch_size=2, batch_seed=1)
    question = wf.Problem(wf.Dataset(X, Y), wf.MLP(2), wf.rules.FA(0.5), 1.0, training)
    theory = wf.solve(question, samples=1024, seeds=8, every=2)  # half of the steps pass the batch only
    networks = wf.simulate(question, 1000, seeds=8, engine="dense", seed=5, every=2)
    error = np.sqrt(theory["f_se"] ** 2 + networks["f_se"] ** 2) + 1e-9
    assert float(np.abs((theory["f"] - networks["f"]) / error).max()) < 7


def test_kernels_between_positions():
    images = np.random.default_rng(1).normal(size=(3, 4, 2))
    question = wf.Problem(wf.Dataset(images, Y[:3]), wf.CNN(2, filter=3), "dfa", 1.0, wf.Training(3, 0.1))
    wanted = ("phi", "g_tilde", "phi_positions", "g_tilde_positions")
    theory = wf.solve(question, samples=1024, seeds=2, record=wanted)
    whole = {name: theory[name + "_positions"].values for name in ("phi", "g_tilde")}
    assert theory["phi_positions"].dims[-2:] == ("position", "position_")
    np.testing.assert_allclose(np.einsum("tlmnaa->tlmn", whole["phi"]) / 4, theory["phi"], atol=1e-12)
    np.testing.assert_allclose(np.einsum("tlmnaa->tlmn", whole["g_tilde"]), theory["g_tilde"], atol=1e-12)
    # ⟨φ_μa φ_νb⟩ is symmetric under exchange of both indices at once.
    np.testing.assert_allclose(whole["phi"], whole["phi"].transpose(0, 1, 3, 2, 5, 4), atol=1e-12)


def test_layers_of_residual_networks_are_independent_particle_by_particle():
    """Layer ℓ+1 adds to particle i of layer ℓ, so distances from 0 must not be correlated between layers.

    Each of 3·8² correlations has a standard error of 1/√4096 or less; one beyond 5 by chance in 1 of 10⁴ runs.
    """
    first, second, third = np.abs(quasi_normals(3, range(1), 3, 8, 4096, "float64", joint=True)[0])
    for a, b in ((first, second), (first, third), (second, third)):
        assert np.abs(np.corrcoef(a, b)[:8, 8:]).max() < 5 / np.sqrt(4096)
