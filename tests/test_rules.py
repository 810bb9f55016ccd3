"""Every rule of the table: written down, printed, trained, and the same at infinite width as in wide networks."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.errors import InputError
from widefield.rules.lookup import RULES, as_rule, rule_name

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
    "sign_symmetric": wf.rules.SignSymmetric(),
    "weight_mirror": wf.rules.WeightMirror(2.0, 0.3),
    "readout_only": wf.rules.ReadoutOnly(),
    "rflo": wf.rules.RFLO(),
    "eprop": wf.rules.EProp(symmetric=False),
    "truncated_bptt": wf.rules.TruncatedBPTT(2),
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


def test_what_rules_promise():
    """(linear, is_gradient): which pseudo-gradients are linear in the signal, and which are true gradients."""
    promised = {
        "gd": (True, True), "gln": (True, True), "fa": (True, False), "dfa": (True, False),
        "kolen_pollack": (True, False), "sign_symmetric": (True, False), "weight_mirror": (True, False),
        "hebb": (False, False),
        "traditional_hebb": (False, False), "signed_hebb": (False, False), "drtp": (False, False),
    }  # fmt: skip
    for name, (linear, is_gradient) in promised.items():
        rule = as_rule(name)
        assert (rule.linear, rule.is_gradient) == (linear, is_gradient), name


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
