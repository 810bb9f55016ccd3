"""Which rule did this: the likelihood on recordings with a known law, wrong input, and real networks."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from recordings import LAYERS, STEPS, STIMULI, kernels, prediction, record, target_of

import widefield as wf
from widefield.errors import InputError
from widefield.identification.answer import NONE
from widefield.identification.covariance import shrink
from widefield.identification.likelihood import log_density
from widefield.identification.model import Spread
from widefield.identification.predictions import Candidates, Design
from widefield.identification.preparing import from_sweep

WEAK, STRONG, OTHER = target_of(0.15), target_of(0.5), target_of(0.5, seed=5)


@pytest.fixture(scope="module")
def three() -> Candidates:
    made = {"weak": prediction(WEAK), "strong": prediction(STRONG, seed=1), "other": prediction(OTHER, seed=2)}
    return Candidates(made, STEPS, None)


def test_the_true_candidate_with_gain_and_time_scale(three):
    seen = record(STRONG, 150, 3, gain=2.5, scale=1.3, trials=5, noise=0.5)
    found = wf.identify(seen, three)
    assert found.best == "strong"
    assert float(found.posterior.sel(candidate="strong")) > 0.9
    np.testing.assert_allclose(found.posterior.sum(), 1)
    row = found.fitted.sel(candidate="strong")
    # 4.5 standard errors each: 1 in 150 000.
    assert abs(float(row["gain"]) - 2.5) < 4.5 * float(row["gain_se"])
    assert abs(float(row["time_scale"]) - 1.3) < 4.5 * float(row["time_scale_se"])
    assert float(row["time_scale_se"]) < 0.3
    assert found.goodness.chance > 1e-3
    assert "strong: probability" in found.summary()
    odds = found.deciding
    np.testing.assert_allclose(odds["by_stage"].sum(), odds["by_layer"].sum())
    np.testing.assert_allclose(odds["by_stage"].sum(), odds["by_stimulus"].sum())
    assert float(odds["by_stage"][0]) < float(odds["by_stage"].sum())  # nothing has been learnt at step 0


def test_dissimilarities_alone_tell_as_well(three):
    found = wf.identify(record(OTHER, 150, 4), three, kind="rdm")
    assert found.best == "other"


def test_kernels_of_so_many_neurons_need_no_single_ones(three):
    seen = record(STRONG, 150, 6)
    averaged = wf.Observation.from_kernels(seen.matrices, STEPS, neurons=150)
    found = wf.identify(averaged, three)
    assert found.best == "strong"
    assert found.goodness.chance > 1e-3


def test_data_of_another_law_are_none_of_these(three):
    found = wf.identify(record(OTHER, 200, 7), three.only(["weak", "strong"]))
    assert found.best == NONE
    assert found.goodness.chance < 1e-4


def test_a_rule_outside_that_fits_better_is_none_of_these(three):
    """A neighbour that the goodness of fit does not see; the true candidate beside it stays."""
    near = prediction(STRONG + target_of(0.003, seed=8), seed=3)
    with_near = Candidates(dict(three), STEPS, None, others={"near": near})
    seen = record(STRONG + target_of(0.003, seed=8), 200, 12)
    assert wf.identify(seen, three).best == "strong"
    found = wf.identify(seen, with_near)
    assert found.best == NONE
    assert found.outside == "near"
    assert "near fits best" in found.summary()
    own = wf.identify(record(STRONG, 200, 13), with_near)
    assert own.best == "strong"
    assert own.outside is None


def test_candidates_that_are_left_out_are_rules_outside(three):
    some = three.only(["weak", "strong"])
    assert list(some.others) == ["other"]
    assert list(some.only(["weak"]).others) == ["strong", "other"]


def test_the_usual_rules_outside_are_those_that_no_candidate_has(problem):
    import dataclasses

    from widefield.identification.others import usual_problems

    rules = [wf.rules.GD(), wf.rules.FA(0.5), wf.rules.FA(0.3)]
    made = usual_problems([dataclasses.replace(problem, rule=rule) for rule in rules], None)
    left = [wf.rules.FA(0.0), wf.rules.DFA(), wf.rules.Hebb(), wf.rules.GLN()]
    assert [one.rule for one in made.values()] == left
    swept = usual_problems([dataclasses.replace(problem, rule=wf.rules.FA(0.3))], {"rule.rho": [0.0, 0.3]})
    assert [one.rule for one in swept.values()] == [wf.rules.GD(), *left[1:]]


def test_equal_candidates_are_indistinguishable(three):
    twin = prediction(STRONG, seed=9)
    both = Candidates({"strong": three["strong"], "twin": twin, "other": three["other"]}, STEPS, None)
    found = wf.identify(record(STRONG, 150, 8), both)
    assert found.indistinguishable == (("strong", "twin"),)
    assert "cannot be told apart" in found.summary()
    assert found.against == "other"
    assert float(found.posterior.sel(candidate=["strong", "twin"]).sum()) > 0.9
    assert float(found.posterior.sel(candidate=["strong", "twin"]).min()) > 0.2


@pytest.mark.slow
def test_posteriors_are_calibrated(three):
    """Over recordings of few neurons, what gets a probability p is right in a share p of them."""
    claimed, right = [], []
    pair = three.only(["weak", "strong"])
    for k in range(80):
        true = ("weak", "strong")[k % 2]
        seen = record({"weak": WEAK, "strong": STRONG}[true], 14, 100 + k, trials=2, noise=1.0)
        found = wf.identify(seen, pair, none=0.0, time_scale=(0.8, 1.25))
        claimed.append(float(found.posterior.sel(candidate="strong")))
        right.append(true == "strong")
    claimed, right = np.array(claimed), np.array(right)
    unsure = (claimed > 0.1) & (claimed < 0.9)
    assert unsure.sum() > 10
    # Claims over their outcomes, in standard deviations of the outcomes: 4 is 1 in 16 000.
    z = (right[unsure] - claimed[unsure]).sum() / np.sqrt((claimed[unsure] * (1 - claimed[unsure])).sum())
    assert abs(z) < 4
    sure = ~unsure
    assert np.mean(right[sure] == (claimed[sure] > 0.5)) > 0.85


def test_parameters_between_the_points_of_a_sweep():
    strengths = [0.1, 0.3, 0.5, 0.7]
    made = {f"s={s}": prediction(target_of(s), {"strength": s}, seed=k) for k, s in enumerate(strengths)}
    sweep = Candidates(made, STEPS, None)
    assert sweep.numeric == ("strength",)
    covered = 0
    for k, true in enumerate(np.linspace(0.15, 0.65, 20)):
        found = wf.identify(record(target_of(true), 150, 200 + k), sweep, time_scale=1.0)
        interval = found.parameters["strength"]
        covered += interval.lower < true < interval.upper
        assert interval.upper - interval.lower < 0.4
    # 90 % intervals of 20 recordings: 13 or fewer have a chance of 2 in 1000; the recordings are fixed.
    assert covered >= 14
    assert "90 % interval" in found.summary()
    (line,) = found.plot().axes[5].lines
    assert line.get_xdata()[int(np.argmax(line.get_ydata()))] == found.surface.best[0]


def test_means_of_a_sweep_are_candidates():
    times = np.arange(0, 81, 2.0)
    stacked = np.stack([kernels(times, target_of(s)) for s in (0.1, 0.5)])
    dims = ("rule.rho", "time", "layer", "sample", "sample_")
    dataset = xr.Dataset(
        {"phi": (dims, stacked), "status": ("rule.rho", ["ok", "ok"])},
        {"rule.rho": [0.1, 0.5], "time": times * 0.05, "layer": [1, 2]},
    )
    found = wf.identify(record(target_of(0.5), 100, 11), dataset, dt=0.05)
    assert found.best == "rule.rho=0.5"
    assert found.parameters["rule.rho"].lower > 0.2
    with pytest.raises(InputError, match="dt is missing"):
        from_sweep(dataset, None)
    averaged = wf.Observation.from_kernels(record(target_of(0.5), 100, 11).matrices, STEPS, neurons=100)
    with pytest.raises(InputError, match="without single neurons"):
        wf.identify(averaged, dataset, dt=0.05)


def test_features_are_those_of_the_layers_and_times():
    one = prediction(STRONG)
    design = Design(STEPS, (-1, 1), "rdm", STIMULI)
    found = design.at(one.times, one.mean, scale=1.5).reshape(2, len(STEPS), -1)
    whole = kernels(STEPS * 1.5, STRONG)
    own = np.einsum("slpp->slp", whole)
    rdm = own[..., :, None] + own[..., None, :] - 2 * whole
    first, second = np.triu_indices(STIMULI, 1)
    expected = rdm[:, ::-1][..., first, second].transpose(1, 0, 2)
    np.testing.assert_allclose(found, expected, atol=2e-3)  # linear in time between records, two steps apart
    assert LAYERS == 2


def test_the_likelihood_is_a_density():
    """Student's t with an estimated covariance, in one dimension, integrates to one; ν → ∞ is the Gaussian."""
    x = np.linspace(-400, 400, 400_001)
    for freedom in (5.0, 40.0, np.inf):
        spread = Spread(np.array([[4.0]]), freedom)
        total = np.trapezoid(np.exp(log_density(x**2 / 4, spread)), x)
        np.testing.assert_allclose(total, 1, rtol=2e-4)
    near, far = (log_density(np.array(3.0), Spread(np.eye(3), f)) for f in (9e4, np.inf))
    np.testing.assert_allclose(near, far, atol=1e-3)


