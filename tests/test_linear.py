"""The closed algebra of linear networks, against plain dense networks and against the exact two-layer flow."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from linear_networks import Dense, Infinite, train

import widefield as wf
from widefield import exact
from widefield.errors import DivergenceError, InputError
from widefield.rules import Feedback, Weights
from widefield.solvers.linear import closes, solve_linear
from widefield.solvers.linear.schedule import weight_memory


@dataclass(frozen=True)
class LeakyDirect(wf.rules.Rule):
    """Direct feedback with a Hebbian share, and an error factor that is not Δ."""

    feedback: ClassVar[Feedback] = wf.rules.Direct()

    def local(self, site):
        return site.phi_dot * site.signal + 0.3 * site.phi

    def teach(self, error, target):
        return 0.5 * error * target


@dataclass(frozen=True)
class HebbianFeedback(wf.rules.Rule):
    """Feedback through fixed aligned weights with a Hebbian share: D(t,t) is not 0."""

    feedback: ClassVar[Feedback] = Weights(rho=0.8, learns=False)

    def local(self, site):
        return site.phi_dot * site.signal + 0.4 * site.phi


@dataclass(frozen=True)
class SignDirect(wf.rules.Rule):
    feedback: ClassVar[Feedback] = wf.rules.Direct()

    def local(self, site):
        return jnp.sign(site.signal)


RULES = {
    "gd": wf.rules.GD(),
    "fa": wf.rules.FA(rho=0.6),
    "dfa": wf.rules.DFA(),
    "hebb": wf.rules.Hebb(),
    "kolen-pollack": wf.rules.KolenPollack(rho=0.4),
    "leaky": LeakyDirect(),
    "hebbian feedback": HebbianFeedback(),
}


def make_problem(rule, depth, *, outputs=1, richness=1.5, points=3, tests=2, **training):
    random = np.random.default_rng(7)
    x = random.normal(size=(points + tests, 5))
    y = 0.6 * random.normal(size=(points,) if outputs == 1 else (points, outputs))
    data = wf.Dataset(x[:points], y, x[points:] if tests else None)
    training = {"steps": 6, "dt": 0.06, **training}
    return wf.Problem(data, wf.MLP(depth, "linear"), rule, richness, wf.Training(**training))


def predicted(problem, shapes):
    """The theory's values in the reference's layout."""
    theory = solve_linear(problem)
    values = {name: theory[name].values for name in shapes}
    if "f_test" in theory:
        values["f"] = np.concatenate([values["f"], theory["f_test"].values], axis=1)
    return {name: value.reshape(shapes[name]) for name, value in values.items()}


def assert_exact(problem, width=300):
    reference = train(problem, Infinite(width, problem.network.depth))
    theory = predicted(problem, {name: value.shape for name, value in reference.items()})
    for name, value in reference.items():
        np.testing.assert_allclose(theory[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_is_the_infinite_width_limit(rule, depth):
    assert_exact(make_problem(rule, depth))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_several_outputs(rule):
    assert_exact(make_problem(rule, 3, outputs=2, points=2))


@pytest.mark.parametrize(
    "training",
    [{"weight_decay": 0.7}, {"momentum": 0.2}, {"weight_decay": 0.7, "momentum": 0.2}, {"integrator": "ab2"}],
    ids=str,
)
@pytest.mark.parametrize("name", ["gd", "fa", "kolen-pollack"])
def test_optimisers(name, training):
    assert_exact(make_problem(RULES[name], 2, **training))


@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
def test_other_losses(loss):
    x = np.random.default_rng(3).normal(size=(4, 3))
    y = np.array([1.0, -1, -1, 1]) if loss == "logistic" else np.eye(2)[[0, 1, 1, 0]]
    training = wf.Training(steps=5, dt=0.1, loss=loss)
    assert_exact(wf.Problem(wf.Dataset(x, y), wf.MLP(2, "linear"), "gd", 1.0, training))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("name", ["gd", "fa", "dfa", "hebb"])
def test_dense_networks_fluctuate_around_it(name, depth):
    """Means over 12 networks of width 200 within 6 standard errors.

    A t variable with 11 degrees of freedom exceeds 6 once in 10⁴; about 50 entries are independent, so one test in
    200 would fail by chance with other seeds. The networks' O(1/N) bias is about a quarter of a standard error.
    """
    problem, seeds = make_problem(RULES[name], depth), 12
    nets = [train(problem, Dense(200, 100 * depth + seed)) for seed in range(seeds)]
    theory = predicted(problem, {key: value.shape for key, value in nets[0].items()})
    for key, expected in theory.items():
        values = np.stack([net[key] for net in nets])
        error = values.std(0, ddof=1) / np.sqrt(seeds)
        assert np.all(np.abs(values.mean(0) - expected) <= 6 * error + 1e-12), key


WHITE = np.sqrt(3) * np.eye(3)  # K^x = 1


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("ab2", 2)])
@pytest.mark.parametrize("rule", [wf.rules.GD(), wf.rules.FA(rho=0.6), wf.rules.DFA(), wf.rules.Hebb()], ids=repr)
def test_tends_to_the_exact_flow_with_the_right_order(rule, integrator, order):
    """Whitened data, one hidden layer: Δ, H_y and G̃ along ŷ (Hebb: of one sample) at time 1, dt → 0."""
    y = np.array([0.9, -0.5, 0.7])
    single = isinstance(rule, wf.rules.Hebb)
    along = np.array([1.0, 0.0, 0.0]) if single else y / np.linalg.norm(y)
    flow = exact.two_layer_linear(rule, 1.4, float(along @ y), [1.0])
    errors, sizes = [], [1 / 20, 1 / 40, 1 / 80]
    for dt in sizes:
        training = wf.Training(steps=round(1 / dt), dt=dt, integrator=integrator)
        result = solve_linear(wf.Problem(wf.Dataset(WHITE, y), wf.MLP(1, "linear"), rule, 1.4, training))
        h, g_tilde = result["phi"].values[-1, 0], result["g_tilde"].values[-1, 0]
        got = [along @ result["delta"].values[-1], along @ h @ along, g_tilde[0, 0]]
        errors.append(np.abs(np.array(got) - [flow.delta[0], flow.h_y[0], flow.g_tilde[0]]).max())
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope - order) < 0.12, errors
    assert errors[-1] < 0.02


def flat(result, name):
    """A two-time object as matrices (layer, steps·P, steps·P)."""
    value = result[name].values.transpose(0, 1, 3, 2, 4)
    return value.reshape(len(value), value.shape[1] * value.shape[2], -1)


def teaching(problem, result, kernel):
    """γ₀dt·kernel(t,s)Δ(s) for s < t."""
    points = problem.data.points
    earlier = np.kron(np.tri(len(kernel) // points, k=-1), np.ones((points, points)))
    return problem.richness * problem.training.dt * kernel * earlier * result["delta"].values.reshape(-1)


def neighbours(problem, kernels, inputs):
    """Φ^0 … Φ^L with inputs, or G^1 … G^{L+1} with the readout's ones."""
    n = kernels.shape[1]
    x = problem.data.x
    blocks = n // len(x)
    return [np.tile(x @ x.T / x.shape[1], (blocks, blocks)), *kernels] if inputs else [*kernels, np.ones((n, n))]


