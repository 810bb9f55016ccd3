"""Exact two-layer linear dynamics against their conservation laws, fixed points and power laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import widefield as wf
from widefield import exact
from widefield.errors import InputError

RULES = [wf.rules.GD(), wf.rules.FA(rho=0.0), wf.rules.FA(rho=0.7), wf.rules.FA(rho=-0.5), wf.rules.Hebb()]
TIMES = np.linspace(0.0, 3.0, 13)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@settings(deadline=None, max_examples=8)
@given(richness=st.floats(0.05, 8.0), y=st.floats(-2.0, 2.0))
def test_conserved_quantities_stay_zero(rule, richness, y):
    solution = exact.two_layer_linear(rule, richness, y, TIMES)
    for name, value in solution.conserved.items():
        assert np.max(np.abs(value)) < 1e-8 * (1 + np.max(np.abs(solution.h_y)) ** 2), name


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("richness", [0.2, 3.0])
def test_ends_at_its_fixed_point(rule, richness):
    solution = exact.two_layer_linear(rule, richness, 1.3, [0.0, 60.0])
    ends = [solution.delta[-1], solution.h_y[-1], solution.g_tilde[-1]]
    np.testing.assert_allclose(ends, solution.fixed_point, rtol=0, atol=1e-9)


def test_gradient_descent_needs_the_factor_two():
    """dΔ/dt = −2H_yΔ: written out here from App. F, solved by another integrator."""
    gamma, y = 1.7, 0.9
    solution = exact.two_layer_linear("gd", gamma, y, TIMES)
    reference = solve_ivp(
        lambda t, d: -2 * np.sqrt(1 + gamma**2 * (y - d) ** 2) * d, (0, 3), [y], "DOP853", TIMES, rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(solution.delta, reference.y[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(solution.h_y, np.sqrt(1 + gamma**2 * (y - solution.delta) ** 2), rtol=0, atol=1e-10)


def test_feedback_alignment_is_the_cubic_flow():
    gamma, y, rho = 2.5, 1.1, 0.3
    solution = exact.two_layer_linear(wf.rules.FA(rho=rho), gamma, y, TIMES)
    reference = solve_ivp(
        lambda t, a: gamma * y - a**3 / 2 - (1 + rho) * a, (0, 3), [0.0], "DOP853", TIMES, rtol=1e-12, atol=1e-14
    )
    a = reference.y[0]
    np.testing.assert_allclose(solution.h_y, 1 + a**2, rtol=0, atol=1e-9)
    np.testing.assert_allclose(2 * solution.g_tilde + 1 - 2 * rho, solution.h_y, rtol=0, atol=1e-9)


def test_hebb_error_roots_carry_four_h():
    gamma, y, h = 0.8, 1.2, 1.9
    for root in exact.hebb_error_roots(h, gamma, y):
        assert abs((h + gamma * (y - root) * root) * root) < 1e-12


def test_dfa_is_fa_without_correlation_and_gated_linear_is_gradient_descent():
    for a, b in (("dfa", wf.rules.FA(rho=0.0)), ("gln", "gd")):
        np.testing.assert_array_equal(
            exact.two_layer_linear(a, 1.5, 1.0, TIMES).delta, exact.two_layer_linear(b, 1.5, 1.0, TIMES).delta
        )


@pytest.mark.parametrize(
    ("rule", "small", "large"),
    [
        (wf.rules.GD(), 2.0, 1.0),
        (wf.rules.FA(rho=0.0), 2.0, 2 / 3),
        (wf.rules.FA(rho=1.0), 2.0, 2 / 3),
        (wf.rules.Hebb(), 1.0, 1.0),
    ],
    ids=repr,
)
def test_power_laws_of_feature_movement(rule, small, large):
    """Exponents by regression, then the coefficients."""
    laws = exact.feature_movement_laws(rule, 0.8)
    for gammas, exponent, law in ((np.logspace(-4, -3, 7), small, laws[0]), (np.logspace(8, 9, 7), large, laws[1])):
        moved = [exact.feature_movement(rule, g, 0.8) for g in gammas]
        slope, _ = np.polyfit(np.log(gammas), np.log(moved), 1)
        assert abs(slope - exponent) < 1e-3
        assert law.exponent == exponent
        np.testing.assert_allclose(moved, law(gammas), rtol=1e-3)


def test_larger_correlation_aligns_gradients_more_and_features_less():
    ends = [exact.fixed_point(wf.rules.FA(rho=rho), 2.0, 1.0) for rho in np.linspace(-1, 1, 9)]
    assert np.all(np.diff([e.h_y for e in ends]) < 0)
    assert np.all(np.diff([e.g_tilde for e in ends]) > 0)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("gd", 0.0, 1.0, TIMES), "richness"),
        (("gd", 1.0, np.inf, TIMES), "y is"),
        (("gd", 1.0, 1.0, [1.0, 0.5]), "times"),
        (("gd", 1.0, 1.0, [-1.0, 0.5]), "times"),
        (("nonsense", 1.0, 1.0, TIMES), "rule"),
    ],
)
def test_refuses_what_it_cannot_take(arguments, names):
    with pytest.raises(InputError, match=names):
        exact.two_layer_linear(*arguments)
