"""Static kernels: closed forms, quadrature, laws, special points."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widefield as wf
from widefield.errors import InputError, NotConvergedError
from widefield.numerics.quadrature import elementwise, moments, pair_products
from widefield.problem.activations import TANH
from widefield.solvers.lazy import angle_kernel, kernels
from widefield.solvers.lazy.definition import UnknownSignalError
from widefield.solvers.lazy.tables import build_table, evaluate

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 7))
RULES = ["gd", wf.rules.FA(0.5), "dfa", "gln", "hebb"]


def arc_cosine(v, w, c):
    """Cho & Saul's kernels of degree 1 and 0, for √2·max(h, 0)."""
    theta = np.arccos(np.clip(c / np.sqrt(v * w), -1, 1))
    return np.sqrt(v * w) / np.pi * (np.sin(theta) + (np.pi - theta) * np.cos(theta)), (np.pi - theta) / np.pi


def arcsine(v, w, c):
    """Williams' kernel of erf, and its derivative's."""
    size = (1 + 2 * v) * (1 + 2 * w)
    return 2 / np.pi * np.arcsin(2 * c / np.sqrt(size)), 4 / np.pi / np.sqrt(size - 4 * c**2)


@pytest.mark.parametrize(("activation", "published"), [("relu", arc_cosine), ("erf", arcsine)])
def test_published_closed_forms(activation, published):
    found = kernels(X, wf.MLP(3, activation), "gd")
    covariance = X @ X.T / X.shape[1]
    expected = [covariance]
    slopes = []
    for _ in range(3):
        v = np.diag(expected[-1])
        phi, slope = published(v[:, None], v, expected[-1])
        expected.append(phi)
        slopes.append(slope)
    off = ~np.eye(len(X), dtype=bool)
    np.testing.assert_allclose(found.phi[:, off], np.stack(expected[1:])[:, off], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.phi_dot[:, off], np.stack(slopes)[:, off], rtol=0, atol=1e-10)
    # ReLU keeps variances; the eNTK is the sum over layers.
    ntk = sum(e * np.prod(slopes[k:], axis=0) for k, e in enumerate(expected))
    np.testing.assert_allclose(found.entk[off], ntk[off], rtol=1e-10)
    np.testing.assert_allclose(np.diag(found.entk), np.diag(ntk), rtol=1e-6)  # arccos loses half the digits there


def plane_average(f, g, v, w, c):
    """⟨f(h)g(h')⟩ by a trapezoid rule on a fine Cartesian grid; independent of the library's polar rule."""
    t = np.linspace(-9, 9, 361)
    weight = np.exp(-(t**2) / 2) * (t[1] - t[0]) / np.sqrt(2 * np.pi)
    first = np.sqrt(v) * t[:, None]
    second = c / np.sqrt(v) * t[:, None] + np.sqrt(max(w - c**2 / v, 0)) * t
    return np.einsum("i,j,ij->", weight, weight, f(first) * g(second))


@pytest.mark.parametrize(("v", "w", "rho"), [(1.0, 1.0, 0.3), (6.0, 6.0, 0.95), (6.0, 0.5, -0.8), (2.0, 2.0, 0.9999)])
def test_quadrature_against_a_fine_grid(v, w, rho):
    sigma = np.sqrt([v, w])
    for function, plain in ((TANH.phi, np.tanh), (TANH.phi_dot, lambda h: 1 / np.cosh(h) ** 2)):
        table, error = build_table(function, *sorted(map(float, sigma)), 1e-8, "tanh")
        found = evaluate(table.coefficients, jnp.array([[rho]]), *(jnp.asarray(table.basis(s[None])) for s in sigma))
        expected = plane_average(plain, plain, v, w, rho * np.sqrt(v * w))
        assert abs(found[0, 0] - expected) < 1e-10
        assert error < 1e-10


def leaky(h):
    return jnp.where(h > 0, h, 0.1 * h)


def my_erf(h):
    return jax.lax.erf(h)


def hard_tanh(h):
    return jnp.clip(h, -1, 1)


def test_tables_reach_closed_forms():
    """erf and a mixture of ReLU and identity, once by tables and once in closed form."""
    mine, theirs = kernels(X, wf.MLP(2, my_erf), "gd"), kernels(X, wf.MLP(2, "erf"), "gd")
    np.testing.assert_allclose(mine.entk, theirs.entk, rtol=0, atol=1e-11)
    np.testing.assert_allclose(mine.phi_dot, theirs.phi_dot, rtol=0, atol=1e-11)
    # max(h,0) + 0.1·min(h,0) = 0.9·max(h,0) + 0.1·h, and ⟨max(h,0)h'⟩ = c/2.
    v = np.sum(X**2, 1) / X.shape[1]
    c = X @ X.T / X.shape[1]
    relu, step = arc_cosine(v[:, None], v, c)
    found = kernels(X, wf.MLP(1, leaky), "gd")
    off = ~np.eye(len(X), dtype=bool)
    np.testing.assert_allclose(found.phi[0][off], (0.81 * relu / 2 + (0.09 + 0.01) * c)[off], rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.phi_dot[0][off], (0.81 * step / 2 + 0.1)[off], rtol=0, atol=1e-11)


