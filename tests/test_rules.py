"""Every rule of the table: written down, printed, trained, and the same at infinite width as in wide networks."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.errors import InputError
from widefield.rules.lookup import RULES, rule_name

DEPTH = 2
EXAMPLES: dict[str, wf.rules.Rule] = {
    "gd": wf.rules.GD(),
    "fa": wf.rules.FA(0.5),
    "dfa": wf.rules.DFA(),
    "gln": wf.rules.GLN(),
    "hebb": wf.rules.Hebb(),
    "traditional_hebb": wf.rules.TraditionalHebb(),
    "signed_hebb": wf.rules.SignedHebb(),
    "drtp": wf.rules.DRTP(),
    "kolen_pollack": wf.rules.KolenPollack(0.2),
    "readout_only": wf.rules.ReadoutOnly(),
    "mixture": wf.rules.Mixture((wf.rules.FA(0.3), wf.rules.Hebb())),
}


def make_problem(rule, **changes) -> wf.Problem:
    arguments = {
        "data": wf.datasets.sphere(points=3, dimension=4, seed=2),
        "network": wf.MLP(depth=DEPTH, activation="tanh"),
        "richness": 1.0,
        "training": wf.Training(steps=8, dt=0.2),
    }
    return wf.Problem(rule=rule, **(arguments | changes))


def test_the_table_is_complete():
    assert set(EXAMPLES) == set(RULES)
    assert {getattr(wf.rules, kind.__name__) for kind in RULES.values()} == set(RULES.values())


@pytest.mark.parametrize("name", RULES)
def test_toml_and_repr_bring_the_rule_back(name):
    rule = EXAMPLES[name]
    assert rule_name(rule) == name
    problem = make_problem(rule)
    assert wf.Problem.from_toml(problem.to_toml()) == problem
    assert eval(repr(rule), vars(wf.rules)) == rule
    assert hash(rule) == hash(eval(repr(rule), vars(wf.rules)))


@pytest.mark.parametrize("name", RULES)
def test_rule_trains_a_dense_network(name):
    """Every rule lowers the loss, and hidden layers move unless the rule says they do not."""
    result = wf.simulate(
        make_problem(EXAMPLES[name]), width=100, seeds=2, engine="dense", record=("phi",), progress=False
    )
    assert result["loss"].values[-1] < 0.9 * result["loss"].values[0]
    moved = np.abs(result["phi"].values[-1] - result["phi"].values[0]).max(axis=(-2, -1))
    assert np.all(moved > 1e-3) == (name != "readout_only")
    if name == "readout_only":
        assert np.all(moved < 1e-12)


# Networks of width N differ from infinite width by O(1/N), which is a few tenths of a standard error here.
# The networks' error dominates, with 15 degrees of freedom, and a few tens of entries are independent: one beyond 6
# by chance in about 1 of 1000 runs of this test.
LIMIT = 6.0


def assert_networks_agree_with_theory(problem: wf.Problem) -> None:
    theory = wf.solve(problem, samples=2048, seeds=8, progress=False)
    nets = wf.simulate(problem, width=2000, seeds=16, engine="conditioned", tolerance=1e-4, progress=False)
    assert np.abs(theory["f"].values[-1]).max() > 0.1
    for name in ("f", "phi", "entk", "g_tilde"):
        gap = np.abs(theory[name].values - nets[name].values)
        error = np.hypot(theory[f"{name}_se"].values, nets[f"{name}_se"].values)
        # What is matched exactly at the start has no error of its own; rounding is allowed there.
        score = (gap - 1e-9).clip(0) / np.maximum(error, 1e-12)
        assert score.max() < LIMIT, (name, np.unravel_index(score.argmax(), score.shape), score.max())


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_wide_networks_agree_with_infinite_width(name):
    assert_networks_agree_with_theory(make_problem(EXAMPLES[name]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"training": wf.Training(steps=8, dt=0.2, weight_decay=0.3, momentum=0.4)},
        {"network": wf.MLP(depth=2, activation="tanh", residual=True)},
        {
            "network": wf.CNN(depth=2),
            "data": wf.Dataset(np.random.default_rng(1).standard_normal((2, 3, 2)), [1.0, -1.0]),
        },
    ],
    ids=["decay and momentum", "residual", "cnn"],
)
def test_extensions_agree_with_infinite_width(changes):
    assert_networks_agree_with_theory(make_problem(wf.rules.FA(0.5), **changes))


def test_kolen_pollack_with_full_correlation_is_gradient_descent():
    results = [
        wf.simulate(make_problem(rule), width=30, seeds=1, engine="dense", progress=False)
        for rule in (wf.rules.KolenPollack(1.0), wf.rules.GD())
    ]
    np.testing.assert_allclose(results[0]["f"].values, results[1]["f"].values, rtol=1e-11)


def test_mixture_in_toml_takes_names_and_tables():
    text = make_problem("gd").to_toml()
    written = 'name = "mixture"\nrules = ["gd", {name = "fa", rho = 0.3}]'
    problem = wf.Problem.from_toml(text.replace('name = "gd"', written))
    assert problem.rule == wf.rules.Mixture((wf.rules.GD(), wf.rules.FA(0.3)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: make_problem(wf.rules.Mixture(["gd", "dfa", "hebb"])), ["rules is", "2 rules, one per hidden layer"]),
        (lambda: wf.rules.Mixture([]), ["rules is []"]),
        (lambda: wf.rules.Mixture("gd"), ["rules is 'gd'", "list"]),
        (lambda: wf.rules.Mixture(["gd", "gln"]), ["all gated or none"]),
        (lambda: wf.rules.Mixture(["gd", "nonsense"]), ["'nonsense'", "drtp"]),
        (lambda: wf.rules.KolenPollack(2.0), ["rho is 2.0"]),
        (lambda: wf.rules.as_rule("mixture"), ["Mixture", "rules"]),
    ],
)  # fmt: skip
def test_wrong_rules_are_refused_before_any_work(make, words):
    with pytest.raises(InputError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_teach_of_traditional_hebb_does_not_depend_on_the_number_of_outputs():
    for outputs in (1, 3):
        taught = wf.rules.TraditionalHebb().teach(jnp.ones((4, outputs)), jnp.zeros((4, outputs)))
        np.testing.assert_allclose(taught.sum(1), 1.0)
