"""Algorithm 1, against dense networks, against the closed algebra of linear networks, and against its own laws."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.errors import DivergenceError, InputError, NotConvergedError, TooFewSamplesError
from widefield.rules import Feedback, Weights
from widefield.solvers.fixed_point import solve_fixed_point
from widefield.solvers.fixed_point.iterate import Options, start_from_lazy
from widefield.solvers.fixed_point.noise import draw_noise
from widefield.solvers.fixed_point.output import Setting
from widefield.solvers.fixed_point.plan import make_plan
from widefield.solvers.fixed_point.sweep import sweep
from widefield.solvers.linear import solve_linear


@dataclass(frozen=True)
class HebbianFeedback(wf.rules.Rule):
    """Fixed feedback with a Hebbian share: D(t,t) is not 0 even for linear networks."""

    feedback: ClassVar[Feedback] = Weights(rho=0.8, learns=False)

    def local(self, site):
        return site.phi_dot * site.signal + 0.4 * site.phi


RULES = {
    "gd": wf.rules.GD(),
    "fa": wf.rules.FA(rho=0.6),
    "dfa": wf.rules.DFA(),
    "gln": wf.rules.GLN(),
    "hebb": wf.rules.Hebb(),
    "kolen_pollack": wf.rules.KolenPollack(rho=0.4),
}
X = np.random.default_rng(1).standard_normal((3, 4))
Y = np.array([1.0, -1.0, 0.5])
STEPS, DT = 7, 0.2
ACTIVATIONS = {
    "tanh": (np.tanh, lambda h: 1 - np.tanh(h) ** 2),
    "relu": (lambda h: np.sqrt(2) * np.maximum(h, 0), lambda h: np.sqrt(2) * (h > 0)),
}
KERNELS = {"phi": (0, 0), "g": (1, 1), "g_tilde": (1, 2), "g_tilde_tilde": (2, 2)}


def make_problem(rule="gd", depth=2, activation="tanh", richness=1.5, steps=STEPS, dt=DT, **training):
    rule = RULES.get(rule, rule)
    return wf.Problem(wf.Dataset(X, Y), wf.MLP(depth, activation), rule, richness, wf.Training(steps, dt, **training))


def dense_network(problem: wf.Problem, rule: str, width: int, seed: int) -> dict[str, np.ndarray]:
    """Plain NumPy training of one finite network (docs/theory.md); shares no code with the package."""
    rng = np.random.default_rng(seed)
    depth, gamma, dt = problem.network.depth, problem.richness, problem.training.dt
    phi, phi_dot = ACTIVATIONS[problem.network.activation.name]
    points, inputs = X.shape
    fans = [inputs] + [width] * (depth - 1)
    w = [rng.standard_normal((width, fan)) for fan in fans]
    readout = rng.standard_normal(width)
    rho = {"fa": 0.6, "kolen_pollack": 0.4}.get(rule, 1.0)
    fresh = np.sqrt(1 - rho**2)
    back = [rho * m + fresh * rng.standard_normal(m.shape) for m in w]
    back_readout = rho * readout + fresh * rng.standard_normal(width)
    direct = [rng.standard_normal((width, 1)) for _ in w]
    gain = [phi_dot(rng.standard_normal((width, inputs)) @ X.T / np.sqrt(inputs)) for _ in w]
    f, fields = [], []
    for _ in range(problem.training.steps + 1):
        h, out, slope = [w[0] @ X.T / np.sqrt(inputs)], [], []
        for i in range(depth):
            slope.append(gain[i] if rule == "gln" else phi_dot(h[i]))
            out.append(gain[i] * h[i] if rule == "gln" else phi(h[i]))
            if i + 1 < depth:
                h.append(w[i + 1] @ out[i] / np.sqrt(width))
        f.append(readout @ out[-1] / (gamma * width))
        delta = Y - (f[-1] - f[0])

        def backward(matrices, vector, slope=slope):
            g, signal = [], np.repeat(vector[:, None], points, 1)
            for i in reversed(range(depth)):
                g.insert(0, slope[i] * signal)
                signal = matrices[i].T @ g[0] / np.sqrt(width)
            return g

        g = backward(w, readout)
        if rule in ("fa", "kolen_pollack"):
            g_tilde = backward(back, back_readout)
        elif rule == "dfa":
            g_tilde = [s * z for s, z in zip(slope, direct, strict=True)]
        elif rule == "hebb":
            g_tilde = [delta * o for o in out]
        else:
            g_tilde = g
        fields.append((np.array(out), np.array(g), np.array(g_tilde)))
        ins = [X.T, *out[:-1]]
        updates = [dt * gamma / np.sqrt(n) * (a * delta) @ b.T for n, a, b in zip(fans, g_tilde, ins, strict=True)]
        w = [m + u for m, u in zip(w, updates, strict=True)]
        readout = readout + dt * gamma * out[-1] @ delta
        if rule == "kolen_pollack":
            back = [m + u for m, u in zip(back, updates, strict=True)]
            back_readout = back_readout + dt * gamma * out[-1] @ delta
    result = {"f": np.array(f) - f[0]}
    for name, (a, b) in KERNELS.items():
        left, right = (np.array([step[k] for step in fields]) for k in (a, b))
        result[f"{name}_two_time"] = np.einsum("tlnm,slnk->ltsmk", left, right, optimize=True) / width
    return result


def largest_z(theory, networks: list[dict[str, np.ndarray]], name: str) -> float:
    """Largest |theory − networks| in standard errors of the difference.

    A single entry's standard error from few runs can come out far too small; entries below half the
    root mean square over the variable are raised to that.
    """
    values = np.stack([net[name] for net in networks])
    variance = theory[f"{name}_se"].values ** 2 + values.var(0, ddof=1) / len(values)
    error = np.sqrt(np.maximum(variance, variance.mean() / 4))
    return float(np.max(np.abs(theory[name].values - values.mean(0)) / error))


def check_against_networks(problem, rule, *, width=1200, networks=10, samples=1024, seeds=6):
    """All two-time kernels and f within 7 standard errors.

    With about 12 degrees of freedom P(|t| > 7) = 1.4e-5; the up to 1e4 entries of a variable are smooth
    in time and have some 20 independent directions, so a variable's false-alarm rate is below 3e-4.
    """
    theory = solve_fixed_point(problem, samples=samples, seeds=seeds)
    ensemble = [dense_network(problem, rule, width, 100 + seed) for seed in range(networks)]
    for name in ("f", *(f"{kernel}_two_time" for kernel in KERNELS)):
        assert largest_z(theory, ensemble, name) < 7, name


@pytest.mark.parametrize(
    ("rule", "depth"),
    [
        pytest.param(rule, depth, marks=[] if rule in ("gd", "fa") or depth == 1 else pytest.mark.slow)
        for rule in RULES
        for depth in (1, 2)
    ],
)
def test_agrees_with_dense_networks(rule, depth):
    check_against_networks(make_problem(rule, depth), rule)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_agrees_with_dense_networks_at_depth_3(rule):
    check_against_networks(make_problem(rule, 3), rule, width=2000, samples=2048)


@pytest.mark.slow
def test_relu_needs_regression_responses():
    """φ̈ of ReLU is a delta function, which Jacobian responses miss; they are off by far more than 7 errors."""
    problem = make_problem("gd", 2, "relu", richness=2.0)
    networks = [dense_network(problem, "gd", 1000, seed) for seed in range(24)]
    right = solve_fixed_point(problem, samples=1024, seeds=6)
    wrong = solve_fixed_point(problem, samples=1024, seeds=4, responses="jacobian")
    assert all(largest_z(right, networks, name) < 7 for name in ("f", "phi_two_time", "g_two_time"))
    assert largest_z(wrong, networks, "g_two_time") > 7


@pytest.mark.parametrize("rule", ["gd", "fa"])
def test_both_kinds_of_response_agree_for_a_smooth_activation(rule):
    """At depth 2 with tanh, in every variable; responses as they act, i.e. times the kernel of what they act on."""
    problem = make_problem(rule, 2)
    a = solve_fixed_point(problem, samples=1024, seeds=4)
    b = solve_fixed_point(problem, samples=1024, seeds=4, seed=1, responses="jacobian")
    for name in ("f", "entk", *KERNELS, *(f"{kernel}_two_time" for kernel in KERNELS)):
        variance = a[f"{name}_se"].values ** 2 + b[f"{name}_se"].values ** 2
        error = np.sqrt(np.maximum(variance, variance.mean() / 4))
        # 6 degrees of freedom: P(|t| > 9) = 1e-4, for some 20 independent directions.
        assert np.max(np.abs(a[name] - b[name]).values / error) < 9, name
    acted = {
        "response_a": ("g_two_time", 2),
        "response_b": ("phi_two_time", 1),
        "response_c": ("g_tilde_tilde_two_time", 2),
        "response_d": ("phi_two_time", 1),
    }
    for name in set(acted) & set(a.dataset):
        kernel, layer = acted[name]
        action = [np.einsum("tsab,sqbc->tqac", r[name].values[0], b[kernel].sel(layer=layer).values) for r in (a, b)]
        assert np.linalg.norm(action[0] - action[1]) < 0.1 * np.linalg.norm(action[1]) + 1e-12, name


@pytest.mark.parametrize(
    ("rule", "depth", "responses"),
    [
        ("gd", 2, "jacobian"),
        ("fa", 2, "jacobian"),
        ("gd", 3, "regression"),
        ("fa", 3, "regression"),
        ("dfa", 2, "regression"),
        ("hebb", 2, "regression"),
        (wf.rules.Mixture((wf.rules.FA(0.5), wf.rules.GD())), 2, "regression"),
        pytest.param(wf.rules.FA(1.0), 3, "regression", marks=pytest.mark.slow),
        pytest.param("kolen_pollack", 3, "jacobian", marks=pytest.mark.slow),
        pytest.param("fa", 3, "jacobian", marks=pytest.mark.slow),
    ],
)
def test_linear_networks_have_no_sampling_error(rule, depth, responses):
    """Moment-matched samples carry a linear network exactly: the closed algebra's kernels come out to rounding."""
    problem = make_problem(rule, depth, "linear", richness=1.0, dt=0.1)
    exact = solve_linear(problem, two_time=True)
    found = solve_fixed_point(problem, samples=1024, seeds=1, tolerance=1e-6, convergence=1e-10, responses=responses)
    names = ["f", "entk", *(f"{kernel}_two_time" for kernel in KERNELS)]
    if responses == "jacobian":
        names += [f"response_{x}" for x in "abcd" if f"response_{x}" in exact]
    for name in names:
        np.testing.assert_allclose(found[name].values, exact[name].values, rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.slow
def test_dropped_directions_cost_less_than_the_cutoff():
    """Under Kolen–Pollack some directions of the past are smaller than any cutoff; what is dropped falls with it."""
    problem = make_problem("kolen_pollack", 3, "linear", richness=1.0, dt=0.1)
    exact = solve_linear(problem, two_time=True)
    errors = []
    for cutoff in (1e-4, 1e-5, 1e-6):
        found = solve_fixed_point(problem, samples=1024, seeds=1, tolerance=cutoff, convergence=1e-10)
        errors.append(max(float(np.abs(found[f"{k}_two_time"] - exact[f"{k}_two_time"]).max()) for k in KERNELS))
        assert errors[-1] < 0.1 * cutoff
    assert errors[0] > errors[1] > errors[2]


def test_equal_time_responses_count():
    """D(t,t) ≠ 0: leaving it out would show at once. Dropped directions cost about 10·cutoff² (D is of order 10)."""
    problem = make_problem(HebbianFeedback(), 2, "linear", richness=1.0, dt=0.1)
    exact = solve_linear(problem, two_time=True)
    found = solve_fixed_point(problem, samples=1024, seeds=1, tolerance=1e-4, convergence=1e-10)
    for name in ("f", *(f"{kernel}_two_time" for kernel in KERNELS)):
        np.testing.assert_allclose(found[name].values, exact[name].values, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("rule", ["gd", "fa"])
def test_an_iteration_is_causal(rule):
    """What is wrong after some time changes nothing before it; so the iteration ends after finitely many steps."""
    problem = make_problem(rule, 2)
    plan = make_plan(problem)
    options = Options(samples=1024, damping=1.0, max_iterations=1, convergence=1.0, cutoff=1e-3, jacobian=False)
    setting = Setting(problem.richness, DT, jnp.asarray(Y), options.cutoff)
    noise = draw_noise(plan, options.samples, 0, 0)
    order = start_from_lazy(problem, plan, setting, noise, options)
    order, _ = sweep(plan, problem.training.loss, False, setting, noise, order)
    known = 4 * len(X)
    late = jnp.arange(plan.grid.size) >= known

    def spoil(kernel):
        scale = jnp.where(late, 1.3, 1.0)
        return kernel * scale[:, None] * scale

    spoilt = order._replace(
        phi=tuple(map(spoil, order.phi)),
        g=tuple(map(spoil, order.g)),
        g_tilde_tilde=tuple(map(spoil, order.g_tilde_tilde)),
        b=tuple(map(spoil, order.b)),
        delta=order.delta.at[4:].mul(2.0),
    )
    a, b = (sweep(plan, problem.training.loss, False, setting, noise, start)[0] for start in (order, spoilt))
    for x, y in zip((*a.phi, *a.g, *a.g_tilde, *a.b), (*b.phi, *b.g, *b.g_tilde, *b.b), strict=True):
        np.testing.assert_allclose(x[:known, :known], y[:known, :known], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a.f[:4], b.f[:4], rtol=1e-9, atol=1e-12)
    assert not np.allclose(a.phi[2], b.phi[2])


def test_result_is_labelled_and_repeatable():
    problem, totals = make_problem("fa", 2), []

    class Mine:
        def update(self, done, total, message=""):
            totals.append(total)

    a, b = (solve_fixed_point(problem, samples=1024, seeds=2, seed=3, progress=Mine()) for _ in range(2))
    # As many iterations as causality can make necessary, in both replicates.
    assert set(totals) == {2 * 4 * 2 * (problem.training.steps + 1), 1}
    np.testing.assert_array_equal(a["f"].values, b["f"].values)
    assert a.method == "fixed_point"
    assert a["phi_two_time"].dims == ("layer", "step", "step_", "sample", "sample_")
    assert a["response_c"].dims == ("inner_layer", "step", "step_", "sample", "sample_")
    for name in ("entk", "loss", "phi_alignment", "gradient_cosine", "g_two_time_se"):
        assert name in a
    np.testing.assert_allclose(
        a["phi"].values, np.moveaxis(np.diagonal(a["phi_two_time"].values, axis1=1, axis2=2), -1, 0)
    )
    assert a.info["change"][0][-1] <= 0.01 * a.info["sampling_error"][0]
    assert len(a.info["change"][0]) == a.info["iterations"][0]
    assert {"samples": 1024, "seeds": 2, "damping": 1.0, "tolerance": 0.01, "convergence": 0.01,
            "responses": "regression"}.items() <= a.info.items()  # fmt: skip
    assert [len(a.info[name]) for name in ("iterations", "rank", "seconds_per_iteration", "sampling_error")] == [2] * 4
    assert all(0 < seconds < 60 for seconds in a.info["seconds_per_iteration"])
    assert 0 < a.info["sampling_error"][0] < 0.1
    # It is that of the last iteration, which convergence is measured by.
    rough = solve_fixed_point(problem, samples=1024, seeds=1, seed=3, max_iterations=1, convergence=1e6)
    assert rough.info["sampling_error"][0] != a.info["sampling_error"][0]
    np.testing.assert_array_equal(a["inner_layer"], [1])


def test_damping_leads_to_the_same_fixed_point():
    problem = make_problem("gd", 2)
    plain, damped = (
        solve_fixed_point(problem, samples=1024, seeds=1, damping=beta, convergence=1e-6, max_iterations=100)
        for beta in (1.0, 0.6)
    )
    np.testing.assert_allclose(plain["phi_two_time"].values, damped["phi_two_time"].values, atol=1e-5)


def test_says_when_it_fails():
    changes = r"\(before: (\de[-+]\d+, ){3}\de[-+]\d+\)"
    with pytest.raises(NotConvergedError, match=rf"max_iterations is 5, .*{changes}.*raise max_iterations"):
        solve_fixed_point(make_problem(), samples=1024, max_iterations=5, convergence=1e-30)
    with pytest.raises(TooFewSamplesError, match="samples is 20"):
        solve_fixed_point(make_problem(), samples=20)
    with pytest.raises(TooFewSamplesError, match="allowed: 88 or more"):
        solve_fixed_point(make_problem("fa", 2), samples=20)
    with pytest.raises(TooFewSamplesError, match="raise samples"):
        solve_fixed_point(make_problem("fa", 2), samples=100, tolerance=1e-6)
    with pytest.raises(DivergenceError, match="lower dt"):
        solve_fixed_point(make_problem("gd", 2, "linear", dt=1e40), samples=1024)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"damping": 0.0}, "damping"),
        ({"responses": "autodiff"}, "responses"),
        ({"tolerance": 0.5}, "tolerance"),
        ({"seeds": 0}, "seeds"),
        ({"convergence": 0.0}, "convergence"),
        ({"max_iterations": 0}, "max_iterations"),
    ],
)
def test_bad_arguments_are_named(change, argument):
    with pytest.raises(InputError, match=f"^{argument} is"):
        solve_fixed_point(make_problem(), **change)


