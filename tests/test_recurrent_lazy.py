"""The lazy limit of recurrent networks, against MLPs, the engine and dense networks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from agreement import alarm, runs_of, wide_networks
from test_recurrent import make_problem, one_input

import widefield as wf
from widefield.observables import DEFAULT_KERNELS as KERNELS

SLOW = pytest.mark.slow
STATIC = [wf.rules.GD(), wf.rules.FA(0.6), wf.rules.DFA(), wf.rules.Hebb(), wf.rules.GLN(), wf.rules.SignSymmetric()]
LAYERED = [rule for rule in STATIC if not (rule.feedback.direct or rule.gated)]  # as in an MLP with one input frame


def lazy(problem: wf.Problem, record=KERNELS) -> wf.Result:
    names = record if problem.rule != wf.rules.Hebb() else [name for name in record if name != "g_tilde_tilde"]
    return wf.solve(problem, method="lazy", record=names)


@dataclasses.dataclass(frozen=True)
class Unstated(wf.rules.Rule):
    """Backpropagation whose lazy limit is not stated."""

    def local(self, site):
        return site.phi_dot * site.signal


@pytest.mark.parametrize("rule", LAYERED, ids=repr)
@pytest.mark.parametrize(("frames", "activation"), [(2, "relu"), (3, "erf")])
def test_one_input_frame_is_an_mlp(rule, frames, activation):
    """The matrix is asked once in a pass with T = 2; with T = 3 and an odd φ it is not felt that it is shared."""
    recurrent, layered = one_input(frames, activation, rule)
    a, b = lazy(recurrent, ("entk", "phi", "g_tilde")), lazy(layered, ("entk", "phi", "g_tilde"))
    np.testing.assert_allclose(a["entk"], b["entk"], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a["f"], b["f"], rtol=1e-12, atol=1e-12)
    for name in ("phi", "g_tilde"):
        own = np.einsum("tlmnss->tlsmn", a[name].values)[:, 0]
        np.testing.assert_allclose(own, b[name], rtol=1e-12, atol=1e-12, err_msg=name)


def test_tables_serve_frames_and_layers_alike():
    """Gaussian averages of an activation without closed form come from tables, good to 1e-8."""
    recurrent, layered = one_input(2, lambda h: h + h**2 / 4, wf.rules.FA(0.6))
    x, flat = 3 * recurrent.data.x, 3 * layered.data.x
    found = wf.lazy.kernels(x, recurrent.network, recurrent.rule, outputs=("entk", "phi"))
    expected = wf.lazy.kernels(flat, layered.network, layered.rule, outputs=("entk", "phi"))
    np.testing.assert_allclose(found.entk, expected.entk, rtol=1e-7)
    np.testing.assert_allclose(np.einsum("lmntt->ltmn", found.phi)[0], expected.phi, rtol=1e-7)
    block = wf.lazy.kernels(x[:1], recurrent.network, recurrent.rule, x, outputs=("entk",))
    np.testing.assert_allclose(block.entk, found.entk[:1], rtol=1e-7)


@pytest.mark.parametrize("rule", STATIC[:-1], ids=repr)
@pytest.mark.parametrize("readout", ["last", "every"])
def test_kernels_of_linear_networks_are_those_of_the_closed_algebra(rule, readout):
    """Every kernel at the start, at any leak and gain, of four frames."""
    problem = make_problem(rule, readout, 0.6, 1.3, activation="linear", frames=4, points=2, steps=1, dt=0.1)
    theory, static = wf.solve(problem, method="linear", progress=False), lazy(problem)
    for name in {"entk", *KERNELS} & set(theory.dataset.data_vars) & set(static.dataset.data_vars):
        found, expected = static[name].values[0], theory[name].values[0]
        np.testing.assert_allclose(found, expected, atol=1e-10 * max(1, np.abs(expected).max()), err_msg=name)


@pytest.mark.parametrize("rule", [wf.rules.FA(0.6), wf.rules.DRTP()], ids=repr)
def test_learning_is_the_limit_of_small_richness(rule):
    """A linear network, which has a closed algebra; features move f by O(γ₀²)."""
    problem = make_problem(rule, "every", 0.6, outputs=2, masked=True, activation="linear", dt=0.1, momentum=0.9)
    data = wf.Dataset(problem.data.x, problem.data.y, problem.data.x[:2] + 0.3, problem.data.y[:2])
    problem = dataclasses.replace(problem, data=data, richness=1e-3)
    theory, static = wf.solve(problem, method="linear", progress=False), lazy(problem, ("phi",))
    for name in ("f", "f_test", "delta", "loss", "test_loss", "phi_alignment"):
        assert static[name].dims == theory[name].dims
        np.testing.assert_allclose(static[name], theory[name], atol=1e-5, err_msg=name)
    assert np.abs(static["f"].values[-1]).max() > 0.05


def test_closed_form_of_the_flow_is_the_limit_of_small_steps():
    problem = make_problem("gd", "every", 0.5, masked=True, activation="relu", dt=1e-3)
    flow = wf.lazy.predict(problem, [0.5, 2.0])
    steps = wf.lazy.predict(problem, [0.5, 2.0], discrete=True)
    np.testing.assert_allclose(flow["f"], steps["f"], atol=2e-3)
    assert flow["f"].dims == ("time", "sample", "frame")


@pytest.mark.parametrize(
    ("rule", "readout", "activation"),
    [
        (wf.rules.FA(0.6), "last", "erf"),
        *[pytest.param(rule, "last", "tanh", marks=SLOW) for rule in STATIC],
        *[pytest.param(rule, "every", "relu", marks=SLOW) for rule in STATIC],
    ],
    ids=repr,
)
def test_kernels_are_those_of_wide_networks_at_the_start(rule, readout, activation):
    """False alarm in less than 1 of 1000 keys; error bars of networks are 0.5 % of K."""
    problem = make_problem(rule, readout, 0.5, 1.5, activation=activation, points=2, steps=1)
    names = ("entk", "phi")
    static, dense = lazy(problem, names), wide_networks(problem, 200, names)
    networks = {name: dense[name][:, 0] for name in names}
    exact = {name: np.stack([static[name].values[0]] * 2) for name in names}
    where, chance = alarm(
        {name: value.reshape(len(value), -1) for name, value in exact.items()},
        {name: value.reshape(len(value), -1) for name, value in networks.items()},
    )
    assert chance > 1e-3, where


@pytest.mark.slow
@pytest.mark.parametrize("rule", STATIC[:4], ids=repr)
def test_tanh_networks_of_small_richness_are_lazy(rule):
    """False alarm in less than 1 of 1000 keys; f moves by O(γ₀²) = 4e-4 with the features, its error bars are 2e-3."""
    problem = make_problem(rule, "every", 0.5, 1.5, points=2, richness=0.02, steps=6, dt=0.2)
    theory = wf.solve(problem, samples=2048, seeds=12, record=("entk",), precision="float64", progress=False)
    static = lazy(problem, ("entk",))
    names = ("f", "entk")
    runs = {name: runs_of(theory)[name].reshape(12, -1) for name in names}
    exact = {name: np.stack([static[name].values.reshape(-1)] * 2) for name in names}
    where, chance = alarm(runs, exact)
    assert chance > 1e-3, where


def test_what_has_no_static_kernel_is_refused():
    for rule in ("eprop", wf.rules.TruncatedBPTT(2), wf.rules.WeightMirror(1.0)):
        with pytest.raises(wf.errors.InputError, match="lazy limit"):
            lazy(make_problem(rule))
    problem = make_problem()
    low_rank = dataclasses.replace(problem.network, structure=[{"strength": 1.0}])
    with pytest.raises(wf.errors.InputError, match="structure is not"):
        lazy(dataclasses.replace(problem, network=low_rank))
    with pytest.raises(wf.errors.InputError, match="rules with lazy_g_tilde"):
        lazy(make_problem(Unstated()))
    with pytest.raises(wf.errors.InputError, match="store is"):
        wf.lazy.kernels(problem.data.x, problem.network, "gd", store="kernels.zarr")
    with pytest.raises(wf.errors.InputError, match="memory_budget is"):
        wf.lazy.kernels(problem.data.x, problem.network, "gd", memory_budget=10**9)