def test_shrinkage_follows_the_number_of_networks():
    rng = np.random.default_rng(0)
    root = np.diag([3.0, 1.0, 1.0, 0.3])
    shares = []
    for count in (6, 2000):
        factors = rng.standard_normal((count, 4)) @ root / np.sqrt(count)
        shares.append(shrink(factors, np.eye(4))[0])
    assert shares[0] > 0.1
    assert shares[1] < 0.01
    share, ratio = shrink(2 * rng.standard_normal((30, 4)) / np.sqrt(30), np.eye(4))
    assert share > 0.5
    assert 2 < ratio < 8


def test_power_says_what_an_experiment_will_find(three):
    pair = three.only(["weak", "strong"])
    plan = wf.power(pair, neurons=(8, 14, 30), noise=1.0, trials=(2, 5), time_scale=(0.8, 1.25))
    distance = plan.table["distance"].values
    assert np.all(np.diff(distance, axis=0) > 0)
    assert np.all(np.diff(distance, axis=1) > 0)
    assert np.all(np.diff(plan.distances) > -1e-9)
    assert sorted(plan.stimuli) == list(range(STIMULI))
    assert sorted(plan.stages) == list(STEPS)
    needed = plan.needed.values
    assert needed[1] < needed[0]
    right = 0
    for k in range(40):
        true = ("weak", "strong")[k % 2]
        seen = record({"weak": WEAK, "strong": STRONG}[true], 14, 300 + k, trials=2, noise=1.0)
        found = wf.identify(seen, pair, none=0.0, time_scale=(0.8, 1.25))
        right += float(found.posterior.sel(candidate=true)) > 0.5
    expected = float(plan.table["correct"].sel(neurons=14, trials=2))
    # Theory knows the covariance that an experiment must estimate; 4 standard deviations of 40 experiments.
    assert abs(right / 40 - expected) < 4 * np.sqrt(expected * (1 - expected) / 40) + 0.03
    assert "neurons per layer" in plan.summary()


