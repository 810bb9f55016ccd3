"""Finite width: the fit of m + b/N, whether 1/N has set in, and networks against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from test_rules import EXAMPLES

import widefield as wf
from widefield.errors import InputError
from widefield.expansion.fit import fit_line, pooled_variance
from widefield.expansion.onset import find_onset
from widefield.results.statistics import Moments, exactly, moments_of, welch


def drawn(widths, count, mean, shift, variance, seed, power=1.0):
    """Runs by width of entries with mean m + b/N^power and variance C/N."""
    rng = np.random.default_rng(seed)
    noise = {n: np.sqrt(variance / n) * rng.standard_normal((count, len(mean))) for n in widths}
    return {n: mean + shift / n**power + noise[n] for n in widths}


def test_the_line_is_weighted_least_squares():
    groups = drawn((100, 200, 400), 6, np.array([1.0, 2.0]), np.array([30.0, -20.0]), np.array([2.0, 0.5]), 0)
    anchor = Moments(np.array([1.01, 1.98]), np.array([0.02, 0.01]), 3)
    line = fit_line(anchor, groups)
    variance, freedom = pooled_variance(groups)
    assert freedom == 15
    for entry in range(2):
        rows = np.array([[1, 0.0], *([1, 1 / n] for n in groups)])
        weights = 1 / np.array([anchor.error[entry] ** 2, *(variance[entry] / (n * 6) for n in groups)])
        values = np.array([anchor.mean[entry], *(runs[:, entry].mean() for runs in groups.values())])
        normal = np.linalg.inv(rows.T @ (weights[:, None] * rows))
        m, b = normal @ rows.T @ (weights * values)
        np.testing.assert_allclose([line.mean[entry], line.shift[entry]], [m, b], rtol=1e-9)
        found = [part[entry] for part in line.spread]
        np.testing.assert_allclose(found, [normal[0, 0], normal[0, 1], normal[1, 1]], rtol=1e-9)
        at = line.at(150)
        np.testing.assert_allclose(at.error_squared[entry], [1, 1 / 150] @ normal @ [1, 1 / 150], rtol=1e-9)


def test_an_exact_anchor_stays_where_it_is():
    groups = drawn((100, 200), 5, np.array([1.0]), np.array([30.0]), np.array([2.0]), 1)
    line = fit_line(exactly(np.array([1.0])), groups)
    assert line.mean[0] == 1.0
    assert line.spread[0][0] == 0
    assert abs(line.shift[0] - 30) < 5 * np.sqrt(line.spread[2][0])
    still = fit_line(exactly(np.array([0.5])), {100: np.full((3, 1), 0.5), 200: np.full((3, 1), 0.5)})
    assert still.variance[0] == still.shift[0] == 0


def test_intervals_for_one_network_cover():
    rng = np.random.default_rng(2)
    mean, shift, variance = np.full(2000, 1.0), np.full(2000, 40.0), np.full(2000, 3.0)
    groups = drawn((100, 200), 4, mean, shift, variance, 3)
    error = 0.02
    anchors = mean + error * rng.standard_normal((4, 2000)) * 2
    line = fit_line(moments_of(anchors), groups)
    new = mean + shift / 150 + np.sqrt(variance / 150) * rng.standard_normal(2000)
    from scipy.special import stdtrit

    at = line.at(150)
    half = stdtrit(at.degrees(network=True), 0.95) * np.sqrt(at.error_squared + at.variance)
    covered = np.mean(np.abs(new - at.mean) < half)
    # 2000 independent entries: the standard error of 90 % is 0.7 %, four of them 1 in 16 000.
    assert abs(covered - 0.9) < 4 * 0.0067


def test_onset_is_found_where_the_shift_is_not_one_over_n():
    mean, variance = np.zeros(40), np.ones(40)
    rng = np.random.default_rng(4)
    anchor = 0.001 * rng.standard_normal((4, 40))
    right = find_onset(anchor, drawn((100, 200, 400), 12, mean, np.full(40, 20.0), variance, 5), variance)
    assert right.chance_shift > 1e-3  # fails in 1 of 1000 draws; the draw is fixed
    assert right.chance_variance > 1e-3
    np.testing.assert_allclose(right.shift, 1, atol=4 * right.shift_error.max())
    late = find_onset(anchor, drawn((100, 200, 400), 12, mean, np.full(40, 2.0), variance, 5, power=0.5), variance)
    assert late.chance_shift < 1e-6
    wide = {n: runs * (1 + 100 / n) for n, runs in drawn((100, 200, 400), 12, mean, mean, variance, 6).items()}
    assert find_onset(anchor, wide, pooled_variance(wide)[0]).chance_variance < 1e-3
    # Pure noise must not count as a shift that depends on the width.
    chances = [
        find_onset(anchor * 0, drawn((100, 200, 400), 8, mean, mean, variance, 100 + k), variance).chance_shift
        for k in range(200)
    ]
    assert 0.01 < np.mean(np.array(chances) < 0.05) < 0.12


@pytest.fixture(scope="module")
def initial() -> wf.FiniteWidth:
    """Linear networks of depth 2 on one point, whose infinite width is known in closed form."""
    problem = wf.Problem(wf.Dataset(np.ones((1, 2)), [1.0]), wf.MLP(2, "linear"), "gd", 1.0, wf.Training(4, 0.1))
    return wf.finite_width(problem, (100, 200), 60, record=["phi"], every=2, progress=False)


@pytest.mark.slow
def test_relu_at_initialisation_has_variance_5_per_layer():
    problem = wf.Problem(wf.Dataset(np.ones((1, 2)), [1.0]), wf.MLP(3, "relu"), "gd", 1.0, wf.Training(1, 1e-3))
    initial = wf.finite_width(problem, (200, 400), 60, record=["phi"], progress=False)
    found, error = (initial.dataset[f"phi_variance{end}"].values[0, :, 0, 0] for end in ("", "_se"))
    # (1+5/N)^ℓ − 1 exactly, at most 4 % above 5ℓ/N here; 4.5 standard errors of three numbers: 1 in 50 000.
    assert np.all(np.abs(found - 5 * np.arange(1, 4)) < 4.5 * error + 0.04 * found)


def test_predictions_at_a_width_and_their_words(initial):
    at = initial.at(300)
    np.testing.assert_allclose(initial.covariance("phi").diagonal(), initial.dataset["phi_variance"].values.ravel())
    assert set(at.data_vars) >= {"loss", "loss_se", "loss_sd", "loss_lower", "loss_upper", "phi", "f"}
    np.testing.assert_allclose(at["phi_sd"].values ** 2 * 300, initial.dataset["phi_variance"].values)
    assert np.all(at["loss_lower"].values <= at["loss"].values)
    assert "1/N" in initial.summary()
    assert initial.onset is not None
    assert list(initial.onset["width"].values) == [100, 200]
    loss = initial.plot().axes[0]
    np.testing.assert_allclose(loss.lines[0].get_ydata(), initial.at(100)["loss"].values)
    np.testing.assert_allclose(loss.lines[1].get_ydata(), initial.dataset["loss"].values)


def test_deep_linear_networks_are_anchored_in_closed_form(initial):
    found = initial
    assert found.theory.method == "linear"
    assert np.all(found.dataset["phi_se"].values == 0)
    variance, error = (found.dataset[f"phi_variance{end}"].values[0, :, 0, 0] for end in ("", "_se"))
    # (1+2/N)^ℓ − 1, 1 % above 2ℓ/N; mean 1 at any width. 4.5 standard errors.
    assert np.all(np.abs(variance - [2, 4]) < 4.5 * error + 0.02 * variance)
    shift, error = (found.dataset[f"phi_shift{end}"].values[0, :, 0, 0] for end in ("", "_se"))
    assert np.all(np.abs(shift) < 4.5 * error)


def test_compare_tells_a_finite_width_shift_from_a_disagreement(problem):
    """Runs made by hand: mean m + b/N in loss, another disagreement in f."""
    rng = np.random.default_rng(7)
    from widefield.expansion.expansion import FiniteWidth
    from widefield.results.result import make_result

    def runs(width, count, wrong=0.0):
        size = np.inf if width is None else width
        spread = 0.001 if width is None else 1 / np.sqrt(size)
        arrays = {
            "loss": 1 + 50 / size + spread * rng.standard_normal((count, 4)),
            "f": 1 + wrong + spread * rng.standard_normal((count, 4, 4, 1)),
        }
        info = {"seeds": count} if width is None else {"seeds": count, "width": width}
        return make_result(problem, "x", arrays, steps=np.arange(4), info=info)

    theory = runs(None, 12)
    found = FiniteWidth(theory, {n: runs(n, 12) for n in (200, 400)})
    rows = {d.variable: d for d in wf.compare(runs(300, 16, wrong=0.5), theory, finite_width=found).deviations}
    assert rows["loss"].chance < 0.01 < rows["loss"].after_shift
    assert rows["loss"].verdict == "finite-width shift"
    assert rows["f"].verdict == "differ"
    plain = wf.compare(runs(300, 16), theory)
    assert {d.variable: d.verdict for d in plain.deviations} == {"loss": "differ", "f": "agree"}
    assert "verdict" in repr(wf.compare(runs(300, 16), theory, found))
    with pytest.raises(InputError, match="say no width"):
        wf.compare(theory, theory, found)
    with pytest.raises(InputError, match=r"wf\.finite_width"):
        wf.compare(runs(300, 4), theory, finite_width=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"widths": ()}, ["widths", "one width or more"]),
        ({"widths": (100, 100)}, ["widths", "different"]),
        ({"widths": (100, 1.5)}, ["widths", "whole numbers"]),
        ({"seeds": 1}, ["seeds is 1"]),
        ({"theory": 3}, ["theory", "Result"]),
    ],
)
def test_wrong_options_are_refused(problem, options, words):
    with pytest.raises(InputError) as caught:
        wf.finite_width(problem, **options)
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.slow
def test_narrow_relu_networks_are_said_not_to_be_in_the_regime_of_one_over_n():
    """Converged ReLU networks of width 50 and 100 scatter more than 1/√N; tanh networks do not."""
    late = {}
    for activation in ("relu", "tanh"):
        problem = wf.Problem(wf.datasets.sphere(6, 10, seed=1), wf.MLP(1, activation), "gd", 2.0, wf.Training(20, 0.1))
        found = wf.finite_width(problem, (50, 100, 200, 400), 60, record=["phi"], progress=False)
        late[activation] = found.late()
        assert ("has not set in" in found.summary()) == bool(late[activation])
    assert {"f", "loss"} <= set(late["relu"])
    assert late["tanh"] == []


RULES = {name: EXAMPLES[name] for name in ("gd", "fa", "dfa", "hebb", "gln")}


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("name", RULES)
def test_dense_networks_agree_with_shift_and_covariance(name, depth):
    """Networks of a third width: their means with m + b/N, their N·variance with C, in all entries together."""
    x = np.random.default_rng(3).standard_normal((3, 4))
    problem = wf.Problem(wf.Dataset(x, [1.0, -1.0, 0.6]), wf.MLP(depth, "tanh"), RULES[name], 1.0, wf.Training(6, 0.15))
    found = wf.finite_width(problem, (200, 400), 40, record=["phi", "entk"], progress=False)
    width, count = 300, 60
    dense = wf.simulate(problem, width, count, engine="dense", seed=99, record=["phi", "entk"], progress=False)
    at = found.at(width)
    chances = []
    for variable in ("f", "loss", "phi", "entk"):
        predicted = Moments(at[variable].values, at[f"{variable}_se"].values, 78)
        chances.append(welch(dense.moments(variable), predicted).chance)
        c = found.dataset[f"{variable}_variance"].values
        runs = dense.replicates[variable].transpose("seed", ...).values
        moving = c > 1e-8 * c.max()
        each = width * ((runs - runs.mean(0)) ** 2 * count / (count - 1))[:, moving] / c[moving]
        ratio, error = each.mean(), each.mean(1).std(ddof=1) / np.sqrt(count)
        # C itself is as uncertain, from 80 networks; 4.5 standard errors, 60 comparisons: 1 in 2000.
        assert abs(ratio - 1) < 4.5 * np.hypot(error, error * np.sqrt(count / 78)), (variable, ratio, error)
    # Bonferroni over entries, four variables and fifteen problems: false alarms below 1 in 100.
    assert min(chances) > 1e-4 / 4