def test_quadrature_that_is_not_accurate_is_refused():
    with pytest.raises(NotConvergedError, match=r"hard_tanh.*accuracy"):
        kernels(X[:3] / np.linalg.norm(X[:3], axis=1, keepdims=True), wf.MLP(1, hard_tanh), "gd")


def test_moments_report_their_error():
    values, error = moments((np.tanh, elementwise(jnp.exp)), np.array([0.5, 2.0]))
    np.testing.assert_allclose(values[1], np.exp(2 * np.array([0.25, 4.0])), rtol=1e-10)
    assert error < 1e-10
    # Antipodal and coinciding points: sectors of width 0.
    one = np.ones(1)
    ends = pair_products(np.tanh, np.tanh, np.array([0.0, np.pi]), one, one, (24, 64))[:, 0, 0]
    square = moments((np.tanh,), one)[0][0, 0]
    np.testing.assert_allclose(ends, [square, -square], atol=1e-13)


@pytest.mark.parametrize("activation", ["relu", pytest.param("tanh", marks=pytest.mark.slow)])
def test_special_points(activation):
    """Duplicates, antipodes, multiples and the zero vector: finite, symmetric, and equal to what they duplicate."""
    x = np.concatenate([X, X[:2], -X[:2], 3 * X[:1], np.zeros((1, 7))])
    for rule in RULES if activation == "relu" else RULES[:1]:
        found = kernels(x, wf.MLP(3, activation), rule)
        for name in ("entk", "phi", "phi_dot", "g", "g_tilde"):
            value = getattr(found, name)
            assert np.all(np.isfinite(value))
            assert np.array_equal(value, np.swapaxes(value, -1, -2))
        assert np.array_equal(found.entk[12], found.entk[0])
        assert np.array_equal(found.entk[13, 1], found.entk[1, 1])
        alone = kernels(x[:1], wf.MLP(3, activation), rule)
        np.testing.assert_allclose(found.entk[0, 0], alone.entk[0, 0], rtol=1e-12)
    if activation == "relu":
        found = kernels(x, wf.MLP(3, "relu"), "gd")
        assert np.array_equal(np.diag(found.phi_dot[0])[:12], np.ones(12))
        np.testing.assert_allclose(np.diag(found.entk), 4 * np.sum(x**2, 1) / 7, rtol=1e-14)
        np.testing.assert_allclose(found.phi[0, 0, 14], 0, atol=1e-14)  # x and −x share no active neuron
        np.testing.assert_allclose(found.entk[0, 16], 3 * found.entk[0, 0], rtol=1e-12)