def test_pictures_draw_the_numbers(three):
    found = wf.identify(record(STRONG, 60, 3), three)
    figure = found.plot()
    bars = sorted(bar.get_width() for bar in figure.axes[0].patches)
    np.testing.assert_allclose(bars, np.sort(found.posterior.values))
    stages = [bar.get_height() for bar in figure.axes[5].patches]
    np.testing.assert_allclose(stages, found.deciding["by_stage"].values)
    plan = wf.power(three.only(["weak", "strong"]), neurons=(8, 30), noise=1.0, trials=(2, 5))
    left, right = plan.plot().axes
    np.testing.assert_allclose(left.lines[0].get_ydata(), plan.table["probability"].values[:, 0])
    np.testing.assert_allclose(right.lines[0].get_ydata(), plan.distances)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observed": 3}, ["observed", "wf.observe"]),
        ({"gain": -1.0}, ["gain"]),
        ({"time_scale": (2.0, 1.0)}, ["time_scale", "slowest"]),
        ({"time_scale": (0.5, 3.0)}, ["time_scale goes up to 3", "allowed: up to 2"]),
        ({"none": 1.0}, ["none", "probability"]),
        ({"kind": "matrix"}, ["kind", "rdm"]),
        ({"width": 50}, ["width", "that of the candidates"]),
        ({"others": True}, ["others", "None where candidates are computed already"]),
        ({"samples": 100}, ["options", "computed already"]),
        ({"observed": wf.observe(np.ones((1, 2, 4, 20)), [40])}, ["stages is 1", "time_scale=1"]),
        ({"observed": wf.observe(np.ones((2, 2, 4, 20)), [0, 40])}, ["steps", "made for"]),
        ({"observed": wf.observe(np.ones((4, 2, 5, 20)), STEPS)}, ["5 stimuli", "4 training points"]),
        ({"observed": wf.observe(np.ones((4, 2, 4, 5)), STEPS)}, ["neurons is 5", "10 or more"]),
        ({"observed": wf.observe({3: np.ones((4, 4, 20))}, STEPS)}, ["layer is 3", "depth 2"]),
        ({"observed": wf.Observation.from_kernels(kernels(STEPS, WEAK), STEPS)}, ["of all neurons", "width="]),
    ],
)
def test_wrong_input_is_refused(three, change, words):
    given = {"observed": record(WEAK, 20, 0), "candidates": three} | change
    with pytest.raises(InputError) as caught:
        wf.identify(**given)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_wrong_candidates_are_refused(problem):
    seen = wf.observe(np.ones((2, 2, 4, 20)), [0, 3])
    for given, words in (
        ({"a": 3}, "a widefield.Problem"),
        (problem, "two or more, or one with vary"),
        ({}, "one problem or more"),
    ):
        with pytest.raises(InputError, match=words):
            wf.identify(seen, given)
    with pytest.raises(InputError, match="the 4 points of the problem"):
        wf.identify(wf.observe(np.ones((2, 2, 3, 20)), [0, 3]), {"a": problem})
    with pytest.raises(InputError, match="a stage after the start"):
        wf.candidates({"a": problem}, [0])
    for others, words in (
        (3, "True, False, or problems by name"),
        ({"b": 3}, "a widefield.Problem"),
        ({"a": problem}, "names that candidates do not have"),
    ):
        with pytest.raises(InputError, match=words):
            wf.candidates({"a": problem}, [0, 3], others=others)
    with pytest.raises(InputError, match="steps is missing"):
        wf.power(problem, problem)
    with pytest.raises(InputError, match="noise"):
        wf.power(problem, problem, steps=[3], noise=-1)