def test_unsupported_problems_are_refused():
    tests = wf.Dataset(X, Y, x_test=X)
    classes = wf.Dataset(X, np.eye(3))
    training, network = wf.Training(2, 0.1), wf.MLP(2)
    refused = {
        "x_test is": wf.Problem(tests, network, "gd", 1.0, training),
        "y is": wf.Problem(classes, network, "gd", 1.0, training),
        r"network is MLP\(.*residual=True": wf.Problem(wf.Dataset(X, Y), wf.MLP(2, residual=True), "gd", 1.0, training),
        "network is CNN": wf.Problem(wf.Dataset(X[:, :, None], Y), wf.CNN(2), "gd", 1.0, training),
        "weight_decay is": make_problem(weight_decay=0.1),
        "momentum is": make_problem(momentum=0.1),
        "integrator is": make_problem(integrator="ab2"),
    }
    for says, problem in refused.items():
        with pytest.raises(InputError, match=f"^{says}"):
            solve_fixed_point(problem)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("rule", "depth"),
    [
        ("gd", 2),
        *(pytest.param(rule, depth, marks=SLOW) for rule in RULES for depth in (1, 2, 3) if (rule, depth) != ("gd", 2)),
    ],
)
def test_agrees_with_the_engine(rule, depth):
    """Every variable that both record, within 8 standard errors.

    With 10 degrees of freedom P(|t| > 8) = 1.2e-5, for 10 variables of some 20 independent directions each.
    """
    problem = make_problem(rule, depth)
    engine = wf.solve(problem, samples=1024, seeds=6)
    found = solve_fixed_point(problem, samples=1024, seeds=6)
    for name in ("f", "delta", "loss", "entk", *KERNELS, "entk_alignment", "phi_alignment", "gradient_cosine"):
        variance = engine[f"{name}_se"].values ** 2 + found[f"{name}_se"].values ** 2
        scale = np.sqrt(np.maximum(variance, variance.mean() / 4)) + 1e-12
        assert np.max(np.abs(found[name].values - engine[name].values) / scale) < 8, name
