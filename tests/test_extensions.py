"""Every rule and every extension at infinite width: `mean_field` against dense networks extrapolated to N = ∞.

Dense networks are the plain loop of reference.py (test_program.py) and share none of the algebra of conditioning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from agreement import alarm, runs_of, wide_networks
from test_rules import EXAMPLES

import widefield as wf
from widefield.errors import InputError
from widefield.observables import DEFAULT_KERNELS as KERNELS
from widefield.results.statistics import exactly

# Of one comparison of all entries of all variables, see `alarm`; some 60 comparisons are made.
FALSE_ALARM = 1e-4
SAMPLES, REPLICATES = 4096, 16
SEEDS = 1000

RNG = np.random.default_rng(3)
VECTORS = RNG.standard_normal((6, 4))
LINES = RNG.standard_normal((2, 3, 2))  # (P, positions, channels)
IMAGES = RNG.standard_normal((2, 2, 2, 1))  # (P, height, width, channels)
TARGETS = np.array([1.0, -1.0, 0.6, -0.4, 0.8, -0.9])
CLASSES = np.array([[1.0, -0.5, 0.2], [-0.3, 0.8, -1.0], [0.4, -0.7, 0.9]])
SIGNS, ONE_HOT = np.sign(CLASSES), np.eye(3)
MLP = wf.MLP(2, "tanh")
RESIDUAL = wf.MLP(3, "tanh", residual=True)
POSITIONS = ("phi_positions", "g_tilde_positions")


@dataclass(frozen=True)
class Case:
    """A problem, and what is recorded of it."""

    problem: wf.Problem
    record: tuple[str, ...] = KERNELS


def case(rule, network=MLP, x=VECTORS[:3], y=TARGETS, record=KERNELS, richness=1.0, steps=6, dt=0.25, **training):
    data = wf.Dataset(x, y[: len(x)])
    return Case(wf.Problem(data, network, rule, richness, wf.Training(steps, dt, **training)), record)


# Steps are small enough for dt·(largest eigenvalue of K) to stay clear of 2, where single networks begin to diverge and
# their mean has no expansion in 1/N to extrapolate.
FA, KP = wf.rules.FA(0.5), wf.rules.KolenPollack(0.3)
LINE = {"x": LINES, "steps": 5, "dt": 0.12}
IMAGE = {"x": IMAGES, "steps": 3, "dt": 0.15}
THREE_LAYERS = wf.rules.Mixture((KP, "dfa", FA))
CASES = {
    **{f"rule {name}": case(rule) for name, rule in EXAMPLES.items()},
    **{
        f"rule {name}, depth {depth}": case(EXAMPLES[name], wf.MLP(depth, "tanh"))
        for name in ("gd", "fa", "dfa", "gln", "hebb")
        for depth in (1, 3)
    },
    "rule gd, relu, depth 3": case("gd", wf.MLP(3, "relu"), dt=0.04),
    "rule mixture of kolen-pollack, dfa and fa": case(THREE_LAYERS, wf.MLP(3, "tanh")),
    "classes": case("gd", y=CLASSES),
    "classes in one sweep": case(FA, y=CLASSES, record=("phi",)),
    "classes by softmax": case(FA, y=ONE_HOT, loss="cross_entropy", dt=0.5),
    "classes by logistic": case("dfa", y=SIGNS, loss="logistic", dt=0.5),
    "classes, gln": case("gln", y=CLASSES),
    "classes, hebb": case("hebb", y=CLASSES),
    "classes, traditional hebb": case("traditional_hebb", y=CLASSES),
    "classes, drtp": case("drtp", y=CLASSES),
    "cnn on lines, weights per position": case("gd", wf.CNN(2), record=(*KERNELS, *POSITIONS), **LINE),
    "cnn on lines, pooled": case(FA, wf.CNN(2, readout="pool"), **LINE | {"dt": 0.3}),
    "cnn on lines, zero padding, relu": case("gd", wf.CNN(2, activation="relu", padding="zero"), **LINE | {"dt": 0.03}),
    "cnn on images, weights per position": case(FA, wf.CNN(2, padding="zero"), **IMAGE),
    "cnn on images, pooled": case("gd", wf.CNN(2, readout="pool"), **IMAGE),
    "weight decay": case("gd", weight_decay=0.5),
    "weight decay, fa": case(FA, weight_decay=0.5),
    "momentum": case("gd", momentum=0.6),
    "weight decay and momentum, fa": case(FA, weight_decay=0.5, momentum=0.6),
    "random minibatches": case("gd", x=VECTORS[:4], batch_size=2, batch_seed=1),
    "online": case(FA, x=VECTORS, batch_size=1, schedule="cyclic", dt=0.5),
    "residual": case("gd", RESIDUAL, dt=0.1),
    "residual, dfa": case("dfa", RESIDUAL, dt=0.1),
    "ab2": case(FA, integrator="ab2"),
    "cnn, dfa, classes, momentum": case("dfa", wf.CNN(2), y=CLASSES, momentum=0.4, **LINE | {"dt": 0.2}),
    "residual, fa, decay, minibatches, momentum": case(
        FA, RESIDUAL, x=VECTORS[:4], weight_decay=0.5, momentum=0.4, batch_size=2, dt=0.2
    ),
    "kolen-pollack, classes, decay": case(KP, y=CLASSES, weight_decay=0.5),
    "mixture, cnn": case(wf.rules.Mixture((FA, "hebb")), wf.CNN(2), **LINE | {"dt": 0.2}),
    "cnn, kolen-pollack, softmax, decay, minibatches": case(
        KP, wf.CNN(2), y=ONE_HOT, loss="cross_entropy", weight_decay=0.5, batch_size=1, **LINE | {"dt": 0.3}
    ),
    "residual, gln, classes, momentum": case("gln", RESIDUAL, y=CLASSES, momentum=0.4, dt=0.15),
}
DEFAULT = ("rule sign_symmetric",)


def theory(problem: wf.Problem, record: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Single runs of f and what was recorded; what follows from these is left out."""
    options = {"samples": SAMPLES, "seeds": REPLICATES, "record": record, "progress": False}
    found = runs_of(wf.solve(problem, method="mean_field", **options))
    return {name: found[name] for name in ("f", *record)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in DEFAULT else pytest.mark.slow) for name in CASES]
)
def test_infinite_width_is_the_limit_of_networks(name):
    question = CASES[name]
    found = theory(question.problem, question.record)
    assert np.abs(found["f"].mean(0)[-1]).max() > 0.1, "hardly anything was learnt"
    networks = wide_networks(question.problem, SEEDS, question.record)
    # Results drop the output axes of a single output.
    networks = {name: value.reshape(SEEDS, *found[name].shape[1:]) for name, value in networks.items()}
    for name, value in found.items():
        # A particle is worth a neuron or more: a network of width S has a variance 123 times below that of an
        # extrapolation from 100 and 200, and 62 are asked for, so that noise of the theory hides nothing.
        assert value.var(0).mean() / REPLICATES <= networks[name].var(0).mean() / SEEDS, name
    where, chance = alarm(found, networks)
    assert chance > FALSE_ALARM, where


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rule gd", *DEFAULT])
def test_rest_of_the_extrapolation_is_below_the_error(name):
    """The extrapolations from widths 25, 50 and 50, 100 agree with twice as many networks as above.

    They differ by c₂(1/25² − 1/50²)/2 = 6e-4·c₂, 12 times the rest 5e-5·c₂ of widths 100, 200.
    """
    question = CASES[name]
    found = (wide_networks(question.problem, 2 * SEEDS, question.record, widths) for widths in ((25, 50), (50, 100)))
    where, chance = alarm(*found)
    assert chance > FALSE_ALARM, where


