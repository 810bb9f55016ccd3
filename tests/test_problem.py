"""The parts of a problem by themselves: activations, losses, orders of points, wirings, and rules as numbers."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.errors import InputError
from widefield.problem.activations import ACTIVATIONS, as_activation
from widefield.problem.arrays import real_array
from widefield.problem.losses import LOSSES, Loss, as_loss
from widefield.problem.networks.layout import Layout
from widefield.rules.feedback import Mirror, Past, Signs, Vectors, Weights
from widefield.rules.lookup import as_rule
from widefield.rules.numbers import split_numbers

X, Y = np.eye(3), np.array([1.0, -1.0, 0.5])

# Activations

BY_HAND = {
    "relu": lambda h: math.sqrt(2) * max(h, 0),
    "tanh": math.tanh,
    "erf": math.erf,
    "linear": lambda h: h,
    "gelu": lambda h: h * (1 + math.erf(h / math.sqrt(2))) / 2,
    "softplus": lambda h: math.log1p(math.exp(h)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_slopes_by_hand(name):
    """Slopes by central differences, whose error is of order 1e-10 here."""
    h, d = np.array([-1.3, -0.2, 0.4, 2.1]), 1e-5
    phi = np.vectorize(BY_HAND[name])
    np.testing.assert_allclose(ACTIVATIONS[name].phi(jnp.asarray(h)), phi(h), rtol=1e-12)
    slope = (phi(h + d) - phi(h - d)) / (2 * d)
    np.testing.assert_allclose(ACTIVATIONS[name].phi_dot(jnp.asarray(h)), slope, rtol=1e-8)


def test_an_activation_of_ones_own_is_differentiated():
    own = as_activation(jnp.sin)
    np.testing.assert_allclose(own.phi_dot(jnp.asarray([[0.3, 2.0]])), np.cos([[0.3, 2.0]]))
    assert as_activation(jnp.sin) == own
    assert repr(own) == own.name


@pytest.mark.parametrize(
    ("phi", "says"),
    [
        (lambda h: jnp.sort(h, -1), "other values for single neurons"),
        (lambda h: jnp.cumsum(h, 0), "other values for single neurons"),
        (lambda h: jnp.sign(h) > 0, "numbers of type bool"),
        (lambda h: h[:, :1], "shape"),
        (lambda h: 1 / jnp.maximum(h - 2, 0), "it gives inf between −1.7 and 2.1"),
        (jnp.sqrt, "it gives nan"),
        (lambda h: jnp.sqrt(jnp.maximum(h, 0)), "its derivative gives (nan|inf)"),
    ],
)
def test_what_is_no_activation_says_why(phi, says):
    with pytest.raises(InputError, match=says):
        as_activation(phi)


# Losses


def test_losses_of_single_samples_by_hand():
    f, signs, hot = jnp.array([[0.5, -1.0], [2.0, 0.0]]), jnp.array([[1.0, -1.0], [-1.0, 1.0]]), jnp.eye(2)
    expected = {
        "squared": [0.5 * (0.25 + 0.0), 0.5 * (9.0 + 1.0)],
        "logistic": [math.log1p(math.exp(-0.5)) + math.log1p(math.exp(-1.0)), math.log1p(math.exp(2)) + math.log(2)],
        "cross_entropy": [math.log1p(math.exp(-1.5)), math.log1p(math.exp(2.0))],
    }
    for name, values in expected.items():
        y = hot if name == "cross_entropy" else signs
        np.testing.assert_allclose(LOSSES[name].per_sample(f, y), values, err_msg=name)
        np.testing.assert_allclose(LOSSES[name].total(f, y), sum(values), err_msg=name)


@pytest.mark.parametrize(
    ("name", "y", "fits"),
    [
        ("squared", [[7.0]], True),
        ("logistic", [[1.0], [-1.0]], True),
        ("logistic", [[1.0], [0.5]], False),
        ("cross_entropy", [[0.25, 0.75], [1.0, 0.0]], True),
        ("cross_entropy", [[0.5, 0.6]], False),
        ("cross_entropy", [[1.5, -0.5]], False),
        ("cross_entropy", [[1.0]], False),
    ],
)
def test_targets_fit_their_loss(name, y, fits):
    assert (LOSSES[name].check(np.array(y)) is None) == fits


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda f, y: (f - y).T, r"shape \(2, 3\) for f of shape \(3, 2\)"),
        (lambda f, y: (f > y).sum(-1), "numbers of type int"),
        (lambda f, y: [1.0, 2.0, 3.0], "which gives list"),
        (lambda f, y: f.sum(-1) + jax.lax.stop_gradient(undefined), "fails on a small example"),  # noqa: F821  # type: ignore[name-defined]
    ],
)
def test_what_is_no_loss_says_why(loss, says):
    for given in (loss, Loss("mine", loss)):
        with pytest.raises(InputError, match=says):
            as_loss(given)
    assert as_loss(lambda f, y: (f - y) ** 2).total(jnp.ones((3, 2)), jnp.zeros((3, 2))) == 6


# Orders of points


def test_orders_of_points():
    """Epoch by epoch; a batch across the end of one may hold a point twice."""
    whole = wf.Training(2, 0.1)
    np.testing.assert_array_equal(whole.batches(3), np.ones((2, 3)))
    cyclic = wf.Training(4, 0.1, batch_size=2, schedule="cyclic")
    np.testing.assert_array_equal(cyclic.order(3), [[0, 1], [2, 0], [1, 2], [0, 1]])
    np.testing.assert_array_equal(cyclic.batches(3), [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]])
    random = wf.Training(7, 0.1, batch_size=3, batch_seed=5)
    rng = np.random.default_rng(5)
    epochs = np.concatenate([rng.permutation(5) for _ in range(5)])
    np.testing.assert_array_equal(random.order(5), epochs[:21].reshape(7, 3))
    twice = wf.Training(30, 0.1, batch_size=3).batches(5)
    np.testing.assert_array_equal(twice.sum(1), 3)
    assert twice.max() == 2


# Data


def test_numbers_may_be_large_or_missing_where_that_makes_sense():
    assert real_array("x", [1e50, -1e50]).tolist() == [1e50, -1e50]
    assert np.isnan(real_array("x", [1.0, np.nan], missing=True)[1])
    assert real_array("x", [np.inf, True], largest=np.inf).tolist() == [np.inf, 1.0]
    for value, options, says in (
        ([0.0, 1.1e50], {}, r"x is 1.1e\+50 at index \(1,\); allowed: up to 1e\+50"),
        ([[0.0, np.nan]], {}, r"x is nan at index \(0, 1\); allowed: finite numbers"),
        (-np.inf, {}, "x is -inf; allowed: finite numbers"),
        ([np.nan, np.inf], {"missing": True}, r"x is inf at index \(1,\)"),
        ([np.nan], {"largest": np.inf}, "x is nan"),
        (np.ma.array([1.0]), {}, "x is a masked array"),
        ([np.ma.array([1.0])], {}, "x is a masked array"),
        (["1"], {}, "x is of type <U1"),
        ([1j], {}, "x is of type complex128"),
        (None, {}, "x is NoneType"),
        ([[1.0], [2.0, 3.0]], {}, "x is list"),
    ):
        with pytest.raises(InputError, match=says):
            real_array("x", value, **options)


def test_data_say_what_they_are():
    data = wf.Dataset(np.zeros((3, 4, 2)), np.ones((3, 2)), np.ones((5, 4, 2)), np.ones((5, 2)))
    assert repr(data) == "Dataset(3 points of shape (4, 2), 2 outputs, 5 test points)"
    assert repr(wf.Dataset(X, Y)) == "Dataset(3 points of shape (3,), 1 outputs)"
    assert data.all_x.shape == (8, 4, 2)
    np.testing.assert_array_equal(data.all_x[3:], 1)
    assert wf.Dataset(X, Y) == wf.Dataset(X + 0.0, Y)
    assert wf.Dataset(X, Y) != wf.Dataset(X, Y, X)
    assert wf.Dataset(X, Y).__eq__(3) is NotImplemented
    assert wf.Dataset(X, [1, -1, 1]).y.dtype == np.float64  # whole numbers that are signs, or of several columns
    assert wf.Dataset(X, [[0], [1], [2]]).outputs == 1
    assert hash(wf.Dataset(-0.0 * X, Y)) == hash(wf.Dataset(0.0 * X, Y))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((X, [0, 1, 2]), "names of classes"),
        ((X, [2, -2, 2]), "names of classes"),
        ((X, [True, False, True]), "names of classes"),
        ((X, [[1.0], [2.0, 3.0], [4.0]]), "y is list; allowed: an array"),
        ((X, np.ones((3, 2, 2))), r"y is 'of shape \(3, 2, 2\)'; allowed: shape \(P,\) or \(P, C\)$"),
        ((np.ones((3, 2, 2)), 1.0), r"allowed: shape \(P,\) or \(P, C\), or \(P, T, C\) for an RNN"),
        ((X[0], Y[:1]), "shape"),
        ((X, Y[:2]), "one row per row of x, 3 of them"),
        ((X, Y, X[:, :2]), r"points of shape \(3,\)"),
        ((X, Y, X[:0]), "at least one point, or None"),
        ((X, Y, X, 1.0), "a single number"),
        ((X, Y, None, Y), "together with x_test"),
        ((X, Y, X[:2], np.ones((2, 2))), r"targets of shape \(\)"),
    ],
)
def test_data_that_do_not_fit_say_why(arguments, says):
    with pytest.raises(InputError, match=says):
        wf.Dataset(*arguments)


def test_networks_without_initial_weights_have_no_signs():
    data = wf.Dataset(np.ones((2, 2, 1)), [1.0, -1.0])
    for rule, gain in (("gd", 0.0), ("sign_symmetric", 0.5)):
        wf.Problem(data, wf.RNN(gain=gain), rule, 1.0, wf.Training(1, 0.1))
    with pytest.raises(InputError, match="gain is 0"):
        wf.Problem(data, wf.RNN(gain=0.0), "sign_symmetric", 1.0, wf.Training(1, 0.1))
    single = wf.Dataset(np.ones((2, 1, 1)), [1.0, -1.0])  # one frame asks no matrix
    wf.Problem(single, wf.RNN(gain=0.0), "sign_symmetric", 1.0, wf.Training(1, 0.1))


# Wirings


def test_wirings_are_counted():
    mlp = wf.MLP(3, residual=True).wiring((5, 2))
    assert (mlp.populations, mlp.matrices, mlp.blocks, mlp.reads) == (3, 2, 1, 1)
    assert (mlp.feed_forward, mlp.repeats, mlp.crosses) == (True, False, True)
    assert [mlp.ends(matrix) for matrix in (0, 1)] == [(0, 1), (1, 2)]
    assert not wf.MLP(3).wiring((5, 2)).crosses
    for readout, reads in (("last", 1), ("every", 4)):
        rnn = wf.RNN(leak=0.5, readout=readout).wiring((5, 4, 2))
        assert (rnn.populations, rnn.matrices, rnn.blocks, rnn.reads) == (1, 1, 4, reads)
        assert (rnn.feed_forward, rnn.repeats, rnn.crosses) == (False, True, False)
        assert rnn.asks(0) == [1, 2, 3]
        assert rnn.ends(0) == (0, 0)
    assert [stage.carry for stage in wf.RNN(leak=0.25).wiring((5, 3, 2)).stages] == [0, 0.75, 0.75]
    assert [wf.RNN().wiring((5, frames, 2)).repeats for frames in (1, 2, 3)] == [False, False, True]


def test_the_widest_filter_sees_every_place_once():
    """Of positions or heights and widths; 3 is always allowed."""
    for shape, widest in (((2, 4, 1), 7), ((2, 3, 5, 1), 9), ((2, 1, 1), 3)):
        wf.CNN(1, widest).wiring(shape)
        with pytest.raises(InputError, match=f"up to {widest} for x"):
            wf.CNN(1, widest + 2).wiring(shape)


def test_neighbours_of_a_position_by_hand():
    """Offsets −1, 0, 1 in each direction, the last varying fastest; −1 is outside."""
    assert Layout().neighbours().tolist() == [[0]]
    assert Layout((3,), 1, False).neighbours().tolist() == [[-1, 0, 1], [0, 1, 2], [1, 2, -1]]
    assert Layout((3,), 1).neighbours().tolist() == [[2, 0, 1], [0, 1, 2], [1, 2, 0]]
    image = Layout((2, 3), 1, False)
    assert (image.positions, image.offsets) == (6, 9)
    assert image.neighbours()[4].tolist() == [0, 1, 2, 3, 4, 5, -1, -1, -1]


@pytest.mark.parametrize(("grid", "circular"), [((4,), False), ((2, 3), True), ((2, 3), False)])
def test_patches_and_their_sums_by_a_plain_loop(grid, circular):
    layout = Layout(grid, 1, circular)
    index, places, offsets = layout.neighbours(), layout.positions, layout.offsets
    rng = np.random.default_rng(0)
    field, rows = rng.standard_normal((2, places, 3)), rng.standard_normal((2 * places, 3 * offsets))
    patches, sums = np.zeros((2, places, 3, offsets)), np.zeros((2, places, 3))
    answers = rows.reshape(2, places, 3, offsets)
    for a in range(places):
        for b in range(offsets):
            if index[a, b] >= 0:
                patches[:, a, :, b] = field[:, index[a, b]]
                sums[:, index[a, b]] += answers[:, a, :, b]
    np.testing.assert_allclose(layout.unfold(field), patches.reshape(2 * places, -1))
    np.testing.assert_allclose(layout.fold(jnp.asarray(rows), 3), sums, atol=1e-12)
    # Σ_b K_{a+b, a'+b}, at equal positions and at all pairs of them.
    kernel = rng.standard_normal((places, places))
    pairs = np.zeros((places, places))
    for b in range(offsets):
        inside = (index[:, b] >= 0)[:, None] & (index[:, b] >= 0)
        pairs += np.where(inside, kernel[np.ix_(index[:, b], index[:, b])], 0)
    pooled = Layout(grid, 1, circular, pooled=True)
    np.testing.assert_allclose(pooled.spread(jnp.asarray(kernel[None]))[0], pairs, atol=1e-12)
    equal = jnp.asarray(np.diag(kernel))
    np.testing.assert_allclose(layout.spread(equal[:, None, None])[:, 0, 0], np.diag(pairs), atol=1e-12)
    np.testing.assert_allclose(layout.spread_points(equal[:, None])[:, 0], np.diag(pairs), atol=1e-12)
    np.testing.assert_allclose(pooled.spread_points(equal[None])[0], np.diag(pairs), atol=1e-12)
    assert (pooled.entries, layout.entries) == (places**2, places)
    assert (pooled.readout, layout.readout) == (1 / places**2, 1.0)


# Rules as numbers


@dataclass(frozen=True)
class Weighted(wf.rules.Rule):
    weights: tuple[float, ...] = (1.0, 2.0)
    power: int = 1

    def local(self, site):
        return site.phi_dot * site.signal * self.weights[0] + self.weights[1] * site.h**self.power


def test_rules_that_differ_in_numbers_share_their_form():
    layers = (wf.rules.FA(0.3), Weighted((0.5, 4.0)), wf.rules.GD(), wf.rules.WeightMirror(2.0, 0.25))
    form, numbers = split_numbers(layers)
    assert numbers == (0.3, 0.5, 4.0, 2.0, 0.25)
    assert form.filled(numbers) == layers
    assert split_numbers((wf.rules.FA(0.7), Weighted(), wf.rules.GD(), wf.rules.WeightMirror(1.0, 0.5)))[0] == form
    assert split_numbers((wf.rules.FA(0.3), Weighted(power=2)))[0] != split_numbers((wf.rules.FA(0.3), Weighted()))[0]
    # ρ = 0 and 1 are other programs: parts of the feedback are missing.
    assert len({split_numbers((wf.rules.FA(rho),))[0] for rho in (0.0, 0.3, 0.4, 1.0)}) == 3


def test_rules_that_branch_on_their_numbers_keep_them():
    @dataclass(frozen=True)
    class Branches(wf.rules.Rule):
        gain: float = 1.0

        def local(self, site):
            return site.phi if self.gain > 1 else site.signal

    layers = (Branches(2.0),)
    form, numbers = split_numbers(layers)
    assert (form.layers, numbers) == (layers, ())
    assert form.filled(()) == layers


def test_rules_by_name_instance_or_class():
    assert as_rule("FA", {"rho": 0.5}) == as_rule(wf.rules.FA, {"rho": 0.5}) == wf.rules.FA(0.5)
    assert as_rule(f"{__name__}:OWN") is OWN
    for given, says in ((f"{__name__}:X", "a widefield.rules.Rule"), (int, "a widefield.rules.Rule"), (3, "rule is 3")):
        with pytest.raises(InputError, match=says):
            as_rule(given)
    with pytest.raises(InputError, match=r"rule\.speed does not exist; FA has: rho"):
        as_rule("fa", {"speed": 1})
    with pytest.raises(InputError, match="GD has: nothing"):
        as_rule("gd", {"rho": 1})


OWN = wf.rules.FA(0.25)


def test_subclasses_keep_only_promises_about_what_they_keep():
    """linear is about `local`; is_gradient and lazy_g_tilde are about `local` and `feedback`."""

    class NewLocal(wf.rules.GD):
        def local(self, site):
            return site.phi

    class NewFeedback(wf.rules.GD):
        feedback = wf.rules.Direct()

    class NewTeach(wf.rules.GD):
        def teach(self, error, target):
            return target

    class SaysSo(NewLocal):
        linear, is_gradient = True, True

        def local(self, site):
            return site.phi_dot * site.signal

        def lazy_g_tilde(self, above, phi_dot):
            return 2 * above

    promised = {NewLocal: (False, False, None), NewFeedback: (True, False, None), NewTeach: (True, True, 6.0),
                SaysSo: (True, True, 4.0)}  # fmt: skip
    for kind, (linear, is_gradient, lazy) in promised.items():
        rule = kind()
        assert (rule.linear, rule.is_gradient, rule.lazy_g_tilde(2.0, 3.0)) == (linear, is_gradient, lazy)


def test_static_gradients_of_rules_by_hand():
    """G̃^ℓ from G̃^{ℓ+1} = 2 and Φ̇ = 3: whole, its share ρ, or nothing."""
    above, phi_dot = jnp.array([2.0]), jnp.array([3.0])
    share = math.sqrt(2 / math.pi)
    for rule, expected in (("gd", 6.0), ("gln", 6.0), (wf.rules.FA(0.5), 3.0), (wf.rules.KolenPollack(-0.5), -3.0),
                           ("sign_symmetric", 6 * share), ("dfa", 0.0), ("rflo", 0.0), ("hebb", 0.0), ("drtp", 0.0),
                           ("signed_hebb", 0.0), ("traditional_hebb", 0.0), ("readout_only", 0.0)):  # fmt: skip
        np.testing.assert_allclose(as_rule(rule).lazy_g_tilde(above, phi_dot), [expected], err_msg=str(rule))
    for rule in ("weight_mirror", "eprop", "truncated_bptt"):
        assert as_rule(rule).lazy_g_tilde(above, phi_dot) is None


# Feedback


@pytest.mark.parametrize(
    "make",
    [
        partial(Weights, 1.1),
        partial(Weights, -1.1),
        partial(Mirror, 1, 1.1),
        partial(Mirror, 1, -1.1),
        partial(Mirror, 0.0),
    ],
)
def test_feedback_has_bounds(make):
    with pytest.raises(InputError, match=r"rho is .*\[−1, 1\]|rate is 0.0; allowed: a number above 0"):
        make()
    assert (Weights(), Mirror()) == (Weights(1.0, True), Mirror(1.0, 0.0))
    assert Weights(-1.0).rho == Mirror(0.5, -1.0).rho == -1


def test_parts_of_feedback_by_hand():
    """B = current·W(t) + initial·W(0) + fresh·W̃ + mirror·V(t), after decay to half and three steps."""
    past = Past(scale=0.5, step=3, dt=0.1, start=2.0)
    fixed, follows = Weights(0.6, learns=False), Weights(0.6, learns=True)
    assert fixed.coefficients(past) == {"initial": 0.6, "fresh": pytest.approx(0.8)}
    assert follows.coefficients(past) == {
        "current": 1.0, "initial": pytest.approx(0.5 * -0.4), "fresh": pytest.approx(0.5 * 0.8),
    }  # fmt: skip
    assert Mirror(2.0, 0.6).coefficients(past) == {"mirror": 1.0, "fresh": pytest.approx(0.8 * 0.8**3)}
    rho = math.sqrt(2 / math.pi)
    found = Signs().coefficients(past)
    assert found == {"current": pytest.approx(rho / 1.0), "fresh": pytest.approx(math.sqrt(1 - 2 / math.pi) / 2)}
    used = {(0.0, True): "cif", (0.5, True): "cif", (1.0, True): "c", (-1.0, True): "ci",
            (0.0, False): "f", (0.5, False): "if", (1.0, False): "i", (-1.0, False): "i"}  # fmt: skip
    for (rho, learns), parts in used.items():
        assert {name[0] for name in Weights(rho, learns).uses} == set(parts)
        assert Weights(rho, learns).transposed == (learns and rho == 1)
    assert Mirror(1.0, -1.0).uses == {"mirror"}
    assert Mirror(1.0, 0.0).uses == {"mirror", "fresh"}


def test_the_readout_s_feedback_is_the_sum_of_its_parts():
    w = Vectors(*(value * jnp.ones((2, 1, 3)) for value in (1.0, 10.0, 100.0, 1000.0)))
    past = Past(1.0, 0, 0.1)
    np.testing.assert_allclose(Weights(0.6, learns=False).top(w, past), 0.6 * 10 + 0.8 * 100)
    np.testing.assert_allclose(Weights(0.6, learns=True).top(w, past), 1 - 0.4 * 10 + 0.8 * 100)
    np.testing.assert_allclose(Weights(1.0, learns=False).top(w._replace(fresh=None), past), 10.0)
    np.testing.assert_allclose(Mirror(1.0, 0.6).top(w, past), 1000 + 0.8 * 100)
    np.testing.assert_allclose(Signs().top(w._replace(current=-3 * w.current), past), -1.0)


def test_feedback_cannot_be_changed_after_a_problem_is_made():
    """Compiled programs are kept by rule and feedback: one that changes would be mistaken for another."""
    with pytest.raises(FrozenInstanceError):
        wf.rules.KolenPollack().feedback.rate = 2.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        wf.rules.FA(0.5).feedback.rho = 0.2  # type: ignore[misc]
