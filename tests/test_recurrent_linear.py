"""Linear recurrent networks in closed form, against the engine and against MLPs in closed form."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from test_recurrent import RULES, make_problem, one_input

import widefield as wf
from widefield.observables import DEFAULT_KERNELS as KERNELS

SLOW = pytest.mark.slow
LAYERED = [wf.rules.GD(), wf.rules.FA(0.6), wf.rules.KolenPollack(0.3), wf.rules.Hebb()]
LINEAR = [rule for rule in RULES if rule.feedback.entrywise is None and "mirror" not in rule.feedback.uses]


@pytest.mark.parametrize(
    ("rule", "readout", "options"),
    [
        (wf.rules.FA(0.6), "last", {"weight_decay": 0.1}),
        *[pytest.param(rule, "every", {"outputs": 2, "masked": True}, marks=SLOW) for rule in LINEAR],
        *[pytest.param(rule, "last", {"integrator": "ab2"}, marks=SLOW) for rule in LINEAR],
    ],
    ids=repr,
)
def test_closed_algebra_is_mean_field(rule, readout, options):
    """All averages of a linear network are of second order, which matched Gaussians have exactly, whatever S."""
    dt = 0.1 if rule.linear else 0.01  # Hebbian learning of linear neurons explodes
    problem = make_problem(rule, readout, 0.6, 1.2, activation="linear", steps=4, dt=dt, richness=1.5, **options)
    names = KERNELS if readout == "last" else ("phi", "entk")
    exact = wf.solve(problem, method="linear", progress=False)
    theory = wf.solve(problem, samples=384, seeds=2, record=names, progress=False)
    for name in ("f", "loss", *names):
        assert exact[name].dims == theory[name].dims
        scale = max(1.0, np.abs(exact[name].values).max())
        np.testing.assert_allclose(exact[name], theory[name], atol=1e-8 * scale, err_msg=name)
        assert np.abs(theory[name + "_se"].values).max() < 1e-9 * scale
    assert np.abs(exact["f"].values[-1]).max() > 1e-3


OPTIONS = {"decay": {"weight_decay": 0.3}, "momentum": {"momentum": 0.9}, "ab2": {"integrator": "ab2"}}


@pytest.mark.parametrize("rule", LAYERED, ids=repr)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_one_input_frame_is_a_linear_mlp(rule, options):
    """T = 2 is an MLP of depth 2, and T = 3 one of depth 3, because φ is odd; other equations solve those."""
    for frames in (2, 3):
        pair = [
            dataclasses.replace(problem, training=wf.Training(5, 0.05, **options))
            for problem in one_input(frames, "linear", rule)
        ]
        recurrent, layered = (wf.solve(problem, method="linear", progress=False) for problem in pair)
        for name in ("f", "entk"):
            np.testing.assert_allclose(recurrent[name], layered[name], atol=1e-10, err_msg=name)


def test_low_rank_structure_by_hand():
    """θ m nᵀ/N between two frames: m is r w and noise, n is q U and noise.

    ⟨n h₁⟩ = q·x₁/√D, so that Φ₂₂ = g²Φ₁₁ + x₂·x₂/D + θ²(q·x₁)(q·x₁)/D, and f starts at 0 whatever ⟨wm⟩ is. K has the
    terms of Φ₂₂, of U at both frames and of W: ⟨g₂g₂⟩ = 1 and ⟨g₁g₁⟩ = g² + θ²r².
    """
    problem = make_problem("gd", gain=1.2, activation="linear", frames=2, steps=1, dt=1e-7)
    theta, q, r = 1.7, np.array([0.8, -0.3]), 0.6
    part = {"strength": theta, "overlap": 0.4, "input": q.tolist(), "readout": [r]}
    network = dataclasses.replace(problem.network, structure=[part])
    problem = dataclasses.replace(problem, network=network)
    exact = wf.solve(problem, method="linear", progress=False)
    first, second = np.moveaxis(problem.data.x, 1, 0) / np.sqrt(2)
    felt = first @ q
    own, later = first @ first.T, second @ second.T
    phi = 1.2**2 * own + later + theta**2 * np.outer(felt, felt)
    np.testing.assert_allclose(exact["phi"][0, 0, :, :, 1, 1], phi, rtol=1e-10)
    # g₂ = w and g₁ = g W₀ᵀw + θrn, of which ⟨g₁g₂⟩ = θr⟨nw⟩ and ⟨nw⟩ = 0.4r.
    across = theta * r * 0.4 * r
    gradients = 1.2**2 + theta**2 * r**2
    mixed = across * (first @ second.T + second @ first.T)
    np.testing.assert_allclose(exact["entk"][0], phi + later + own + gradients * own + mixed, rtol=1e-10)
    np.testing.assert_allclose(exact["f"][1], 1e-7 * exact["entk"].values[0] @ problem.data.y, rtol=1e-5)


def test_what_does_not_close_is_refused():
    for rule in (wf.rules.SignSymmetric(), wf.rules.WeightMirror(1.0)):
        with pytest.raises(wf.errors.InputError, match="rule is"):
            wf.solve(make_problem(rule, activation="linear"), method="linear")


def test_a_diverging_run_names_its_step():
    problem = make_problem(activation="linear", steps=400, dt=9.0)
    with (
        pytest.raises(wf.errors.DivergenceError, match=r"at step .*, frame . of 3"),
        pytest.warns(wf.errors.StabilityWarning),
    ):
        wf.solve(problem, method="linear", progress=False)