def test_multiples_are_parallel_whatever_rounding_says():
    """In many dimensions a rounded inner product misses √(v·w) by several eps, which would cost ⟨φ̇φ̇⟩ 1e-8."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 500))
    found = kernels(x, wf.MLP(1, "relu"), "gd", x * np.random.default_rng(1).uniform(0.1, 10, (200, 1)))
    np.testing.assert_allclose(np.diag(found.phi_dot[0]), 1, rtol=1e-12)


def test_nearly_equal_points_keep_their_angle():
    """Angles down to 1e-7 change ⟨φ̇φ̇⟩ of a ReLU by θ/π; a rounded inner product would lose that."""
    for theta in (1e-3, 1e-5, 1e-7):
        x = np.array([[1.0, 0.0], [np.cos(theta), np.sin(theta)]])
        found = kernels(x, wf.MLP(1, "relu"), "gd").phi_dot[0, 0, 1]
        assert abs((1 - found) - theta / np.pi) < 0.02 * theta / np.pi


def test_table_2():
    depth = 3
    for activation in ("relu", "tanh"):
        network = wf.MLP(depth, activation)
        gd, gln = kernels(X, network, "gd"), kernels(X, network, "gln")
        inputs = X @ X.T / 7
        features = np.concatenate([inputs[None], gd.phi])
        gradients = np.concatenate([gd.g, np.ones((1, 12, 12))])
        np.testing.assert_allclose(gd.entk, np.sum(features * gradients, 0), rtol=1e-12)
        for rho in (0.3, 1.0) if activation == "relu" else ():
            weights = rho ** (depth - np.arange(depth + 1))
            expected = np.einsum("l,lmn,lmn->mn", weights, features, gradients)
            np.testing.assert_allclose(kernels(X, network, wf.rules.FA(rho)).entk, expected, rtol=1e-12, atol=1e-14)
        for rule in (wf.rules.FA(0.0), "dfa", "hebb") if activation == "relu" else ():
            assert np.array_equal(kernels(X, network, rule).entk, gd.phi[-1])
        # Every one of the L+1 layers contributes the same term; the paper's table lacks the factor.
        np.testing.assert_allclose(gln.entk, (depth + 1) * gd.phi_dot[0] ** depth * inputs, rtol=1e-12, atol=1e-13)


def test_angle_kernel():
    theta = np.linspace(0, np.pi, 7)
    relu = wf.MLP(1, "relu")
    phi, slope = arc_cosine(1.0, 1.0, np.cos(theta))
    np.testing.assert_allclose(angle_kernel(relu, "gd", theta), phi + slope * np.cos(theta), atol=1e-10)
    np.testing.assert_allclose(angle_kernel(wf.MLP(4, "relu"), "gln", theta), 5 * slope**4 * np.cos(theta), atol=1e-10)
    assert angle_kernel(relu, "gd", 0.0).shape == ()
    assert angle_kernel(wf.MLP(3, "relu"), wf.rules.FA(0.9), 0.0) > angle_kernel(
        wf.MLP(3, "relu"), wf.rules.FA(0.1), 0.0
    )
    with pytest.raises(InputError, match="network"):
        angle_kernel(wf.CNN(1), "gd", theta)


POINTS = st.integers(2, 9).flatmap(
    lambda n: st.lists(st.lists(st.floats(-3, 3, width=16), min_size=3, max_size=3), min_size=n, max_size=n)
)


@settings(deadline=None, max_examples=12)
@given(
    points=POINTS, rule=st.sampled_from(RULES), activation=st.sampled_from(["relu", "erf", "linear"]), data=st.data()
)
def test_laws(points, rule, activation, data):
    """Positive semidefinite to rounding; permuted with the points; a block of the kernel of the union."""
    # Padding to one number of points spares a compilation for each.
    x = np.resize(np.array(points), (9, 3))
    network = wf.MLP(2, activation)
    full = kernels(x, network, rule)
    for kernel in (full.entk, *full.phi, *full.g):
        values = np.linalg.eigvalsh(kernel)
        assert values[0] >= -1e-13 * max(values[-1], 1e-300)
    order = data.draw(st.permutations(range(9)))
    moved = kernels(x[order], network, rule)
    np.testing.assert_allclose(moved.entk, full.entk[np.ix_(order, order)], rtol=1e-7, atol=1e-12)
    split = 4
    block = kernels(x[:split], network, rule, x[split:])
    # √eps times the slope of the arc-cosine kernel at coinciding directions bounds what rounding can do.
    np.testing.assert_allclose(block.entk, full.entk[:split, split:], rtol=1e-7, atol=1e-12)


@pytest.mark.slow
def test_laws_for_tables_and_convolutions():
    images = RNG.standard_normal((5, 6, 2))
    cases = [
        (X, wf.MLP(3, "tanh")),
        (X, wf.MLP(2, "tanh", residual=True)),
        (images, wf.CNN(2, 3, "relu", "zero", "pool")),
    ]
    for x, network in cases:
        for rule in RULES[:2]:
            full = kernels(x, network, rule)
            values = np.linalg.eigvalsh(full.entk)
            assert values[0] >= -1e-12 * values[-1]
            block = kernels(x[:2], network, rule, x[2:])
            np.testing.assert_allclose(block.entk, full.entk[:2, 2:], rtol=1e-9, atol=1e-11)
            order = RNG.permutation(len(x))
            np.testing.assert_allclose(
                kernels(x[order], network, rule).entk, full.entk[np.ix_(order, order)], rtol=1e-9, atol=1e-11
            )


def test_circular_images_may_be_shifted():
    """A pooled readout and circular filters do not see where things are; filters that end at the border do."""
    images = RNG.standard_normal((2, 5, 2))
    for padding, same in (("circular", True), ("zero", False)):
        network = wf.CNN(2, 3, "relu", padding, "pool")
        here, there = (kernels(np.roll(images, by, axis=1), network, "gd", outputs=("entk",)).entk for by in (0, 2))
        assert np.allclose(here, there, rtol=1e-10) == same


def test_pseudo_gradients_of_a_residual_network():
    """G̃̃^ℓ = (1 + Φ̇^ℓ)∘G̃̃^{ℓ+1} below the last layer, where it is Φ̇."""
    data, network = wf.datasets.sphere(3, 4, seed=1), wf.MLP(3, "relu", residual=True)
    problem = wf.Problem(data, network, wf.rules.FA(0.5), 1.0, wf.Training(1, 0.1))
    phi_dot = kernels(data.x, network, "gd", outputs=("phi_dot",)).phi_dot
    last = phi_dot[2]
    expected = [(1 + phi_dot[0]) * (1 + phi_dot[1]) * last, (1 + phi_dot[1]) * last, last]
    found = wf.solve(problem, method="lazy", record=["g_tilde_tilde"], progress=False)["g_tilde_tilde"].values[0]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@dataclass(frozen=True)
class PlainFA(wf.rules.Rule):
    """FA without a stated closed form; with `gain` a part that reads the error."""

    gain: float = 0.0

    @property
    def feedback(self):  # type: ignore[override]
        return wf.rules.Weights(0.5, learns=False)

    def local(self, site):
        return site.phi_dot * site.signal * (1 + self.gain * site.error if self.gain else 1.0)


def test_definition_reaches_the_closed_form():
    points = np.concatenate([X[:4], 0 * X[:1]])  # a point without variance has no pseudo-gradient
    found, expected = (kernels(X[:5], wf.MLP(2, "relu"), rule, points) for rule in (PlainFA(), wf.rules.FA(0.5)))
    np.testing.assert_allclose(found.g_tilde, expected.g_tilde, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.entk, expected.entk, rtol=0, atol=1e-11)
    # Points of other lengths have another ψ each, unless φ is homogeneous.
    found, expected = (kernels(X[:2], wf.MLP(1, "erf"), rule) for rule in (PlainFA(), wf.rules.FA(0.5)))
    np.testing.assert_allclose(found.g_tilde, expected.g_tilde, rtol=0, atol=1e-8)
    images = RNG.standard_normal((2, 4, 2))
    network = wf.CNN(2, 3, "relu", "zero", "pool")
    found, expected = (kernels(images, network, rule) for rule in (PlainFA(), wf.rules.FA(0.5)))
    np.testing.assert_allclose(found.entk, expected.entk, rtol=1e-10)


def test_rules_that_read_the_error():
    with pytest.raises(UnknownSignalError, match="error="):
        kernels(X[:3], wf.MLP(1, "relu"), PlainFA(1.0))
    found = kernels(X[:3], wf.MLP(1, "relu"), PlainFA(1.0), error=np.array([0.0, 1.0, 2.0]))
    expected = kernels(X[:3], wf.MLP(1, "relu"), wf.rules.FA(0.5))
    np.testing.assert_allclose(found.g_tilde, expected.g_tilde * np.array([1.0, 2.0, 3.0]), atol=1e-11)
    images = RNG.standard_normal((2, 4, 2))
    for readout in ("pool", "position"):
        network = wf.CNN(1, 3, "relu", "zero", readout)
        found = kernels(images, network, PlainFA(1.0), error=np.array([0.0, 2.0])).g_tilde  # (layer, P, P, positions…)
        expected = kernels(images, network, wf.rules.FA(0.5)).g_tilde
        np.testing.assert_allclose(found[:, :, 0], expected[:, :, 0], atol=1e-11)
        np.testing.assert_allclose(found[:, :, 1], 3 * expected[:, :, 1], atol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X[0], wf.MLP(1), "gd"), {}, "x is"),
        ((X, wf.MLP(1), "gd", X[:, :3]), {}, "x2 is"),
        ((X, wf.MLP(1), "nothing"), {}, "rule is"),
        ((X, "mlp", "gd"), {}, "network is"),
        ((X * np.inf, wf.MLP(1), "gd"), {}, "finite"),
        ((X, wf.MLP(1), "gd"), {"outputs": ("ntk",)}, "outputs is"),
        ((X, wf.MLP(1), "gd"), {"accuracy": 0.0}, "accuracy is"),
        ((X, wf.MLP(1), "gd"), {"memory_budget": 0}, "memory_budget is"),
        ((X, wf.CNN(1), "gd"), {}, "positions"),
        ((X, wf.MLP(2, "relu", residual=True), PlainFA()), {}, "residual"),
    ],
)
def test_bad_arguments(arguments, options, message):
    with pytest.raises(InputError, match=message):
        kernels(*arguments, **options)


def test_kernels_are_silent_unless_asked(capsys):
    for progress, speaks in (({}, False), ({"progress": True}, True)):
        kernels(X[:3], wf.MLP(1, "relu"), "gd", outputs=("entk",), **progress)
        assert bool(capsys.readouterr().err) == speaks
