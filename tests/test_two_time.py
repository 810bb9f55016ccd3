"""Two-time kernels and responses: `mean_field`, which reads them off one pass, against the iteration `fixed_point`."""

import numpy as np
import pytest
from agreement import alarm, runs_of

import widefield as wf

RULES = {
    "gd": wf.rules.GD(),
    "fa": wf.rules.FA(rho=0.5),
    "dfa": wf.rules.DFA(),
    "gln": wf.rules.GLN(),
    "hebb": wf.rules.Hebb(),
    # Layers that differ in which responses they have: none and C; A and A; C and none.
    "dfa_fa_fa": wf.rules.Mixture((wf.rules.DFA(), wf.rules.FA(rho=0.5), wf.rules.FA(rho=0.5))),
    "fa_gd_gd": wf.rules.Mixture((wf.rules.FA(rho=0.5), wf.rules.GD(), wf.rules.GD())),
    "gd_dfa_gd": wf.rules.Mixture((wf.rules.GD(), wf.rules.DFA(), wf.rules.GD())),
}
X = np.random.default_rng(4).standard_normal((2, 3))
Y = np.array([1.0, -0.7])
# What each response through W^ℓ acts on: the kernel, and whether it is that of layer ℓ+1 or of layer ℓ.
ACTED_ON = {
    "response_a": ("g_two_time", 1),
    "response_b": ("phi_two_time", 0),
    "response_c": ("g_tilde_tilde_two_time", 1),
    "response_d": ("phi_two_time", 0),
}
SIZE = {"samples": 2048, "seeds": 12, "progress": False}
# Of one comparison of all entries of all variables, see `alarm`; 29 comparisons are made.
FALSE_ALARM = 1e-4


def make_problem(rule, depth, activation="tanh"):
    # Fields of ReLU networks grow: Hebb needs smaller steps there.
    richness, dt = (1.5, 0.3) if activation == "tanh" else (1.0, 0.15)
    training = wf.Training(steps=4, dt=dt)
    return wf.Problem(wf.Dataset(X, Y), wf.MLP(depth, activation), RULES[rule], richness, training)


def of_engine(problem):
    return runs_of(wf.solve(problem, method="mean_field", two_time=1, tolerance=1e-4, **SIZE))


def of_iteration(problem, responses="regression"):
    options = {"convergence": 1e-4, "tolerance": 1e-4, "responses": responses}
    return runs_of(wf.solve(problem, method="fixed_point", **options, **SIZE))


def comparable(found):
    """All variables, with responses as they act: (A·G)(t,t') = Σ_s A(t,s)G(s,t') and so on, (runs, L−1, T, T, P, P).

    Where fields hardly move, the past is nearly linearly dependent and single entries of A are arbitrary; A·G is not.
    """
    out = {name: value for name, value in found.items() if name not in ACTED_ON and name != "h_final"}
    for name, (kernel, above) in ACTED_ON.items():
        if name in found:
            inner = found[name].shape[1]
            past = found[kernel][:, above : above + inner]
            out[f"{name} on {kernel}"] = np.einsum("rltsab,rlsqbc->rltqac", found[name], past)
    return out


def early_responses(found, last=2):
    """Single entries up to step `last`, while every step moves the fields enough to determine them."""
    return {name: found[name][:, :, : last + 1, : last + 1] for name in ACTED_ON if name in found}


CASES = [
    *((rule, depth, "tanh") for rule in ("gd", "fa", "dfa", "gln", "hebb") for depth in (1, 2, 3)),
    *((rule, 2, "relu") for rule in ("fa", "dfa", "gln", "hebb")),
    *((rule, 3, "tanh") for rule in ("dfa_fa_fa", "fa_gd_gd", "gd_dfa_gd")),
]


@pytest.mark.parametrize(
    ("rule", "depth", "activation"),
    [pytest.param(*case, marks=[] if case == ("fa", 2, "tanh") else pytest.mark.slow) for case in CASES],
)
def test_engine_and_iteration_agree(rule, depth, activation):
    """Every variable, two-time kernels and responses included."""
    problem = make_problem(rule, depth, activation)
    engine, iteration = of_engine(problem), of_iteration(problem)
    assert {f"response_{x}" for x in "ab"} <= engine.keys() or depth == 1
    name, chance = alarm(comparable(engine), comparable(iteration))
    assert chance > FALSE_ALARM, name


@pytest.mark.slow
def test_relu_needs_regression_responses():
    """As above with ReLU at depth 2. Jacobians, which take φ̈ for 0, miss B(t,t) and with it the gradient kernels."""
    problem = make_problem("gd", 2, "relu")
    engine = comparable(of_engine(problem))
    name, chance = alarm(engine, comparable(of_iteration(problem)))
    assert chance > FALSE_ALARM, name
    wrong = comparable(of_iteration(problem, "jacobian"))
    for name in ("g_two_time", "response_b on phi_two_time"):
        assert alarm({name: engine[name]}, {name: wrong[name]})[1] < 1e-3 * FALSE_ALARM


@pytest.mark.parametrize(
    ("rule", "depth"), [pytest.param(*case, marks=pytest.mark.slow) for case in [("gd", 2), ("fa", 2), ("gd", 3)]]
)
def test_single_entries_of_responses_agree(rule, depth):
    """Where they are determined, against Jacobians, which have ten times less noise than a regression."""
    problem = make_problem(rule, depth)
    engine, iteration = of_engine(problem), of_iteration(problem, "jacobian")
    name, chance = alarm(early_responses(engine), early_responses(iteration))
    assert chance > FALSE_ALARM, name
    name, chance = alarm(comparable(engine), comparable(iteration))
    assert chance > FALSE_ALARM, name


@pytest.mark.parametrize(
    "rule", ["dfa_fa_fa", *(pytest.param(rule, marks=pytest.mark.slow) for rule in ("fa_gd_gd", "gd_dfa_gd"))]
)
def test_mixtures_of_rules_in_linear_networks(rule):
    """Every layer has the responses of its own rule, as in the closed algebra, which is exact."""
    training = wf.Training(steps=4, dt=0.1)
    problem = wf.Problem(wf.Dataset(X, Y), wf.MLP(3, "linear"), RULES[rule], 1.0, training)
    exact = wf.solve(problem, method="linear", two_time=True)
    engine = wf.solve(problem, method="mean_field", samples=256, seeds=2, two_time=1)
    names = [str(name) for name in exact.dataset if "two_time" in str(name) or name in ACTED_ON]
    assert [name for name in ACTED_ON if name in engine] == [name for name in ACTED_ON if name in exact]
    left, right = (comparable({name: result[name].values[None] for name in names}) for result in (exact, engine))
    for name, value in left.items():
        np.testing.assert_allclose(right[name], value, rtol=0, atol=1e-8, err_msg=name)