def test_gradient_descent_obeys_the_algebra_of_appendix_e():
    """R matrices written out with inverses: h = u + Xg, g = r + Yh, X = A^{ℓ−1} + Φ_Δ, Y = B^ℓ + G_Δ."""
    problem = make_problem("gd", 3, tests=0)
    result = solve_linear(problem, two_time=True)
    phi, g = (neighbours(problem, flat(result, f"{name}_two_time"), name == "phi") for name in ("phi", "g"))
    a, b = flat(result, "response_a"), flat(result, "response_b")
    one, zero = np.eye(a.shape[1]), np.zeros_like(a[0])
    a, b = [zero, *a], [zero, *b, zero]  # A^0 … A^2; B^1 … B^3 at 1 … 3
    for layer in (1, 2, 3):
        x = a[layer - 1] + teaching(problem, result, phi[layer - 1])
        y = b[layer] + teaching(problem, result, g[layer])
        h_u, g_r = np.linalg.inv(one - x @ y), np.linalg.inv(one - y @ x)
        h_r, g_u = h_u @ x, g_r @ y
        close = {"rtol": 0, "atol": 1e-10}
        np.testing.assert_allclose(phi[layer], h_u @ phi[layer - 1] @ h_u.T + h_r @ g[layer] @ h_r.T, **close)
        np.testing.assert_allclose(g[layer - 1], g_r @ g[layer] @ g_r.T + g_u @ phi[layer - 1] @ g_u.T, **close)
        if layer < 3:
            np.testing.assert_allclose(a[layer], h_r, **close)
        if layer > 1:
            np.testing.assert_allclose(b[layer - 1], g_u, **close)
    assert np.abs(a[2]).max() > 0.01  # the test is about something


def test_feedback_alignment_obeys_the_algebra_of_appendix_e():
    problem = make_problem(wf.rules.FA(rho=0.6), 3, tests=0)
    result = solve_linear(problem, two_time=True)
    phi = neighbours(problem, flat(result, "phi_two_time"), True)
    mixed, own = (neighbours(problem, flat(result, f"{name}_two_time"), False) for name in ("g_tilde", "g_tilde_tilde"))
    b, c = flat(result, "response_b"), flat(result, "response_c")
    zero = np.zeros_like(b[0])
    assert np.abs(flat(result, "response_a")).max() == 0
    assert np.abs(flat(result, "response_d")).max() == 0
    b, c = [zero, *b, zero], [zero, *c]
    close = {"rtol": 0, "atol": 1e-10}
    for layer in (1, 2, 3):
        x = c[layer - 1] + teaching(problem, result, phi[layer - 1])
        y = b[layer] + teaching(problem, result, mixed[layer])
        np.testing.assert_allclose(own[layer - 1], 1.0, **close)
        np.testing.assert_allclose(phi[layer], phi[layer - 1] + x @ own[layer] @ x.T, **close)
        np.testing.assert_allclose(mixed[layer - 1], 0.6 * mixed[layer] + y @ x @ own[layer], **close)
        if layer < 3:
            np.testing.assert_allclose(c[layer], 0.6 * x, **close)
        if layer > 1:
            np.testing.assert_allclose(b[layer - 1], y, **close)


