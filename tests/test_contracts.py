"""What rules, networks and observables say about themselves is what the engine does, and false words are caught."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.engine import run as runs
from widefield.errors import InputError
from widefield.observables import DEFAULT_KERNELS, OBSERVABLES
from widefield.rules import RULES
from widefield.rules.numbers import split_numbers
from widefield.rules.promises import check_functions

CLASSES = np.array([[1.0, -0.5], [-0.3, 0.8], [0.4, -0.7]])


def make_problem(rule, outputs: int = 1, network=None, steps: int = 4, **training) -> wf.Problem:
    x = np.random.default_rng(0).standard_normal((3, 4))
    y = CLASSES[:, 0] if outputs == 1 else CLASSES
    return wf.Problem(wf.Dataset(x, y), network or wf.MLP(2, "tanh"), rule, 1.0, wf.Training(steps, 0.3, **training))


def networks(problem: wf.Problem, **options) -> wf.Result:
    return wf.simulate(problem, 20, 2, engine="dense", progress=False, **options)


@dataclass(frozen=True)
class Scaled(wf.rules.GD):
    """Gradient descent with a factor in front of the error."""

    factor: float = 1.0

    def teach(self, error, target):
        return self.factor * error


@dataclass(frozen=True)
class Halved(wf.rules.GD):
    """Overrides `local` of a rule that promises to be the gradient."""

    def local(self, site):
        return 0.5 * site.phi_dot * jnp.tanh(site.signal)


@dataclass(frozen=True)
class Squashed(wf.rules.DFA):
    """Overrides `local` of a rule that promises to be linear in the signal."""

    def local(self, site):
        return site.phi_dot * jnp.tanh(site.signal)


# What is recorded decides whether outputs share a sweep; the networks are the same.


@pytest.mark.parametrize(
    "rule",
    [wf.rules.Mixture((Scaled(0.0), Scaled(1.0))), wf.rules.Mixture((Scaled(0.5), Scaled(0.5))), Squashed(),
     wf.rules.Mixture((wf.rules.FA(0.3), "dfa")), wf.rules.DRTP()],
    ids=repr,
)  # fmt: skip
def test_networks_do_not_depend_on_what_is_recorded(rule):
    problem = make_problem(rule, outputs=2)
    few, many = networks(problem, record=("phi",)), networks(problem, record=DEFAULT_KERNELS)
    for name in ("f", "phi"):
        np.testing.assert_allclose(few[name].values, many[name].values, atol=1e-12)
    assert np.abs(few["phi"].values[-1] - few["phi"].values[0]).max() > 1e-3


def test_a_subclass_that_overrides_local_is_not_the_gradient():
    result = networks(make_problem(Halved()))
    assert not np.allclose(result["g"].values, result["g_tilde"].values, rtol=0.1)
    assert np.all(result["gradient_cosine"].values < 1 - 1e-4)
    # g is still that of the true gradient: at the start the same weights have the same one under every rule.
    true = networks(make_problem("gd"))
    np.testing.assert_allclose(result["g"].values[0], true["g"].values[0], rtol=1e-12)
    np.testing.assert_allclose(result["phi"].values[0], true["phi"].values[0], rtol=1e-12)


def test_promises_are_not_inherited_by_what_they_were_not_made_for():
    assert not Halved().is_gradient
    assert not Halved().linear
    assert Halved().lazy_g_tilde(jnp.ones(1), jnp.ones(1)) is None
    assert not Squashed().linear
    assert Scaled().is_gradient  # `teach` changes the update, not g̃
    assert Scaled().linear


@dataclass(frozen=True)
class SaysLinear(wf.rules.Rule):
    linear: ClassVar[bool] = True

    def local(self, site):
        return site.phi_dot * site.signal**2


@dataclass(frozen=True)
class SaysLinearReadsError(wf.rules.Rule):
    linear: ClassVar[bool] = True

    def local(self, site):
        return site.error * site.signal


@dataclass(frozen=True)
class SaysGradient(wf.rules.Rule):
    is_gradient: ClassVar[bool] = True

    def local(self, site):
        return site.phi * site.signal


@dataclass(frozen=True)
class SaysGradientThroughFixedWeights(wf.rules.GD):
    feedback: ClassVar[wf.rules.Feedback] = wf.rules.Weights(1.0, learns=False)
    is_gradient: ClassVar[bool] = True


@dataclass(frozen=True)
class ClassAsFeedback(wf.rules.Rule):
    feedback = wf.rules.Direct  # type: ignore[assignment]

    def local(self, site):
        return site.signal


@dataclass(frozen=True)
class NameAsFeedback(ClassAsFeedback):
    feedback = "direct"  # type: ignore[assignment]


class ByHand(wf.rules.GD):
    def __init__(self, factor):
        object.__setattr__(self, "factor", factor)

    def teach(self, error, target):
        return self.factor * error


@dataclass(frozen=True)
class WrongShape(wf.rules.Rule):
    def local(self, site):
        return site.signal[..., 0]


@dataclass(frozen=True)
class WholeNumbers(wf.rules.Rule):
    def local(self, site):
        return jnp.sign(site.signal).astype(int)


@dataclass(frozen=True)
class Nothing(wf.rules.Rule):
    def local(self, site):
        return None


@dataclass(frozen=True)
class NumPy(wf.rules.Rule):
    def local(self, site):
        return np.where(np.asarray(site.signal) > 0, 1.0, 0.0)


@dataclass(frozen=True)
class WrongTeach(wf.rules.GD):
    def teach(self, error, target):
        return error.sum(1)


@dataclass(frozen=True)
class ArrayField(wf.rules.GD):
    gains: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(3))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (SaysLinear(), ["SaysLinear", "linear = True", "proportional"]),
        (SaysLinearReadsError(), ["SaysLinearReadsError", "reads the error"]),
        (SaysGradient(), ["SaysGradient", "is_gradient = True"]),
        (SaysGradientThroughFixedWeights(), ["is_gradient = True", "transposed"]),
        (ClassAsFeedback(), ["feedback of ClassAsFeedback", "Direct"]),
        (NameAsFeedback(), ["feedback of NameAsFeedback is 'direct'"]),
        (ByHand(2.0), ["ByHand", "factor", "frozen"]),
        (WrongShape(), ["WrongShape.local", "shape (4, 3, 2)", "(4, 3, 2, 5)"]),
        (WholeNumbers(), ["WholeNumbers.local", "int"]),
        (Nothing(), ["Nothing.local", "NoneType"]),
        (NumPy(), ["NumPy.local", "fails"]),
        (WrongTeach(), ["WrongTeach.teach", "(4,)", "(4, 3)"]),
        (ArrayField(), ["ArrayField", "hashed"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_false_words_are_caught_when_the_problem_is_made(rule, words):
    with pytest.raises(InputError) as caught:
        make_problem(rule)
    for word in words:
        assert word in str(caught.value), str(caught.value)


@dataclass(frozen=True)
class Branching(wf.rules.GD):
    """A rule whose Python code decides by a number: it cannot be traced with an unknown one."""

    factor: float = 1.0

    def teach(self, error, target):
        return error if self.factor > 0 else -error


def test_rules_that_differ_in_numbers_share_a_form():
    for a, b in ((wf.rules.FA(0.2), wf.rules.FA(0.7)), (Scaled(1.0), Scaled(2.0)),
                 (wf.rules.Mixture((Scaled(0.1), wf.rules.FA(0.3))), wf.rules.Mixture((Scaled(0.4), wf.rules.FA(0.6)))),
                 (wf.rules.WeightMirror(1.0, 0.1), wf.rules.WeightMirror(2.0, 0.2))):  # fmt: skip
        (form, numbers), (other, others) = (split_numbers(rule.layers(2)) for rule in (a, b))
        assert form == other
        assert hash(form) == hash(other)
        assert numbers != others
        assert form.filled(numbers) == a.layers(2)
    # What is asked of W differs at the ends, and a number that Python looks at stays in the form.
    assert split_numbers(wf.rules.FA(0.0).layers(2))[0] != split_numbers(wf.rules.FA(0.5).layers(2))[0]
    assert split_numbers(Branching(1.0).layers(2))[0] != split_numbers(Branching(-1.0).layers(2))[0]


def test_new_numbers_compile_nothing():
    def solve(rho: float, richness: float, dt: float, tolerance: float) -> wf.Result:
        problem = dataclasses.replace(make_problem(wf.rules.FA(rho)), richness=richness, training=wf.Training(4, dt))
        return wf.solve(problem, samples=64, seeds=2, tolerance=tolerance, progress=False)

    solve(0.5, 1.0, 0.1, 0.01)
    compiled = runs._start.jitted._cache_size(), runs._advance.jitted._cache_size()
    results = [solve(0.7, 1.0, 0.1, 0.01), solve(0.5, 0.5, 0.1, 0.01), solve(0.5, 1.0, 0.2, 0.02)]
    assert (runs._start.jitted._cache_size(), runs._advance.jitted._cache_size()) == compiled
    values = [float(result["loss"].values[-1]) for result in results]
    assert len(set(np.round(values, 6))) == 3


@pytest.mark.parametrize("name", RULES)
def test_rules_of_the_table_keep_their_promises(name):
    if name != "mixture":  # which is as good as its parts
        check_functions(wf.rules.as_rule(name))


# Observables


def firing(moment):
    """Mean of |φ| per layer and point."""
    return jnp.abs(moment.phi).mean(-1)


def test_a_function_of_the_fields_is_recorded_with_its_error():
    problem = make_problem("gd")
    labelled = wf.Observable("activity", firing, ("time", "layer", "sample"), "mean of |φ|", gradients=False)
    result = wf.simulate(problem, 50, 3, record=["phi", firing, labelled, "h_particles"], neurons=50, progress=False)
    assert result["activity"].dims == ("time", "layer", "sample")
    assert result["activity"].attrs["long_name"] == "mean of |φ|"
    assert result["firing"].shape == (5, 2, 3)
    np.testing.assert_array_equal(result["firing"].values, result["activity"].values)
    h = result["h_particles"].values.reshape(5, 2, 3, 3, 50)  # runs are pooled along the neurons
    expected = np.abs(np.tanh(h)).mean(-1)
    np.testing.assert_allclose(result["activity"].values, expected.mean(-1), rtol=1e-12)
    error = expected.std(-1, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(result["activity_se"].values, error, rtol=1e-9)


def test_fields_of_a_moment_make_up_the_kernels():
    def kernels(moment):
        pairs = ((moment.phi, moment.phi), (moment.g, moment.g), (moment.g, moment.g_tilde))
        return jnp.stack([jnp.einsum("lpn,lqn->lpq", a, b) / a.shape[-1] for a, b in pairs])

    problem = make_problem(wf.rules.FA(0.4))
    result = wf.simulate(problem, 16, 2, record=[kernels, "phi", "g", "g_tilde"], progress=False)
    for index, name in enumerate(("phi", "g", "g_tilde")):
        np.testing.assert_allclose(result["kernels"].values[:, index], result[name].values, atol=1e-12)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (("phi", "nonsense"), ["record is 'nonsense'", "entk"]),
        ((3,), ["record has 3", "functions"]),
        (("phi", "phi"), ["record", "different names"]),
        ((wf.Observable("loss", firing),), ["loss", "taken"]),
        ((OBSERVABLES["loss"],), ["loss", "measure"]),
        (4, ["record is 4"]),
    ],
)
def test_wrong_records_are_refused(record, words):
    with pytest.raises(InputError) as caught:
        wf.simulate(make_problem("gd", steps=10**9), 10, record=record)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_one_name_is_a_record():
    assert "phi" in networks(make_problem("gd"), record="phi")


def test_extrapolation_leaves_single_particles_alone():
    problem = make_problem("gd", network=wf.MLP(1, "tanh"))
    options = {"samples": 512, "seeds": 2, "record": ("phi", "h_particles"), "neurons": 512, "progress": False}
    plain, better = (wf.solve(problem, extrapolate=flag, **options) for flag in (False, True))
    np.testing.assert_array_equal(plain["h_particles"].values, better["h_particles"].values)
    # h¹ at the start is Gaussian with variance |x|²/D; matched particles have it to rounding.
    variance = (problem.data.x**2).mean(1)
    np.testing.assert_allclose((better["h_particles"].values[0, 0] ** 2).mean(-1), variance, rtol=1e-9)
    half = wf.solve(problem, **options | {"samples": 256, "neurons": 256})
    assert not np.allclose(plain["phi"].values, better["phi"].values, atol=1e-9)
    assert half["phi"].shape == better["phi"].shape


# Runs


def test_a_run_can_be_stopped_and_continued():
    from widefield.engine.interpretation import Interpretation
    from widefield.engine.prepare import make_recording, prepare

    problem = make_problem(wf.rules.FA(0.5), steps=12)
    recording = make_recording(problem, ("phi",), 1, 5)
    spec, inputs = prepare(problem, recording, "float64", 1e-5)
    run = runs.Run(
        spec, inputs, Interpretation("conditioned", 40), recording, 12, jax.random.split(jax.random.key(0), 1)
    )
    *_, straight = run.legs(0)
    leg = dataclasses.replace(run.advance(dataclasses.replace(run.start(0), chunk=1)), chunk=3)
    kept = jax.device_get(leg.state), jax.device_get(leg.records), leg.done  # as a file would hold it
    assert 0 < kept[2] < 13
    leg = dataclasses.replace(leg, state=jax.device_put(kept[0]), records=jax.device_put(kept[1]))
    while leg.done < run.total:
        leg = run.advance(leg)
    for name, value in run.records_of(straight).items():
        np.testing.assert_array_equal(value, run.records_of(leg)[name])
