"""Two-time kernels and responses: `mean_field`, which reads them off one pass, against the iteration `fixed_point`."""

import numpy as np
import pytest
from scipy import stats

import widefield as wf
from widefield.results.result import make_result

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
SAMPLES, REPLICATES = 2048, 12
# Of one comparison of all entries of all variables, see `alarm`; 29 comparisons are made.
FALSE_ALARM = 1e-4


def make_problem(rule, depth, activation="tanh"):
    # Fields of ReLU networks grow: Hebb needs smaller steps there.
    richness, dt = (1.5, 0.3) if activation == "tanh" else (1.0, 0.15)
    training = wf.Training(steps=4, dt=dt)
    return wf.Problem(wf.Dataset(X, Y), wf.MLP(depth, activation), RULES[rule], richness, training)


@pytest.fixture
def replicates(monkeypatch):
    """A solver that returns the single replicates, (runs, …) by name, of which results hold mean and standard error."""

    def run(problem, method, **options):
        kept = {}
        module = "mean_field" if method == "mean_field" else "fixed_point.solve"

        def keep(problem, method, arrays, **labels):
            kept.update(arrays)
            return make_result(problem, method, arrays, **labels)

        monkeypatch.setattr(f"widefield.solvers.{module}.make_result", keep)
        result = wf.solve(problem, method=method, samples=SAMPLES, seeds=REPLICATES, progress=False, **options)
        assert result.method == method
        return kept

    return run


def of_engine(replicates, problem):
    return replicates(problem, "mean_field", two_time=1, tolerance=1e-4)


def of_iteration(replicates, problem, responses="regression"):
    return replicates(problem, "fixed_point", tolerance=1e-4, cutoff=1e-4, responses=responses)


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


def welch(a, b):
    """Two-sided p-values of equal means, (entries,), from replicates (runs, entries) of different variances."""
    left, right = (value.var(0, ddof=1) / len(value) for value in (a, b))
    freedom = (left + right) ** 2 / (left**2 / (len(a) - 1) + right**2 / (len(b) - 1))
    return 2 * stats.t.sf(np.abs(a.mean(0) - b.mean(0)) / np.sqrt(left + right), freedom)


def alarm(a, b):
    """Variable with the largest deviation, and a bound on the probability of one as large if both had the same mean.

    Welch's t test of every entry of every variable, times the number of entries (Bonferroni), whatever the
    correlations between entries. An entry is a mean over thousands of neurons, hence Gaussian. Entries that never
    vary (zeros, and what moment matching makes exact) must agree to rounding.
    """
    assert a.keys() == b.keys()
    smallest, entries, where = 1.0, 0, ""
    for name in a:
        size = max(1.0, np.abs(a[name]).max())
        sampled = np.maximum(a[name].std(0), b[name].std(0)) > 1e-10 * size
        exact = (value[name].mean(0)[~sampled] for value in (a, b))
        np.testing.assert_allclose(*exact, rtol=0, atol=1e-9 * size, err_msg=name)
        if np.any(sampled):
            chance = welch(a[name][:, sampled], b[name][:, sampled])
            entries += len(chance)
            if chance.min() < smallest:
                smallest, where = float(chance.min()), name
    return where, smallest * entries


CASES = [
    *((rule, depth, "tanh") for rule in ("gd", "fa", "dfa", "gln", "hebb") for depth in (1, 2, 3)),
    *((rule, 2, "relu") for rule in ("fa", "dfa", "gln", "hebb")),
    *((rule, 3, "tanh") for rule in ("dfa_fa_fa", "fa_gd_gd", "gd_dfa_gd")),
]


@pytest.mark.parametrize(
    ("rule", "depth", "activation"),
    [pytest.param(*case, marks=[] if case == ("fa", 2, "tanh") else pytest.mark.slow) for case in CASES],
)
def test_engine_and_iteration_agree(replicates, rule, depth, activation):
    """Every variable, two-time kernels and responses included."""
    problem = make_problem(rule, depth, activation)
    engine, iteration = of_engine(replicates, problem), of_iteration(replicates, problem)
    assert {f"response_{x}" for x in "ab"} <= engine.keys() or depth == 1
    name, chance = alarm(comparable(engine), comparable(iteration))
    assert chance > FALSE_ALARM, name


def test_relu_needs_regression_responses(replicates):
    """As above with ReLU at depth 2. Jacobians, which take φ̈ for 0, miss B(t,t) and with it the gradient kernels."""
    problem = make_problem("gd", 2, "relu")
    engine = comparable(of_engine(replicates, problem))
    name, chance = alarm(engine, comparable(of_iteration(replicates, problem)))
    assert chance > FALSE_ALARM, name
    wrong = comparable(of_iteration(replicates, problem, "jacobian"))
    for name in ("g_two_time", "response_b on phi_two_time"):
        assert alarm({name: engine[name]}, {name: wrong[name]})[1] < 1e-3 * FALSE_ALARM


@pytest.mark.parametrize(
    ("rule", "depth"), [("gd", 2), *(pytest.param(*case, marks=pytest.mark.slow) for case in [("fa", 2), ("gd", 3)])]
)
def test_single_entries_of_responses_agree(replicates, rule, depth):
    """Where they are determined, against Jacobians, which have ten times less noise than a regression."""
    problem = make_problem(rule, depth)
    engine, iteration = of_engine(replicates, problem), of_iteration(replicates, problem, "jacobian")
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