LAZY = {
    "cnn on lines, weights per position": case(FA, wf.CNN(2), richness=1e-3, **LINE),
    "cnn on lines, pooled": case("gd", wf.CNN(2, readout="pool"), richness=1e-3, **LINE),
    "cnn on images, zero padding": case("gd", wf.CNN(2, padding="zero"), richness=1e-3, **IMAGE),
    "classes": case(FA, y=CLASSES, richness=1e-3),
    "classes by softmax": case("gd", y=ONE_HOT, loss="cross_entropy", richness=1e-3),
    "cnn, dfa, classes, momentum": case("dfa", wf.CNN(2), y=CLASSES, momentum=0.4, richness=1e-3, **LINE),
    "residual": case("gd", RESIDUAL, richness=1e-3, dt=0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAZY)
def test_small_richness_is_lazy(name):
    """These rules move kernels by O(γ₀²) = 1e-6, as g̃ is odd in weights that φ does not know: far below the error."""
    problem, record = LAZY[name].problem, ("entk", "phi", "g", "g_tilde")
    found = theory(problem, record)
    lazy = wf.solve(problem, method="lazy", record=record)
    exact = {name: exactly(lazy[name].values) for name in found}
    where, chance = alarm(found, exact)
    assert chance > FALSE_ALARM, where


# A billion steps: a refusal that came after any work would not come.
LONG = {"steps": 10**9}
ON_LINES = LINE | LONG
REFUSED = {
    "fixed point, cnn": (case("gd", wf.CNN(2), **ON_LINES), {"method": "fixed_point"}, "network is CNN"),
    "fixed point, classes": (case("gd", y=CLASSES, **LONG), {"method": "fixed_point"}, "y is '3 outputs'"),
    "fixed point, residual": (case("gd", RESIDUAL, **LONG), {"method": "fixed_point"}, "residual"),
    "fixed point, decay": (case("gd", weight_decay=0.1, **LONG), {"method": "fixed_point"}, "weight_decay is 0.1"),
    "fixed point, momentum": (case("gd", momentum=0.1, **LONG), {"method": "fixed_point"}, "momentum is 0.1"),
    "fixed point, batches": (case("gd", batch_size=1, **LONG), {"method": "fixed_point"}, "batch_size is 1"),
    "linear, cnn": (case("gd", wf.CNN(2, activation="linear"), **ON_LINES), {"method": "linear"}, "network is CNN"),
    "linear, tanh": (case("gd", **LONG), {"method": "linear"}, "activation is tanh"),
    "linear, residual": (case("gd", RESIDUAL, **LONG), {"method": "linear"}, "residual"),
    "linear, batches": (case("gd", batch_size=1, **LONG), {"method": "linear"}, "batch_size is 1"),
    "lazy, decay": (case("gd", weight_decay=0.1, **LONG), {"method": "lazy"}, "weight_decay is 0.1"),
    "two times, cnn": (case("gd", wf.CNN(2), **ON_LINES), {"two_time": 1}, "two_time is 1.*CNN"),
    "two times, classes": (case("gd", y=CLASSES, **LONG), {"two_time": 1}, "two_time is 1.*several outputs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_combinations_are_refused_with_a_reason_before_any_work(name):
    question, options, says = REFUSED[name]
    with pytest.raises(InputError, match=says):
        wf.solve(question.problem, **options)


@pytest.mark.parametrize("training", [{"weight_decay": 0.1}, {"momentum": 0.1}, {"batch_size": 1}], ids=str)
def test_second_order_steps_are_for_plain_training(training):
    with pytest.raises(InputError, match=r"integrator is 'ab2'.*euler"):
        wf.Training(steps=1, dt=0.1, integrator="ab2", **training)
