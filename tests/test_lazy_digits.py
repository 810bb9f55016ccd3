"""Digits: rules that must coincide do, and the command line shows it."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from widefield.cli.lazy import lazy_app
from widefield.errors import InputError
from widefield.solvers.lazy.digits import digits_table, regression_scores


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


def test_command(tmp_path):
    picture = tmp_path / "kernels.png"
    arguments = ["digits", "--depths", "1", "--train", "60", "--test", "30", "-o", str(picture)]
    outcome = CliRunner().invoke(lazy_app, arguments)
    assert outcome.exit_code == 0, outcome.output
    for rule in ("GD", "FA ρ=1", "DFA", "Hebb", "GLN", "NNGP"):
        assert rule in outcome.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert isinstance(CliRunner().invoke(lazy_app, ["digits", "--depths", "x"]).exception, InputError)
