"""Which rule did this, on networks that were not used to make predictions: width 1000, 200 neurons, noisy trials.

Minutes of theory and networks, so all of it is slow. Numbers of cases are small; thresholds say what they allow.
"""

from __future__ import annotations

import numpy as np
import pytest

import widefield as wf
from widefield.identification.answer import NONE

pytestmark = pytest.mark.slow

STEPS = [0, 10, 20, 40]
SCALE = (0.5, 1.5)
WIDTH = 1000
RULES = {
    "gd": wf.rules.GD(), "fa(0)": wf.rules.FA(0.0), "fa(0.5)": wf.rules.FA(0.5), "dfa": wf.rules.DFA(),
    "hebb": wf.rules.Hebb(), "gln": wf.rules.GLN(),
}  # fmt: skip
THEORY = {"samples": 2048, "seeds": 4, "progress": False}


def make_problem(rule, richness: float = 1.0, depth: int = 2) -> wf.Problem:
    data = wf.datasets.sphere(6, dimension=10, seed=3)
    return wf.Problem(data, wf.MLP(depth, "tanh"), rule, richness, wf.Training(STEPS[-1], 0.05))


def activity_of(moment):
    return moment.phi


def networks(problem: wf.Problem, count: int, seed: int) -> np.ndarray:
    """Activity of all neurons, (network, stage, layer, stimulus, neuron)."""
    trained = wf.simulate(problem, WIDTH, count, seed=seed, every=10, record=[activity_of], progress=False)
    return trained.replicates["activity_of"].values[:, [0, 1, 2, 4]]


def record(activity: np.ndarray, neurons: int, seed: int, trials: int = 10, noise: float = 0.3) -> wf.Observation:
    rng = np.random.default_rng(seed)
    chosen = [activity[:, layer][..., rng.permutation(WIDTH)[:neurons]] for layer in range(activity.shape[1])]
    seen = np.stack(chosen, 1)[..., None]
    return wf.observe(seen + np.sqrt(noise) * rng.standard_normal((*seen.shape[:-1], trials)), STEPS)


@pytest.fixture(scope="module")
def candidates() -> wf.Candidates:
    problems = {name: make_problem(rule) for name, rule in RULES.items()}
    return wf.candidates(problems, STEPS, width=WIDTH, time_scale=SCALE, **THEORY)


@pytest.fixture(scope="module")
def trained() -> dict[str, np.ndarray]:
    return {name: networks(make_problem(rule), 5, 700 + k) for k, (name, rule) in enumerate(RULES.items())}


def test_the_true_rule_gets_the_highest_posterior(candidates, trained):
    right = [
        wf.identify(record(one, 200, k), candidates, time_scale=SCALE).best == name
        for name, runs in trained.items()
        for k, one in enumerate(runs)
    ]
    assert np.mean(right) >= 0.9


def test_a_rule_that_is_not_among_the_candidates_is_none_of_these(candidates):
    """Rules outside the six, which a goodness of fit must find."""
    others = (wf.rules.ReadoutOnly(), wf.rules.TraditionalHebb(), wf.rules.DRTP(), wf.rules.SignedHebb())
    called = [
        wf.identify(record(one, 200, k), candidates).best == NONE
        for number, rule in enumerate(others)
        for k, one in enumerate(networks(make_problem(rule), 3, 5000 + number))
    ]
    assert np.mean(called) >= 0.8


def test_one_of_the_six_that_is_left_out_is_none_of_these(candidates, trained):
    """Gain and time scale are fitted: a neighbour at another speed is nearly as good."""
    called, wrongly = [], []
    for name, runs in trained.items():
        rest = candidates.only([other for other in candidates if other != name])
        called += [
            wf.identify(record(one, 200, 50 + k), rest, time_scale=SCALE).best == NONE for k, one in enumerate(runs)
        ]
        another = next(other for other in trained if other != name)
        wrongly.append(wf.identify(record(trained[another][0], 200, 90), rest, time_scale=SCALE).best == NONE)
    assert np.mean(called) >= 0.8
    assert sum(wrongly) <= 1


def test_posteriors_are_calibrated(candidates, trained):
    """Fewer neurons and more noise, so that answers are unsure: of probabilities near 80 %, about 80 % are right."""
    claimed, right = [], []
    for name, runs in trained.items():
        for k, one in enumerate(runs):
            for again in range(4):
                found = wf.identify(record(one, 50, 10 * k + again, 6, 1.0), candidates, time_scale=SCALE)
                claimed += list(found.posterior.values)
                right += [str(other) == name for other in found.posterior["candidate"].values]
    claimed, right = np.array(claimed), np.array(right)
    near = (claimed > 0.7) & (claimed < 0.9)
    assert near.sum() >= 10
    # The claim holds for many cases; so many allow two standard errors.
    error = np.sqrt(0.8 * 0.2 / near.sum())
    assert 0.7 - 2 * error < right[near].mean() < 0.9 + 2 * error
    unsure = (claimed > 0.05) & (claimed < 0.95)
    z = (right[unsure] - claimed[unsure]).sum() / np.sqrt((claimed[unsure] * (1 - claimed[unsure])).sum())
    assert abs(z) < 4


def test_intervals_of_rho_and_richness_cover():
    vary = {"rule.rho": [0.0, 0.25, 0.5, 0.75, 1.0], "richness": [0.5, 1.0, 2.0]}
    grid = wf.candidates(make_problem(wf.rules.FA(0.5)), STEPS, vary=vary, width=WIDTH, networks=8, time_scale=SCALE,
                         others=False, **THEORY)  # fmt: skip
    rng = np.random.default_rng(5)
    covered = {"rule.rho": [], "richness": []}
    for k in range(20):
        rho, richness = float(rng.uniform(0.05, 0.95)), float(np.exp(rng.uniform(*np.log([0.55, 1.8]))))
        activity = networks(make_problem(wf.rules.FA(rho), richness), 1, 2000 + k)[0]
        found = wf.identify(record(activity, 200, k), grid, time_scale=SCALE)
        for name, true in (("rule.rho", rho), ("richness", richness)):
            covered[name].append(found.parameters[name].lower <= true <= found.parameters[name].upper)
    for share in map(np.mean, covered.values()):
        # 80 to 97 % of many; 20 networks have a standard error of 7 %.
        assert 0.8 - 0.07 < share <= 1.0


def test_rules_that_theory_says_are_equal_are_indistinguishable():
    """FA with ρ = 0 is DFA in one hidden layer."""
    rules = {name: RULES[name] for name in ("gd", "fa(0)", "dfa")}
    made = wf.candidates({n: make_problem(r, depth=1) for n, r in rules.items()}, STEPS, time_scale=SCALE, others=False,
                         **THEORY)  # fmt: skip
    activity = networks(make_problem(RULES["dfa"], depth=1), 1, 99)[0]
    found = wf.identify(record(activity, 200, 0), made, time_scale=SCALE)
    assert found.indistinguishable == (("fa(0)", "dfa"),)
    first, second = found.posterior.sel(candidate=["fa(0)", "dfa"]).values
    assert first == second > 0  # one network does not tell them from gradient descent, which is close at depth 1
