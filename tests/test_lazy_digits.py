"""Digits: rules that must coincide do, and the command line shows it."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import widefield as wf
from widefield.cli.lazy import lazy_app
from widefield.datasets import raw_digits
from widefield.errors import InputError
from widefield.solvers.lazy.digits import RULES, digits_table, load, regression_scores
from widefield.solvers.lazy.kernels import kernels


def test_regression_scores_by_hand():
    """One training and one test point, one output: a Gaussian conditioned by hand."""
    kernel, y, ridge = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[1.0, -1.0], [0.5, 0.0]]), 0.5
    accuracy, found = regression_scores(kernel, y, 1, ridge)
    mean, scale = 0.5 / 1.5 * y[0], 1 / 1.5
    variance = scale * (1.5 - 0.25 / 1.5)
    expected = np.mean(-0.5 * (y[1] - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance))
    assert accuracy == 1.0
    assert abs(found - expected) < 1e-12


def test_rules_that_coincide():
    table = digits_table((2,), train=150, test=100)
    by = {score.rule: (score.accuracy, score.log_likelihood) for score in table.scores}
    np.testing.assert_allclose(by["GD"], by["FA ρ=1"], rtol=1e-10)
    for rule in ("FA ρ=0", "DFA", "Hebb"):
        np.testing.assert_allclose(by[rule], by["NNGP"], rtol=1e-10)
    assert by["GD"] != by["NNGP"]
    assert all(accuracy > 0.85 for accuracy, _ in by.values())
    assert set(table.pictures) == set(by) - {"NNGP"}
    with pytest.raises(InputError, match="1797"):
        digits_table((1,), train=1700, test=200)


def test_images_are_shuffled_and_scaled_by_the_training_part():
    pixels, labels = raw_digits()
    x, found = load(30, 10, 4)
    chosen = np.random.default_rng(4).permutation(len(labels))[:40]
    np.testing.assert_array_equal(found, labels[chosen])
    assert abs(x[:30].mean()) < 1e-12
    assert abs(x[:30].std() - 1) < 1e-12
    np.testing.assert_allclose(x, (pixels[chosen] - pixels[chosen[:30]].mean()) / pixels[chosen[:30]].std())


def test_every_depth_has_a_score_per_rule_and_pictures_are_sorted_by_digit():
    calls = []

    class Mine:
        def update(self, done, total, message=""):
            calls.append((done, total, message))

    table = digits_table((1, 2), "erf", train=20, test=10, seed=3, progress=Mine())
    assert [(score.rule, score.depth) for score in table.scores] == [
        (rule, depth) for depth in (1, 2) for rule in (*RULES, "NNGP")
    ]
    assert [(done, total) for done, total, _ in calls] == [(k, 16) for k in range(1, 17)]
    assert calls[-1][2] == "depth 2, NNGP"
    assert table.depth == 2
    x, labels = load(20, 10, 3)
    order = np.argsort(labels[:20], kind="stable")
    kernel = kernels(x, wf.MLP(2, "erf"), "gd", outputs=("entk",)).entk
    np.testing.assert_allclose(table.pictures["GD"], kernel[:20, :20][np.ix_(order, order)], rtol=1e-12)
    accuracy, density = regression_scores(kernel, np.eye(10)[labels] - 0.1, 20, 1e-3)
    gd = next(score for score in table.scores if (score.rule, score.depth) == ("GD", 2))
    assert (gd.accuracy, gd.log_likelihood) == (pytest.approx(accuracy), pytest.approx(density))


def test_command(tmp_path):
    picture = tmp_path / "kernels.png"
    arguments = ["digits", "--depths", "1", "--train", "60", "--test", "30", "-o", str(picture)]
    outcome = CliRunner().invoke(lazy_app, arguments)
    assert outcome.exit_code == 0, outcome.output
    for rule in ("GD", "FA ρ=1", "DFA", "Hebb", "GLN", "NNGP"):
        assert rule in outcome.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert isinstance(CliRunner().invoke(lazy_app, ["digits", "--depths", "x"]).exception, InputError)