def test_two_time_kernels_meet_the_equal_time_ones():
    result = solve_linear(make_problem("fa", 2), two_time=True)
    assert result["inner_layer"].values.tolist() == [1]
    for name in ("phi", "g", "g_tilde", "g_tilde_tilde"):
        diagonal = np.einsum("lttmn->tlmn", result[f"{name}_two_time"].values)
        np.testing.assert_array_equal(diagonal, result[name].values)


@pytest.mark.parametrize(("one", "other", "depth"), [("gln", "gd", 3), (wf.rules.FA(rho=0.0), "dfa", 1)])
def test_rules_that_coincide(one, other, depth):
    a, b = (solve_linear(make_problem(rule, depth)) for rule in (one, other))
    for name in ("f", "entk", "phi", "g", "g_tilde", "f_test"):
        np.testing.assert_allclose(a[name].values, b[name].values, rtol=0, atol=1e-13)


def test_lazy_limit_keeps_its_kernel():
    problem = make_problem("gd", 2, richness=1e-5)
    result, x = solve_linear(problem), problem.data.x
    np.testing.assert_allclose(result["entk"].values[-1], 3 * x @ x.T / x.shape[1], rtol=0, atol=1e-8)


@pytest.mark.parametrize("training", [{"weight_decay": 0.3}, {"momentum": 0.1}, {"integrator": "ab2"}, {}], ids=str)
def test_weight_memory_is_the_optimiser(training):
    """A scalar weight with given gradients, stepped as `Training` says."""
    training = wf.Training(steps=7, dt=0.05, **training)
    gradients = np.random.default_rng(0).normal(size=8)
    decay, memory = weight_memory(training)
    weight, velocity = 1.3, 0.0
    for t in range(8):
        np.testing.assert_allclose(decay[t] * 1.3 + memory[t] @ gradients, weight, rtol=1e-13)
        gradient = gradients[t]
        if training.integrator == "ab2" and t > 0:
            gradient = 1.5 * gradients[t] - 0.5 * gradients[t - 1]
        if training.momentum:
            velocity += training.dt / training.momentum * (gradient - velocity)
            gradient = velocity
        weight += training.dt * (gradient - training.weight_decay * weight)


def test_refuses_what_does_not_close():
    good = make_problem("gd", 2)
    assert closes(good)
    assert not closes(make_problem(SignDirect(), 2))
    with pytest.raises(InputError, match="not linear in"):
        solve_linear(make_problem(SignDirect(), 2))
    for network in (wf.MLP(2, "tanh"), wf.MLP(2, "linear", residual=True)):
        with pytest.raises(InputError, match=r"method 'linear'"):
            solve_linear(wf.Problem(good.data, network, "gd", 1.0, good.training))
    with pytest.raises(InputError, match="two_time"):
        solve_linear(make_problem("gd", 2, outputs=2), two_time=True)


def test_says_when_training_diverges():
    with pytest.raises(DivergenceError, match="lower dt"):
        solve_linear(make_problem("gd", 3, steps=60, dt=3.0))


@pytest.mark.parametrize(
    ("network", "rule", "numbers"),
    [
        (wf.MLP(2, "linear"), "gd", 8 * 2 * (4 * 3) ** 2),  # 4 kernels, and 2 fields on 2 sources, in both layers
        (wf.MLP(2, "linear"), wf.rules.FA(0.5), 16 * 2 * (4 * 3) ** 2),  # 3 fields on 4 sources
        (wf.RNN("linear"), "gd", 5 * (3 * 2) ** 2 * 4),  # 5 kernels of frames at every time
    ],
    ids=repr,
)
def test_memory_is_known_beforehand(monkeypatch, network, rule, numbers):
    """Of 3 points at 4 times, 8 bytes a number."""
    x = np.ones((3, 2, 1) if isinstance(network, wf.RNN) else (3, 2))
    problem = wf.Problem(wf.Dataset(x, [1.0, -1.0, 0.5]), network, rule, 1.0, wf.Training(3, 0.01))
    monkeypatch.setattr("widefield.numerics.memory.available_bytes", lambda: 8 * numbers)
    wf.solve(problem, "linear", progress=False)
    monkeypatch.setattr("widefield.numerics.memory.available_bytes", lambda: 8 * numbers - 1)
    with pytest.raises(wf.errors.MemoryBudgetError, match="method 'linear' needs about"):
        wf.solve(problem, "linear", progress=False)