PROBLEM = """
richness = 1.0
[data]
kind = "sphere"
points = 3
dimension = 3
[network]
kind = "mlp"
depth = 1
activation = "tanh"
[rule]
name = "fa"
rho = 0.5
[training]
steps = 6
dt = 0.2
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from widefield.cli.app import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, ["identify", *arguments])


def test_the_command_says_what_is_wrong(run, tmp_path):
    (tmp_path / "plain.toml").write_text(PROBLEM, encoding="utf-8")
    record(WEAK, 20, 0).save(tmp_path / "seen.nc")
    assert "no such file" in str(run("missing.nc", "plain.toml").output)
    assert "no candidates" in str(run("seen.nc", "plain.toml").output)


@pytest.mark.slow
def test_the_command_identifies_a_network(run, tmp_path):
    """From files to an answer and a picture: candidates by name, and the network as a result of one seed."""
    low, high = ('rule = {name = "fa", rho = 0.2}', 'rule = {name = "fa", rho = 0.9}')
    named = ["[candidates.low]", low, "[candidates.high]", high]
    (tmp_path / "candidates.toml").write_text("\n".join([PROBLEM, *named]), encoding="utf-8")
    problem = wf.Problem.from_toml(PROBLEM)
    wf.simulate(problem, 60, 1, every=3, record=["phi"], progress=False).save(tmp_path / "network.nc")
    done = run("network.nc", "candidates.toml", "--width", "60", "--networks", "4", "--samples", "256",
               "--time-scale", "1", "--no-others", "-o", "which.png")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "goodness of fit" in done.output
    assert (tmp_path / "which.png").stat().st_size > 10_000
