"""Statistical claims: honest error bars, 1/N convergence of networks, order of the integrators."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

import widefield as wf

RNG = np.random.default_rng(7)
DATA = wf.Dataset(RNG.normal(size=(4, 6)), np.array([1.0, -1.0, 0.5, -0.7]))


def problem(rule="gd", depth=2, activation="tanh", richness=1.0, steps=10, dt=0.1, **training) -> wf.Problem:
    return wf.Problem(DATA, wf.MLP(depth, activation), rule, richness, wf.Training(steps, dt, **training))


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1024, 4096])
@pytest.mark.parametrize(
    ("rule", "depth", "activation", "richness"),
    [("gd", 2, "tanh", 1.0), (wf.rules.FA(0.0), 1, "relu", 2.0), (wf.rules.FA(0.5), 3, "tanh", 1.0)],
)
def test_error_bars_are_honest(rule, depth, activation, richness, samples):
    # 95% intervals of 50 independent runs of 4 replicates, against a run with 32 times the work. Entries of one run
    # are strongly correlated, so that the coverage scatters by a few percent: 90–99% is about 2.5 of its deviations.
    question = problem(rule, depth, activation, richness)
    truth = wf.solve(question, samples=8 * samples, seeds=16, seed=999)
    runs = [wf.solve(question, samples=samples, seeds=4, seed=seed) for seed in range(50)]
    reach = student.ppf(0.975, df=3)
    for name in ("f", "entk"):
        inside = [np.abs(run[name] - truth[name])[1:] <= reach * run[name + "_se"][1:] for run in runs]
        assert 0.90 <= np.mean(inside) <= 0.99, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "depth", "activation", "richness"),
    [("gd", 3, "tanh", 1.0), (wf.rules.FA(0.5), 2, "tanh", 1.0), ("gd", 2, "relu", 0.5)],
    ids=repr,
)
def test_two_standard_errors_hold_at_the_default_accuracy(rule, depth, activation, richness):
    # Of 8 replicates 91 % are within two standard errors, of more up to 95 %, less what the tolerance takes;
    # correlated entries of 50 runs scatter by some 2 %.
    question = problem(rule, depth, activation, richness)
    truth = wf.solve(question, samples=16384, seeds=16, seed=999, tolerance=0.01)
    runs = [wf.solve(question, seed=seed) for seed in range(50)]
    assert all(run.info["accuracy"] <= 0.01 for run in runs)
    for name in ("f", "phi", "entk"):
        inside = [np.abs(run[name] - truth[name])[1:] <= 2 * run[name + "_se"][1:] for run in runs]
        assert np.mean(inside) >= 0.90, name


def error_exponent(rule, widths, seeds, depth=2) -> float:
    """Fitted exponent of the squared relative error of the eNTK's dynamics against N."""
    question = problem(rule, depth, steps=8)
    truth = wf.solve(question, samples=2**15, seeds=4)["entk"].values
    errors = []
    for width in widths:
        nets = wf.simulate(question, width, seeds, engine="conditioned", tolerance=1e-4, seed=width)
        # The mean square distance of single networks from the truth, by their mean and their scatter.
        scatter = nets["entk_se"].values ** 2 * (seeds - 1)
        errors.append(np.sum((nets["entk"].values - truth) ** 2 + scatter) / np.sum(truth**2))
    return float(np.polyfit(np.log(widths), np.log(errors), 1)[0])


@pytest.mark.slow
def test_networks_converge_as_one_over_width():
    # With 24 networks per width a squared error has a relative scatter of about √(2/24/3) = 0.17 (some three
    # independent directions carry it), the slope over a factor of 30 one of about 0.06: ±0.25 is 4 of them.
    assert abs(error_exponent("gd", (100, 3000), 24) + 1) < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("rule", ["gd", wf.rules.FA(0.5), "dfa", "gln", "hebb"], ids=repr)
def test_networks_converge_as_one_over_width_over_three_decades(rule, depth):
    assert abs(error_exponent(rule, (100, 1000, 10_000, 100_000), 16, depth) + 1) < 0.15


def test_second_order_needs_five_times_fewer_steps():
    # Dense networks of one seed start from the same weights at every dt, so that only the step differs.
    def final(steps, integrator):
        question = problem("gd", 2, steps=steps, dt=2.0 / steps, integrator=integrator)
        return wf.simulate(question, 100, seeds=2, engine="dense", record=())["f"].values[-1]

    flow = final(1280, "ab2")
    euler = [np.abs(final(n, "euler") - flow).max() for n in (50, 100, 200)]
    second = [np.abs(final(n, "ab2") - flow).max() for n in (20, 40)]
    assert second[0] < euler[1]
    assert second[1] < euler[2]
    assert 0.8 < np.log2(euler[0] / euler[1]) < 1.2
    assert np.log2(second[0] / second[1]) > 1.7
