"""Everything a user can get wrong is answered with one line that names the argument and what is allowed."""

import datetime
import inspect
from dataclasses import dataclass, field
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import widefield as wf
from widefield.cli.app import app
from widefield.errors import DivergenceError, InputError, MemoryBudgetError, WidefieldError
from widefield.progress import make_progress
from widefield.rules import RULES
from widefield.solvers.lazy import solve_lazy
from widefield.solvers.methods import SOLVERS

X, Y = np.ones((3, 2)), np.array([1.0, -1.0, 1.0])
DATA = wf.Dataset(X, Y)
TRAINING = wf.Training(steps=2, dt=0.1)
LONG = wf.Training(steps=10**9, dt=0.1)  # a refusal that came after any work would not come
HUGE, LONGEST, MANY_DIGITS = 10**12, 2**70, 10**5000
DATES = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]")
ERF = wf.MLP(1, "erf")
IMAGES = wf.Dataset(np.ones((3, 4, 1)), Y)


def ask(data=DATA, network=None, rule="gd", richness=1.0, training=TRAINING):
    return wf.Problem(data, network or wf.MLP(depth=1), rule, richness, training)


def simulate(training=LONG, **options):
    return wf.simulate(ask(training=training), **{"width": 10, "progress": False, **options})


def solve(method="mean_field", training=LONG, **options):
    network = wf.MLP(1, "linear" if method == "linear" else "tanh")
    return wf.solve(ask(network=network, training=training), method, **options)


def arrays(steps=None, **found):
    return wf.Result.from_arrays(ask(), found, steps)


@dataclass(frozen=True)
class Broken(wf.rules.Rule):
    def local(self, site):
        raise RuntimeError("no\nluck")


@dataclass(frozen=True)
class Hidden(wf.rules.DFA):
    gain: float = field(default=1.0, compare=False)


@dataclass(frozen=True)
class Unhashed(wf.rules.DFA):
    gain: float = field(default=1.0, hash=False)


@dataclass(frozen=True)
class Mixing(wf.rules.Rule):
    """Reads other neurons, or other points, than its own."""

    how: str

    def local(self, site):
        fields = {"sorted": jnp.sort(site.signal, -1), "centred": site.h - site.h.mean(0), "one": jnp.sum(site.h)}
        return fields[self.how]


class Weird:
    def __repr__(self):
        raise RuntimeError("no name")


BAD = {
    "x has nan": (lambda: wf.Dataset(np.array([[np.nan, 1.0]]), [1.0]), ["x is nan at index (0, 0)", "finite"]),
    "x has inf": (lambda: wf.Dataset([[np.inf]], [1.0]), ["x is inf"]),
    "y has nan": (lambda: wf.Dataset(X, [1.0, np.nan, 1.0]), ["y is nan at index (1,)"]),
    "x is words": (lambda: wf.Dataset([["a"]], [1.0]), ["x is", "real numbers"]),
    "x is ragged": (lambda: wf.Dataset([[1.0], [1.0, 2.0]], [1.0, 1.0]), ["x is", "real numbers"]),
    "x is complex": (lambda: wf.Dataset(X + 1j, Y), ["x is", "real numbers"]),
    "x is flat": (lambda: wf.Dataset(np.ones(3), Y), ["x is", "(P, D)"]),
    "no points": (lambda: wf.Dataset(np.ones((0, 2)), np.ones(0)), ["x is", "at least one point"]),
    "no dimension": (lambda: wf.Dataset(np.ones((3, 0)), Y), ["x is", "at least one point and one dimension"]),
    "too few targets": (lambda: wf.Dataset(X, Y[:2]), ["y is", "one row per row of x, 3"]),
    "y has three axes": (lambda: wf.Dataset(X, np.ones((3, 1, 1))), ["y is", "(P, C)"]),
    "no outputs": (lambda: wf.Dataset(X, np.ones((3, 0))), ["y is", "one output"]),
    "x_test of another dimension": (lambda: wf.Dataset(X, Y, np.ones((2, 5))), ["x_test is", "shape (2,)"]),
    "x_test empty": (lambda: wf.Dataset(X, Y, np.ones((0, 2))), ["x_test is", "at least one point"]),
    "y_test alone": (lambda: wf.Dataset(X, Y, None, Y), ["y_test is", "together with x_test"]),
    "y_test of another length": (lambda: wf.Dataset(X, Y, X, Y[:1]), ["y_test is", "x_test, 3"]),
    "depth 0": (lambda: wf.MLP(depth=0), ["depth is 0", "1 or more"]),
    "depth 1.5": (lambda: wf.MLP(depth=1.5), ["depth is 1.5"]),  # type: ignore[arg-type]
    "depth true": (lambda: wf.MLP(depth=True), ["depth is True"]),
    "unknown activation": (lambda: wf.MLP(1, "swish"), ["activation is 'swish'", "relu", "softplus"]),
    "activation not differentiable": (lambda: wf.MLP(1, lambda h: float(h[0, 0])), ["activation is", "differentiate"]),
    "activation not elementwise": (lambda: wf.MLP(1, lambda h: h.sum(-1)), ["activation is", "elementwise"]),
    "activation in a missing module": (lambda: wf.MLP(1, "nowhere:phi"), ["activation is 'nowhere:phi'", "nowhere"]),
    "filter even": (lambda: wf.CNN(1, filter=2), ["filter is 2", "odd"]),
    "unknown padding": (lambda: wf.CNN(1, padding="same"), ["padding is 'same'", "circular", "zero"]),
    "unknown readout": (lambda: wf.CNN(1, readout="sum"), ["readout is 'sum'", "pool"]),
    "no steps": (lambda: wf.Training(steps=0, dt=0.1), ["steps is 0", "1 or more"]),
    "dt 0": (lambda: wf.Training(steps=1, dt=0.0), ["dt is 0.0", "above 0"]),
    "dt nan": (lambda: wf.Training(steps=1, dt=float("nan")), ["dt is nan"]),
    "dt inf": (lambda: wf.Training(steps=1, dt=float("inf")), ["dt is inf"]),
    "unknown loss": (lambda: wf.Training(1, 0.1, "hinge"), ["loss is 'hinge'", "squared", "logistic"]),
    "negative decay": (lambda: wf.Training(1, 0.1, weight_decay=-1.0), ["weight_decay is -1.0", "0 or more"]),
    "negative momentum": (lambda: wf.Training(1, 0.1, momentum=-1.0), ["momentum is -1.0"]),
    "unknown integrator": (lambda: wf.Training(1, 0.1, integrator="rk4"), ["integrator is 'rk4'", "euler"]),
    "richness 0": (lambda: ask(richness=0.0), ["richness is 0.0", "above 0"]),
    "richness negative": (lambda: ask(richness=-1), ["richness is -1"]),
    "richness nan": (lambda: ask(richness=float("nan")), ["richness is nan"]),
    "richness a word": (lambda: ask(richness="rich"), ["richness is 'rich'"]),
    "unknown rule": (lambda: ask(rule="backprop"), ["rule is 'backprop'", "gd, fa, dfa, gln, hebb"]),
    "rule is no rule": (lambda: ask(rule=3), ["rule is 3", "Rule"]),
    "rho above 1": (lambda: wf.rules.FA(rho=1.5), ["rho is 1.5", "[−1, 1]"]),
    "rho below -1": (lambda: wf.rules.FA(rho=-1.01), ["rho is -1.01"]),
    "rho nan": (lambda: wf.rules.FA(rho=float("nan")), ["rho is nan"]),
    "data is an array": (lambda: ask(data=X), ["data is 'ndarray'", "Dataset"]),
    "network is a word": (lambda: ask(network="mlp"), ["network is 'str'", "MLP"]),
    "training is a number": (lambda: ask(training=5), ["training is 'int'", "Training"]),
    "images for an MLP": (lambda: ask(data=wf.Dataset(np.ones((3, 4, 1)), Y)), ["x is", "MLP"]),
    "vectors for a CNN": (lambda: ask(network=wf.CNN(1)), ["x is", "CNN"]),
    "targets the loss cannot take": (
        lambda: ask(data=wf.Dataset(X, [0.5, 1.0, 1.0]), training=wf.Training(1, 0.1, "logistic")),
        ["y does not fit", "−1 and +1"],
    ),
    # Data
    "x masked": (lambda: wf.Dataset(np.ma.array(X, mask=X > 0), Y), ["x is a masked array", "mask"]),
    "rows of x masked": (lambda: wf.Dataset([np.ma.array([1.0, 2.0])] * 3, Y), ["x is a masked array"]),
    "x numeric words": (lambda: wf.Dataset([["1", "2"]] * 3, Y), ["x is", "real numbers"]),
    "x dates": (lambda: wf.Dataset(DATES[:, None], Y), ["x is of type datetime64", "real numbers"]),
    "x of Python dates": (lambda: wf.Dataset([[datetime.date(2020, 1, 1)]] * 3, Y), ["x is list", "real numbers"]),
    "x bytes": (lambda: wf.Dataset([[b"1"]] * 3, Y), ["x is", "real numbers"]),
    "x has None": (lambda: wf.Dataset([[None, 1.0]], [1.0]), ["x is list"]),
    "x None": (lambda: wf.Dataset(None, Y), ["x is NoneType"]),
    "x a function": (lambda: wf.Dataset(print, Y), ["x is builtin_function_or_method"]),
    "x a list of complex": (lambda: wf.Dataset([[1 + 0j]] * 3, Y), ["x is of type complex128"]),
    "x too large": (lambda: wf.Dataset(X * 1e300, Y), ["x is 1e+300 at index (0, 0)", "up to 1e+50"]),
    "x of too many digits": (lambda: wf.Dataset([[MANY_DIGITS]], [1.0]), ["x is list", "real numbers"]),
    "x a number": (lambda: wf.Dataset(3.0, Y), ["x is", "(P, D)"]),
    "y None": (lambda: wf.Dataset(X, None), ["y is NoneType"]),
    "y a number": (lambda: wf.Dataset(X, 1.0), ["y is", "(P,)"]),
    "y masked": (lambda: wf.Dataset(X, np.ma.array(Y, mask=[0, 0, 1])), ["y is a masked array"]),
    "y words": (lambda: wf.Dataset(X, ["a", "b", "c"]), ["y is of type"]),
    "y numeric words": (lambda: wf.Dataset(X, ["1", "-1", "1"]), ["y is of type"]),
    "y dates": (lambda: wf.Dataset(X, DATES), ["y is of type datetime64"]),
    "y complex": (lambda: wf.Dataset(X, Y * 1j), ["y is of type complex128"]),
    "y too large": (lambda: wf.Dataset(X, Y * 1e200), ["y is 1e+200 at index (0,)"]),
    "x_test words": (lambda: wf.Dataset(X, Y, [["1", "2"]]), ["x_test is of type"]),
    "x_test nan": (lambda: wf.Dataset(X, Y, [[np.nan, 1.0]]), ["x_test is nan at index (0, 0)"]),
    "y_test a number": (lambda: wf.Dataset(X, Y, X, 1.0), ["y_test is", "one row"]),
    "y_test inf": (lambda: wf.Dataset(X, Y, X, [1.0, 1.0, np.inf]), ["y_test is inf at index (2,)"]),
    "y_test of more outputs": (lambda: wf.Dataset(X, Y, X, np.ones((3, 2))), ["y_test is", "targets of shape ()"]),
    # Networks
    "depth None": (lambda: wf.MLP(depth=None), ["depth is None", "1 or more"]),
    "depth a word": (lambda: wf.MLP(depth="2"), ["depth is '2'"]),
    "depth nan": (lambda: wf.MLP(depth=np.nan), ["depth is nan"]),
    "depth of 21 digits": (lambda: wf.MLP(depth=LONGEST), ["depth is 1180591620717411303424", "below 2⁶³"]),
    "depth of 5000 digits": (lambda: wf.MLP(depth=MANY_DIGITS), ["depth is a value of type int"]),
    "depth without a name": (lambda: wf.MLP(depth=Weird()), ["depth is a value of type Weird"]),
    "activation None": (lambda: wf.MLP(1, None), ["activation is None", "relu"]),
    "activation a number": (lambda: wf.MLP(1, 3), ["activation is 3"]),
    "activation of 5000 digits": (lambda: wf.MLP(1, MANY_DIGITS), ["activation is a value of type int"]),
    "activation a long name": (lambda: wf.MLP(1, "a" * 10**6), ["activation is 'aaa", "…", "relu"]),
    "activation a list": (lambda: wf.MLP(1, ["tanh"]), ["activation is ['tanh']"]),
    "softmax": (lambda: wf.MLP(1, jax.nn.softmax), ["softmax", "single neurons", "elementwise"]),
    "softmax over points": (lambda: wf.MLP(1, lambda h: jax.nn.softmax(h, 0)), ["single neurons", "elementwise"]),
    "activation centred": (lambda: wf.MLP(1, lambda h: h - h.mean()), ["single neurons", "elementwise"]),
    "activation cumulative": (lambda: wf.MLP(1, lambda h: jnp.cumsum(h, -1)), ["single neurons"]),
    "activation sorting": (lambda: wf.MLP(1, lambda h: jnp.sort(h, -1)), ["single neurons"]),
    "activation sorting points": (lambda: wf.MLP(1, lambda h: jnp.sort(h, 0)), ["single neurons"]),
    "activation None inside": (lambda: wf.MLP(1, lambda h: None), ["activation is", "NoneType"]),
    "activation NumPy": (lambda: wf.MLP(1, lambda h: np.tanh(np.asarray(h))), ["fails on a small example"]),
    "activation whole numbers": (lambda: wf.MLP(1, lambda h: jnp.sign(h).astype(int)), ["numbers of type int"]),
    "activation complex": (lambda: wf.MLP(1, lambda h: h * 1j), ["numbers of type complex"]),
    "activation nan": (lambda: wf.MLP(1, jnp.log), ["gives nan between"]),
    "activation of two": (lambda: wf.MLP(1, lambda h, k: h), ["fails on a small example"]),
    "activation raises": (lambda: wf.MLP(1, lambda h: 1 / 0), ["division by zero"]),
    "activation a class": (lambda: wf.MLP(1, Weird), ["fails on a small example"]),
    "activation without an attribute": (lambda: wf.MLP(1, "math:nothing"), ["has no 'nothing'"]),
    "activation of math": (lambda: wf.MLP(1, "math:tanh"), ["fails on a small example"]),
    "residual a word": (lambda: wf.MLP(1, residual="yes"), ["residual is 'yes'", "True or False"]),
    "residual 1": (lambda: wf.MLP(1, residual=1), ["residual is 1"]),
    "residual None": (lambda: wf.MLP(1, residual=None), ["residual is None"]),
    "filter 0": (lambda: wf.CNN(1, filter=0), ["filter is 0"]),
    "filter a word": (lambda: wf.CNN(1, filter="3"), ["filter is '3'"]),
    "padding None": (lambda: wf.CNN(1, padding=None), ["padding is None"]),
    "padding an array": (lambda: wf.CNN(1, padding=X), ["padding is array", "circular"]),
    "readout a list": (lambda: wf.CNN(1, readout=["pool"]), ["readout is ['pool']"]),
    "depth of a CNN": (lambda: wf.CNN(-1), ["depth is -1"]),
    "depth of too many layers": (lambda: wf.MLP(10**6), ["depth is 1000000", "from 1 to 1000"]),
    "depth of too many layers of a CNN": (lambda: wf.CNN(1001), ["depth is 1001", "from 1 to 1000"]),
    "filter wider than images": (lambda: ask(IMAGES, wf.CNN(1, filter=9)), ["filter is 9", "up to 7"]),
    "filter of 10⁹": (lambda: ask(IMAGES, wf.CNN(1, filter=10**9 + 1)), ["filter is 1000000001"]),
    # Training
    "steps 1.0": (lambda: wf.Training(1.0, 0.1), ["steps is 1.0", "whole number"]),
    "steps a word": (lambda: wf.Training("10", 0.1), ["steps is '10'"]),
    "steps true": (lambda: wf.Training(True, 0.1), ["steps is True"]),
    "steps NumPy's true": (lambda: wf.Training(np.True_, 0.1), ["steps is True"]),
    "steps None": (lambda: wf.Training(None, 0.1), ["steps is None"]),
    "steps of 21 digits": (lambda: wf.Training(LONGEST, 0.1), ["steps is", "below 2⁶³"]),
    "dt None": (lambda: wf.Training(1, None), ["dt is None"]),
    "dt a word": (lambda: wf.Training(1, "0.1"), ["dt is '0.1'"]),
    "dt complex": (lambda: wf.Training(1, 0.1 + 0j), ["dt is (0.1+0j)"]),
    "dt of 400 digits": (lambda: wf.Training(1, 10**400), ["dt is 1000", "…"]),
    "dt an array": (lambda: wf.Training(1, np.ones(2)), ["dt is array([1., 1.])"]),
    "dt true": (lambda: wf.Training(1, True), ["dt is True"]),
    "loss None": (lambda: wf.Training(1, 0.1, None), ["loss is None"]),
    "loss a number": (lambda: wf.Training(1, 0.1, 2), ["loss is 2"]),
    "loss one number for all": (lambda: wf.Training(1, 0.1, lambda f, y: jnp.sum(f - y)), ["shape ()", "(3, 2)"]),
    "loss of the wrong shape": (lambda: wf.Training(1, 0.1, lambda f, y: (f - y).T), ["shape (2, 3)"]),
    "loss None inside": (lambda: wf.Training(1, 0.1, lambda f, y: None), ["loss is", "NoneType"]),
    "loss NumPy": (lambda: wf.Training(1, 0.1, lambda f, y: np.square(np.asarray(f) - y)), ["loss is", "fails"]),
    "loss whole numbers": (lambda: wf.Training(1, 0.1, lambda f, y: jnp.sign(f).astype(int)), ["loss is"]),
    "loss of one": (lambda: wf.Training(1, 0.1, lambda f: f), ["loss is", "fails"]),
    "loss raises": (lambda: wf.Training(1, 0.1, lambda f, y: 1 / 0), ["division by zero"]),
    "loss in a missing module": (lambda: wf.Training(1, 0.1, "nowhere:loss"), ["loss is 'nowhere:loss'"]),
    "decay a word": (lambda: wf.Training(1, 0.1, weight_decay="a"), ["weight_decay is 'a'"]),
    "decay nan": (lambda: wf.Training(1, 0.1, weight_decay=np.nan), ["weight_decay is nan"]),
    "decay None": (lambda: wf.Training(1, 0.1, weight_decay=None), ["weight_decay is None"]),
    "momentum inf": (lambda: wf.Training(1, 0.1, momentum=np.inf), ["momentum is inf"]),
    "momentum None": (lambda: wf.Training(1, 0.1, momentum=None), ["momentum is None"]),
    "integrator None": (lambda: wf.Training(1, 0.1, integrator=None), ["integrator is None", "ab2"]),
    "second order with decay": (
        lambda: wf.Training(1, 0.1, integrator="ab2", weight_decay=0.1), ["integrator is 'ab2'"]),
    "batch size below 0": (lambda: wf.Training(1, 0.1, batch_size=-1), ["batch_size is -1"]),
    "batch size 1.5": (lambda: wf.Training(1, 0.1, batch_size=1.5), ["batch_size is 1.5"]),
    "schedule a number": (lambda: wf.Training(1, 0.1, schedule=1), ["schedule is 1", "cyclic"]),
    "batch seed below 0": (lambda: wf.Training(1, 0.1, batch_seed=-1), ["batch_seed is -1"]),
    "batch seed huge": (lambda: wf.Training(1, 0.1, batch_seed=LONGEST), ["batch_seed is", "below 2⁶³"]),
    # Problems
    "data None": (lambda: ask(data=None), ["data is 'NoneType'", "Dataset"]),
    "data a class": (lambda: ask(data=wf.Dataset), ["data is 'type'"]),
    "network a class": (lambda: ask(network=wf.MLP), ["network is"]),
    "training a dictionary": (lambda: ask(training={"steps": 1}), ["training is 'dict'"]),
    "rule None": (lambda: ask(rule=None), ["rule is None"]),
    "rule a list": (lambda: ask(rule=["gd"]), ["rule is ['gd']"]),
    "rule empty": (lambda: ask(rule=""), ["rule is ''"]),
    "rule of 5000 digits": (lambda: ask(rule=MANY_DIGITS), ["rule is a value of type int"]),
    "rule a long name": (lambda: ask(rule="b" * 10**6), ["rule is 'bbb", "…"]),
    "rule in a missing module": (lambda: ask(rule="nowhere:Rule"), ["rule is 'nowhere:Rule'", "cannot be imported"]),
    "rule is a function": (lambda: ask(rule="math:sin"), ["rule is", "Rule"]),
    "rule abstract": (lambda: ask(rule=wf.rules.Rule), ["rule is Rule"]),
    "rule raises": (lambda: ask(rule=Broken()), ["Broken.local", "no luck"]),
    "rule with a hidden number": (lambda: ask(rule=Hidden(2.0)), ["rule is Hidden, whose gain", "compare"]),
    "rule with an unhashed number": (lambda: ask(rule=Unhashed(2.0)), ["rule is Unhashed, whose gain", "hash"]),
    "rule sorting neurons": (lambda: ask(rule=Mixing("sorted")), ["Mixing.local", "single neuron"]),
    "rule of all points": (lambda: ask(rule=Mixing("centred")), ["Mixing.local", "single neuron"]),
    "rule of one number": (lambda: ask(rule=Mixing("one")), ["Mixing.local", "single neuron"]),
    "richness None": (lambda: ask(richness=None), ["richness is None"]),
    "richness true": (lambda: ask(richness=True), ["richness is True"]),
    "richness inf": (lambda: ask(richness=np.inf), ["richness is inf"]),
    "richness complex": (lambda: ask(richness=1j), ["richness is 1j"]),
    "richness a list": (lambda: ask(richness=[1.0]), ["richness is [1.0]"]),
    "batch larger than the data": (
        lambda: ask(training=wf.Training(1, 0.1, batch_size=4)), ["batch_size is 4", "number of points, 3"]),
    "classes for the logistic loss": (
        lambda: ask(data=wf.Dataset(X, np.eye(3)), training=wf.Training(1, 0.1, "logistic")), ["y does not fit"]),
    "one output for cross entropy": (
        lambda: ask(training=wf.Training(1, 0.1, "cross_entropy")), ["y does not fit", "C > 1"]),
    # Rules
    "rho None": (lambda: wf.rules.FA(None), ["rho is None"]),
    "rho a word": (lambda: wf.rules.FA("half"), ["rho is 'half'"]),
    "rho of 400 digits": (lambda: wf.rules.FA(10**400), ["rho is 1000", "…"]),
    "rho of Kolen and Pollack": (lambda: wf.rules.KolenPollack(2.0), ["rho is 2.0"]),
    "rate of a mirror": (lambda: wf.rules.WeightMirror(rate=0.0), ["rate is 0.0"]),
    "rho of a mirror": (lambda: wf.rules.WeightMirror(rho=-2), ["rho is -2"]),
    "mixture of nothing": (lambda: wf.rules.Mixture(()), ["rules is ()", "one per hidden layer"]),
    "mixture of a word": (lambda: wf.rules.Mixture("gd"), ["rules is 'gd'"]),
    "mixture of None": (lambda: wf.rules.Mixture((None,)), ["rule is None"]),
    "mixture of gates": (lambda: wf.rules.Mixture(("gd", "gln")), ["rules is", "gated"]),
    "mixture for another depth": (lambda: ask(rule=wf.rules.Mixture(("gd", "dfa"))), ["rules is", "1 rules"]),
    # Data generators
    "no sphere points": (lambda: wf.datasets.sphere(0, 3), ["points is 0"]),
    "sphere of a word": (lambda: wf.datasets.sphere("3", 3), ["points is '3'"]),
    "sphere of too many points": (lambda: wf.datasets.sphere(HUGE, 3), ["GiB", "fewer points"]),
    "sphere of too many dimensions": (lambda: wf.datasets.sphere(3, HUGE), ["GiB", "dimensions"]),
    "sphere of too many outputs": (lambda: wf.datasets.sphere(3, 3, outputs=HUGE), ["GiB", "outputs"]),
    "sphere of too many tests": (lambda: wf.datasets.sphere(3, 3, test_points=HUGE), ["GiB"]),
    "sphere in 0 dimensions": (lambda: wf.datasets.sphere(3, 0), ["dimension is 0"]),
    "sphere with seed −1": (lambda: wf.datasets.sphere(3, 3, -1), ["seed is -1"]),
    "sphere with a huge seed": (lambda: wf.datasets.sphere(3, 3, LONGEST), ["seed is", "below 2⁶³"]),
    "sphere with seed None": (lambda: wf.datasets.sphere(3, 3, None), ["seed is None"]),
    "sphere without outputs": (lambda: wf.datasets.sphere(3, 3, outputs=0), ["outputs is 0"]),
    "sphere with −1 tests": (lambda: wf.datasets.sphere(3, 3, test_points=-1), ["test_points is -1"]),
    "gaussian of too many points": (lambda: wf.datasets.random_gaussian(HUGE, 3), ["GiB"]),
    "gaussian targets": (lambda: wf.datasets.random_gaussian(3, 3, targets="one"), ["targets is 'one'", "gaussian"]),
    "gaussian targets None": (lambda: wf.datasets.random_gaussian(3, 3, targets=None), ["targets is None"]),
    "gaussian targets an array": (lambda: wf.datasets.random_gaussian(3, 3, targets=X), ["targets is array"]),
    "teacher without neurons": (lambda: wf.datasets.teacher_student(3, 3, hidden=0), ["hidden is 0"]),
    "teacher of too many neurons": (lambda: wf.datasets.teacher_student(3, 3, hidden=HUGE), ["GiB", "hidden"]),
    "teacher's noise": (lambda: wf.datasets.teacher_student(3, 3, noise=-1.0), ["noise is -1.0"]),
    "teacher's noise nan": (lambda: wf.datasets.teacher_student(3, 3, noise=np.nan), ["noise is nan"]),
    "teacher's signs": (lambda: wf.datasets.teacher_student(3, 3, signs=1), ["signs is 1", "True or False"]),
    "one class": (lambda: wf.datasets.digits((1,)), ["classes is (1,)", "two or more"]),
    "class 10": (lambda: wf.datasets.digits((1, 10)), ["classes is (1, 10)"]),
    "class twice": (lambda: wf.datasets.digits((1, 1)), ["classes is (1, 1)"]),
    "classes a word": (lambda: wf.datasets.digits("01"), ["classes is '01'"]),
    "classes None": (lambda: wf.datasets.digits(None), ["classes is None"]),
    "more digits than there are": (lambda: wf.datasets.digits(points=10**6), ["points + test_points is", "at most"]),
    "digits' targets": (lambda: wf.datasets.digits(targets="words"), ["targets is 'words'"]),
    "digits' images": (lambda: wf.datasets.digits(images="yes"), ["images is 'yes'"]),
    "npz missing": (lambda: wf.datasets.npz("nowhere.npz"), ["path is 'nowhere.npz'", "cannot be read"]),
    "npz None": (lambda: wf.datasets.npz(None), ["path is None"]),
    "npz a number": (lambda: wf.datasets.npz(3), ["path is 3"]),
    "npz a folder": (lambda: wf.datasets.npz("."), ["path is '.'", "cannot be read"]),
    "npz of text": (lambda: wf.datasets.npz(Path(__file__)), ["which is not an .npz file"]),
    # Files of problems
    "toml None": (lambda: wf.Problem.from_toml(None), ["path is None", "TOML"]),
    "toml missing": (lambda: wf.Problem.from_toml("nowhere.toml"), ["nowhere.toml cannot be read"]),
    "toml a folder": (lambda: wf.Problem.from_toml("."), ["cannot be read"]),
    "toml broken": (lambda: wf.Problem.from_toml("a = \n"), ["the TOML text is not valid TOML"]),
    "toml of 5000 digits": (lambda: wf.Problem.from_toml("a = " + "1" * 5000 + "\n"), ["is not valid TOML", "limit"]),
    "toml nested": (lambda: wf.Problem.from_toml("a = " + "[" * 2000 + "\n"), ["is not valid TOML", "recursion"]),
    "toml empty": (lambda: wf.Problem.from_toml("\n"), ["richness is missing"]),
    "toml of words": (
        lambda: wf.Problem.from_toml("richness=1.0\nnetwork=1\nrule=1\ntraining=1\ndata=1\n"), ["network is 1"]),
    # Results
    "result None": (lambda: wf.Result(None), ["runs is 'NoneType'", "xarray.Dataset"]),
    "result an array": (lambda: wf.Result(X), ["runs is 'ndarray'"]),
    "arrays of no problem": (lambda: wf.Result.from_arrays(None, {}), ["problem is 'NoneType'"]),
    "arrays None": (lambda: wf.Result.from_arrays(ask(), None), ["arrays is 'NoneType'"]),
    "no arrays": (lambda: arrays(), ["arrays is 'empty'"]),
    "arrays unknown": (lambda: arrays(nonsense=X), ["arrays is", "names from"]),
    "arrays of words": (lambda: arrays(f=[["a"] * 3] * 3), ["f is", "real numbers"]),
    "arrays complex": (lambda: arrays(f=np.ones((3, 3)) * 1j), ["f is 'of type complex128'"]),
    "arrays masked": (lambda: arrays(f=np.ma.array(np.ones((3, 3)))), ["f is a masked array"]),
    "arrays of another shape": (lambda: arrays(f=np.ones((3, 2))), ["f has shape (3, 2)"]),
    "arrays nan": (lambda: arrays(f=np.full((3, 3), np.nan)), ["f is 'not finite everywhere'"]),
    "arrays at negative steps": (lambda: arrays([-1, 0, 1], f=np.ones((3, 3))), ["steps is [-1, 0, 1]"]),
    "arrays at unordered steps": (lambda: arrays([0, 2, 1], f=np.ones((3, 3))), ["steps is [0, 2, 1]"]),
    "arrays at words": (lambda: arrays(["a"], f=np.ones((3, 3))), ["steps is of type"]),
    "arrays at huge steps": (lambda: arrays([0, 10**400], f=np.ones((2, 3))), ["steps is list"]),
    "compare None": (lambda: wf.compare(None, None), ["a is 'NoneType'"]),
    "compare a word": (lambda: wf.compare("a.nc", "b.nc"), ["a is 'str'"]),
    "progress a word": (lambda: make_progress("yes"), ["progress is 'yes'"]),
    "progress a dictionary": (lambda: make_progress({}), ["progress is {}", "update(done, total, message)"]),
    "progress 1": (lambda: make_progress(1), ["progress is 1"]),
    # Networks of finite width
    "simulate None": (lambda: wf.simulate(None, 10), ["problem is 'NoneType'"]),
    "width None": (lambda: simulate(width=None), ["width is None"]),
    "width a word": (lambda: simulate(width="10"), ["width is '10'"]),
    "width true": (lambda: simulate(width=True), ["width is True"]),
    "width 1e3": (lambda: simulate(width=1e3), ["width is 1000.0", "whole"]),
    "width huge": (lambda: simulate(TRAINING, width=HUGE), ["GiB", "lower width"]),
    "width of 21 digits": (lambda: simulate(width=LONGEST), ["width is", "below 2⁶³"]),
    "networks 10⁹": (lambda: simulate(seeds=10**9), ["GiB", "seeds"]),
    "networks None": (lambda: simulate(seeds=None), ["seeds is None"]),
    "steps 10¹²": (lambda: simulate(wf.Training(HUGE, 0.1)), ["GiB", "steps"]),
    "batches of 10¹² steps": (lambda: simulate(wf.Training(HUGE, 0.1, batch_size=1), every=HUGE), ["GiB", "steps"]),
    "seed huge": (lambda: simulate(seed=LONGEST), ["seed is", "below 2⁶³"]),
    "seed None": (lambda: simulate(seed=None), ["seed is None"]),
    "seed 0.5": (lambda: simulate(seed=0.5), ["seed is 0.5"]),
    "engine None": (lambda: simulate(engine=None), ["engine is None"]),
    "engine an array": (lambda: simulate(engine=X), ["engine is array", "dense"]),
    "every 0": (lambda: simulate(every=0), ["every is 0"]),
    "every a word": (lambda: simulate(every="2"), ["every is '2'"]),
    "record a number": (lambda: simulate(record=3), ["record is 3"]),
    "record unknown": (lambda: simulate(record=("psi",)), ["record is 'psi'", "entk"]),
    "record None inside": (lambda: simulate(record=(None,)), ["record has None"]),
    "neurons 0": (lambda: simulate(neurons=0), ["neurons is 0"]),
    "tolerance 0": (lambda: simulate(tolerance=0.0), ["tolerance is 0.0", "[1e-7, 0.1]"]),
    "tolerance a word": (lambda: simulate(tolerance="small"), ["tolerance is 'small'"]),
    "tolerance nan": (lambda: simulate(tolerance=np.nan), ["tolerance is nan"]),
    "tiny richness": (lambda: wf.simulate(ask(richness=1e-13, training=LONG), 10), ["richness is 1e-13", "lazy"]),
    "conditioned signs": (
        lambda: wf.simulate(ask(rule="sign_symmetric", training=LONG), 10, engine="conditioned"),
        ["engine is 'conditioned'"]),
    "record fails": (lambda: simulate(TRAINING, record=lambda moment: 1 / 0), ["record: <lambda>", "division"]),
    "record nothing": (lambda: simulate(TRAINING, record=lambda moment: None), ["record: <lambda> gives NoneType"]),
    "record complex": (lambda: simulate(TRAINING, record=lambda moment: jnp.array(1j)), ["numbers of type complex"]),
    "observable's name": (lambda: simulate(record=wf.Observable(3, print)), ["name of an observable is 3"]),
    "observable's path": (lambda: simulate(record=wf.Observable("a/b", print)), ["observable is 'a/b'"]),
    "observable without measure": (lambda: simulate(record=wf.Observable("a")), ["record is 'a'", "measure"]),
    "observable's measure": (lambda: simulate(record=wf.Observable("a", 3)), ["record is 'a'", "function"]),
    "observable's dims": (lambda: simulate(record=wf.Observable("a", print, ("layer",))), ["dims of a", "time"]),
    "observable's dims a word": (lambda: simulate(record=wf.Observable("a", print, "time")), ["dims of a is 'time'"]),
    "checkpoint 3": (lambda: simulate(TRAINING, checkpoint=3), ["checkpoint is 3", "path"]),
    "checkpoint a null": (lambda: simulate(TRAINING, checkpoint="a\0"), ["checkpoint is"]),
    # Sweeps, files
    "sweep into 3": (lambda: wf.sweep(ask(), {"richness": [1.0]}, out=3), ["out is 3", "path"]),
    "sweep into a null": (lambda: wf.sweep(ask(), {"richness": [1.0]}, out="a\0"), ["out is"]),
    "sweep nothing": (lambda: wf.sweep(ask(), {}), ["vary is {}"]),
    "sweep None": (lambda: wf.sweep(None, {"richness": [1.0]}), ["problem is 'NoneType'"]),
    "sweep of a built-in function": (lambda: wf.sweep(ask(), {"richness": [1.0]}, min), ["run is <built-in"]),
    "sums of too many points": (lambda: wf.datasets.delayed_sum(HUGE), ["the data set needs", "GiB"]),
    "sums of too many frames": (lambda: wf.datasets.delayed_sum(2, HUGE), ["the data set needs", "frames"]),
    "matches of too many stimuli": (lambda: wf.datasets.delayed_match(2, stimuli=HUGE), ["the data set needs"]),
    "matches of too many dimensions": (lambda: wf.datasets.delayed_match(2, dimension=HUGE), ["the data set needs"]),
    "flip-flops of too many bits": (lambda: wf.datasets.flip_flop(2, bits=HUGE), ["the data set needs"]),
    "waves of too many frames": (lambda: wf.datasets.sine(2, HUGE), ["the data set needs"]),
    "waves of too many test points": (lambda: wf.datasets.sine(2, test_points=HUGE), ["the data set needs"]),
    "sweep of 10¹⁰ cells": (
        lambda: wf.sweep(ask(), {"richness": np.linspace(0.1, 1, 10**5), "training.dt": np.linspace(0.1, 1, 10**5)}),
        ["a grid of 10000000000 cells"]),
    "TOML without a name": (lambda: wf.Problem.from_toml("a\0"), ["path is 'a\\x00'", "TOML"]),
    "CSV without a name": (lambda: wf.datasets.table("a\0", "y"), ["path is 'a\\x00'", "CSV"]),
    "npz without a name": (lambda: wf.datasets.npz("a\0"), ["path is"]),
    "dissimilarities of an array": (lambda: MEASURED.rdm(X), ["name is array", "phi"]),
    "cache in 3": (lambda: wf.compilation_cache(3), ["folder is 3", "path"]),
    "cache in a null": (lambda: wf.compilation_cache("a\0"), ["folder is"]),
    # Infinite width
    "solve None": (lambda: wf.solve(None), ["problem is 'NoneType'"]),
    "method None": (lambda: solve(None), ["method is None", "mean_field"]),
    "method an array": (lambda: wf.solve(ask(), X), ["method is array"]),
    "option unknown": (lambda: solve(width=3), ["option width is 3", "samples"]),
    "option of another method": (lambda: solve("lazy", samples=3), ["option samples is 3"]),
    "samples a word": (lambda: solve(samples="many"), ["samples is 'many'"]),
    "samples huge": (lambda: solve(training=TRAINING, samples=HUGE), ["GiB", "samples"]),
    "samples 15": (lambda: solve(samples=15), ["samples is 15", "16 or more"]),
    "replicates 1": (lambda: solve(seeds=1), ["seeds is 1", "2 or more"]),
    "replicates 10⁹": (lambda: solve(seeds=10**9), ["GiB", "seeds"]),
    "solve's seed huge": (lambda: solve(seed=LONGEST), ["seed is"]),
    "solve for 10¹² steps": (lambda: solve(training=wf.Training(HUGE, 0.1)), ["GiB", "steps"]),
    "solve's tolerance": (lambda: solve(tolerance=0.6), ["tolerance is 0.6", "0.5]"]),
    "accuracy 0": (lambda: solve(accuracy=0), ["accuracy is 0"]),
    "accuracy a word": (lambda: solve(accuracy="1%"), ["accuracy is '1%'"]),
    "accuracy and samples": (lambda: solve(accuracy=0.1, samples=100), ["samples is 100", "accuracy"]),
    "extrapolate a word": (lambda: solve(extrapolate="yes"), ["extrapolate is 'yes'", "True or False"]),
    "extrapolate 2": (lambda: solve(extrapolate=2), ["extrapolate is 2"]),
    "precision 64": (lambda: solve(precision=64), ["precision is 64", "float32"]),
    "precision float16": (lambda: solve(precision="float16"), ["precision is 'float16'"]),
    "two times 1.7": (lambda: solve(two_time=1.7), ["two_time is 1.7", "whole"]),
    "two times −1": (lambda: solve(two_time=-1), ["two_time is -1"]),
    "two times a word": (lambda: solve(two_time="all"), ["two_time is 'all'"]),
    "solve's every": (lambda: solve(every=-2), ["every is -2"]),
    "solve's neurons": (lambda: solve(neurons=1.5), ["neurons is 1.5"]),
    "solve's record": (lambda: solve(record="psi"), ["record is 'psi'"]),
    "solve at tiny richness": (lambda: wf.solve(ask(richness=1e-6, training=LONG)), ["richness is 1e-06", "lazy"]),
    "solve in 32 bits at small richness": (
        lambda: wf.solve(ask(richness=0.001, training=LONG), precision="float32"), ["richness is 0.001", "float64"]),
    "iteration's samples": (lambda: solve("fixed_point", samples=7), ["samples is 7"]),
    "iteration's damping": (lambda: solve("fixed_point", damping=0.0), ["damping is 0.0"]),
    "iteration's damping a word": (lambda: solve("fixed_point", damping="some"), ["damping is 'some'"]),
    "iteration's convergence": (lambda: solve("fixed_point", convergence=-1), ["convergence is -1"]),
    "iteration's tolerance": (lambda: solve("fixed_point", tolerance=0.5), ["tolerance is 0.5"]),
    "iteration's responses": (lambda: solve("fixed_point", responses="none"), ["responses is 'none'", "jacobian"]),
    "iteration's responses an array": (lambda: solve("fixed_point", responses=X), ["responses is array"]),
    "iteration's replicates": (lambda: solve("fixed_point", seeds=0), ["seeds is 0"]),
    "iteration's length": (lambda: solve("fixed_point", max_iterations=0), ["max_iterations is 0"]),
    "iteration's size": (lambda: solve("fixed_point"), ["GiB", "steps"]),
    "algebra's two times": (lambda: solve("linear", two_time=1), ["two_time is 1", "True or False"]),
    "algebra's size": (lambda: solve("linear"), ["GiB", "steps"]),
    "lazy record": (lambda: solve("lazy", record=("psi",)), ["record is 'psi'"]),
    "lazy record a number": (lambda: solve("lazy", record=3), ["record is 3"]),
    "lazy every": (lambda: solve("lazy", every=0), ["every is 0"]),
    "lazy accuracy": (lambda: solve("lazy", accuracy=0), ["accuracy is 0"]),
    # The lazy limit
    "kernels of None": (lambda: wf.lazy.kernels(None, ERF, "gd"), ["x is NoneType"]),
    "kernels of words": (lambda: wf.lazy.kernels([["1", "2"]], ERF, "gd"), ["x is of type"]),
    "kernels of complex points": (lambda: wf.lazy.kernels(X * 1j, ERF, "gd"), ["x is of type complex128"]),
    "kernels of nan": (lambda: wf.lazy.kernels(X * np.nan, ERF, "gd"), ["x is nan"]),
    "kernels of flat points": (lambda: wf.lazy.kernels(Y, ERF, "gd"), ["x is 'of shape (3,)'"]),
    "kernels of no network": (lambda: wf.lazy.kernels(X, "mlp", "gd"), ["network is 'str'"]),
    "kernels of no rule": (lambda: wf.lazy.kernels(X, ERF, None), ["rule is None"]),
    "kernels of a moving rule": (lambda: wf.lazy.kernels(X, ERF, wf.rules.WeightMirror()), ["rule is WeightMirror"]),
    "kernels between spaces": (lambda: wf.lazy.kernels(X, ERF, "gd", np.ones((2, 3))), ["x2 is 'of shape (2, 3)'"]),
    "kernels unknown": (lambda: wf.lazy.kernels(X, ERF, "gd", outputs=("psi",)), ["outputs is ('psi',)"]),
    "kernels none": (lambda: wf.lazy.kernels(X, ERF, "gd", outputs=()), ["outputs is ()"]),
    "kernels 3": (lambda: wf.lazy.kernels(X, ERF, "gd", outputs=3), ["outputs is 3"]),
    "kernels accuracy": (lambda: wf.lazy.kernels(X, ERF, "gd", accuracy="a"), ["accuracy is 'a'"]),
    "kernels budget": (lambda: wf.lazy.kernels(X, ERF, "gd", memory_budget=0), ["memory_budget is 0"]),
    "kernels budget a word": (lambda: wf.lazy.kernels(X, ERF, "gd", memory_budget="1 GB"), ["memory_budget is '1 GB'"]),
    "kernels error": (lambda: wf.lazy.kernels(X, ERF, "gd", error=Y[:2]), ["error is 'of shape (2,)'"]),
    "kernels target": (lambda: wf.lazy.kernels(X, ERF, "gd", target="a"), ["target is"]),
    "kernels store": (lambda: wf.lazy.kernels(X, ERF, "gd", store=3), ["store is 3"]),
    "angles words": (lambda: wf.lazy.angle_kernel(ERF, "gd", "a"), ["angles is of type"]),
    "angles nan": (lambda: wf.lazy.angle_kernel(ERF, "gd", [np.nan]), ["angles is nan"]),
    "angles complex": (lambda: wf.lazy.angle_kernel(ERF, "gd", [1j]), ["angles is of type complex128"]),
    "predict None": (lambda: wf.lazy.predict(None, [1.0]), ["problem is 'NoneType'"]),
    "times None": (lambda: wf.lazy.predict(ask(), None), ["times is NoneType"]),
    "times words": (lambda: wf.lazy.predict(ask(), "soon"), ["times is of type"]),
    "times numeric words": (lambda: wf.lazy.predict(ask(), ["1.0"]), ["times is of type"]),
    "times negative": (lambda: wf.lazy.predict(ask(), [-1.0]), ["times is [-1.0]"]),
    "times nan": (lambda: wf.lazy.predict(ask(), [np.nan]), ["times is nan"]),
    "times none": (lambda: wf.lazy.predict(ask(), []), ["times is 'of shape (0,)'"]),
    "times between steps": (lambda: wf.lazy.predict(ask(), 0.15, discrete=True), ["times is 0.15", "multiples of dt"]),
    "times of 10¹² steps": (lambda: wf.lazy.predict(ask(), 1e11, discrete=True), ["GiB", "shorter times"]),
    "times of ∞ steps": (lambda: wf.lazy.predict(ask(), np.inf, discrete=True), ["times is inf"]),
    "ridge a word": (lambda: wf.lazy.predict(ask(), 1.0, ridge="a"), ["ridge is 'a'"]),
    "ridge below 0": (lambda: wf.lazy.predict(ask(), 1.0, ridge=-0.1), ["ridge is -0.1"]),
    "discrete 1": (lambda: wf.lazy.predict(ask(), 1.0, discrete=1), ["discrete is 1"]),
    "prediction's accuracy": (lambda: wf.lazy.predict(ask(), 1.0, accuracy=-1), ["accuracy is -1"]),
    "flow with batches": (
        lambda: wf.lazy.predict(ask(training=wf.Training(1, 0.1, batch_size=1)), 1.0), ["batch_size is 1", "discrete"]),
    # Exact solutions and fluctuations
    "exact rule": (lambda: wf.exact.two_layer_linear("drtp", 1.0, 1.0, [0.0]), ["rule is", "closed two-layer flow"]),
    "exact rule None": (lambda: wf.exact.two_layer_linear(None, 1.0, 1.0, [0.0]), ["rule is None"]),
    "exact richness": (lambda: wf.exact.two_layer_linear("gd", 0.0, 1.0, [0.0]), ["richness is 0.0"]),
    "exact richness too large": (lambda: wf.exact.two_layer_linear("gd", 1e300, 1.0, [0.0]), ["richness is 1e+300"]),
    "exact y": (lambda: wf.exact.two_layer_linear("gd", 1.0, "a", [0.0]), ["y is 'a'"]),
    "exact y too large": (lambda: wf.exact.fixed_point("fa", 1.0, 1e300), ["y is 1e+300", "up to 1e+50"]),
    "exact times words": (lambda: wf.exact.two_layer_linear("gd", 1.0, 1.0, "now"), ["times is of type"]),
    "exact times None": (lambda: wf.exact.two_layer_linear("gd", 1.0, 1.0, None), ["times is NoneType"]),
    "exact times ∞": (lambda: wf.exact.two_layer_linear("gd", 1.0, 1.0, [np.inf]), ["times is inf"]),
    "exact times masked": (
        lambda: wf.exact.two_layer_linear("gd", 1.0, 1.0, np.ma.array([0.0])), ["times is a masked array"]),
    "exact times unordered": (lambda: wf.exact.two_layer_linear("gd", 1.0, 1.0, [1.0, 0.0]), ["increasing order"]),
    "exact times negative": (lambda: wf.exact.two_layer_linear("gd", 1.0, 1.0, [-1.0]), ["times is [-1.0]"]),
    "movement": (lambda: wf.exact.feature_movement("gd", -1.0, 1.0), ["richness is -1.0"]),
    "movement laws": (lambda: wf.exact.feature_movement_laws("gd", None), ["y is None"]),
    "roots h": (lambda: wf.exact.hebb_error_roots(0.0, 1.0, 1.0), ["h is 0.0"]),
    "roots richness": (lambda: wf.exact.hebb_error_roots(1.0, None, 1.0), ["richness is None"]),
    "roots y": (lambda: wf.exact.hebb_error_roots(1.0, 1.0, 1e200), ["y is 1e+200"]),
    "covariance of no network": (lambda: wf.fluctuations.kernel_covariance("mlp", X), ["network is 'mlp'"]),
    "covariance of a residual one": (lambda: wf.fluctuations.kernel_covariance(wf.MLP(1, residual=True), X), ["MLP"]),
    "covariance of words": (lambda: wf.fluctuations.kernel_covariance(ERF, [["1"]]), ["x is of type"]),
    "covariance of None": (lambda: wf.fluctuations.kernel_covariance(ERF, None), ["x is NoneType"]),
    "covariance of flat points": (lambda: wf.fluctuations.kernel_covariance(ERF, Y), ["x is 'of shape (3,)'"]),
    "covariance width": (lambda: wf.fluctuations.kernel_covariance(ERF, X, width=0), ["width is 0"]),
    "covariance samples": (lambda: wf.fluctuations.kernel_covariance(ERF, X, samples=3), ["samples is 3", "power"]),
    "covariance of too many samples": (lambda: wf.fluctuations.kernel_covariance(ERF, X, samples=2**50), ["GiB"]),
    "covariance seeds": (lambda: wf.fluctuations.kernel_covariance(ERF, X, seeds=1), ["seeds is 1"]),
    "covariance of too many seeds": (lambda: wf.fluctuations.kernel_covariance(ERF, X, seeds=HUGE), ["GiB"]),
    "covariance seed": (lambda: wf.fluctuations.kernel_covariance(ERF, X, seed=-1), ["seed is -1"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_answered_in_one_line(case):
    call, says = BAD[case]
    with pytest.raises((InputError, MemoryBudgetError)) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) <= 1000
    for part in says:
        assert part in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"width": 1}, "width is 1"),
        ({"width": 2.5}, "width is 2.5"),
        ({"width": 10, "seeds": 0}, "seeds is 0"),
        ({"width": 10, "seed": -1}, "seed is -1"),
        ({"width": 10, "engine": "gpu"}, "engine is 'gpu'; allowed: one of auto, dense, conditioned"),
        ({"width": 10, "progress": "yes"}, "progress is 'yes'"),
    ],
)
def test_simulate_names_what_it_cannot_take(arguments, says):
    with pytest.raises(InputError, match=says):
        wf.simulate(ask(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"method": "magic"}, "method is 'magic'.*mean_field"),
        ({"samples": 0}, "samples is 0"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"progress": "yes"}, "progress is 'yes'"),
    ],
)
def test_solve_names_what_it_cannot_take(arguments, says):
    with pytest.raises(InputError, match=says):
        wf.solve(ask(), **arguments)


@pytest.mark.filterwarnings("ignore::widefield.errors.StabilityWarning")
def test_a_diverging_run_names_the_step_and_the_remedy():
    problem = ask(rule="hebb", richness=2.0, training=wf.Training(steps=60, dt=1.0), network=wf.MLP(1, "linear"))
    with pytest.raises(DivergenceError, match=r"at step \d+.*lower dt"):
        wf.simulate(problem, width=20, seeds=1, engine="dense", record=())


GOOD = {
    "richness": "richness = 1.0",
    "data": "x = [[1.0], [2.0]]\ny = [1.0, -1.0]",
    "network": 'kind = "mlp"\ndepth = 1',
    "rule": 'name = "gd"',
    "training": "steps = 2\ndt = 0.1",
}


@pytest.mark.parametrize(
    ("part", "text", "says"),
    [
        ("data", "x = [[nan], [2.0]]\ny = [1.0, -1.0]", "x is nan"),
        ("data", "x = [[1.0], [2.0]]\ny = [1.0]", "y is"),
        ("data", "x = []\ny = []", "x is"),
        ("network", 'kind = "mlp"\ndepth = 0', "depth is 0"),
        ("network", 'kind = "mlp"\ndepth = 1\nactivation = "swish"', "activation is 'swish'"),
        ("network", 'kind = "mlp"\ndepth = 1\nbreadth = 2', "breadth is not a key"),
        ("richness", "richness = 0.0", "richness is 0.0"),
        ("rule", 'name = "backprop"', "rule is 'backprop'"),
        ("rule", 'name = "fa"\nrho = 2.0', "rho is 2.0"),
    ],
)
@pytest.mark.parametrize("command", ["solve", "simulate"])
def test_the_command_line_answers_bad_files_in_one_line(tmp_path, monkeypatch, command, part, text, says):
    monkeypatch.chdir(tmp_path)
    parts = {**GOOD, part: text}
    tables = "".join(f"[{name}]\n{parts[name]}\n" for name in ("data", "network", "rule", "training"))
    (tmp_path / "problem.toml").write_text(parts["richness"] + "\n" + tables, encoding="utf-8")
    outcome = CliRunner().invoke(app, [command, "problem.toml", "-o", "out.nc"])
    assert outcome.exit_code == 2
    assert says in outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["problem.toml"]


def test_what_could_not_be_named_above_is_answered_by_the_command_line_too(tmp_path, monkeypatch):
    """A byte-order mark is no mistake; depth without end and numbers without end are."""
    monkeypatch.chdir(tmp_path)
    tables = "".join(f"[{name}]\n{GOOD[name]}\n" for name in ("data", "network", "rule", "training"))
    text = GOOD["richness"] + "\n" + tables
    (tmp_path / "mark.toml").write_text("\ufeff" + text, encoding="utf-8")
    assert wf.Problem.from_toml(Path("mark.toml")) == wf.Problem.from_toml(text)
    (tmp_path / "deep.toml").write_text("a = " + "[" * 2000, encoding="utf-8")
    (tmp_path / "long.toml").write_text("a = " + "1" * 5000, encoding="utf-8")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    (tmp_path / "good.toml").write_text(text, encoding="utf-8")
    (tmp_path / "text.nc").write_text(text, encoding="utf-8")
    np.savez(tmp_path / "data.npz", x=X, y=Y)
    read = text.replace(GOOD["data"], 'kind = "npz"\npath = "data.npz"')
    (tmp_path / "read.toml").write_text(read, encoding="utf-8")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments, says in COMMANDS.items():
        outcome = CliRunner().invoke(app, arguments.split())
        assert outcome.exit_code == 2, (arguments, outcome.output)
        assert says in outcome.stderr, (arguments, outcome.stderr)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


# What a command line says, and the words of its answer; all of them before any work.
COMMANDS = {
    "solve deep.toml": "deep.toml is not valid TOML",
    "solve long.toml": "long.toml is not valid TOML",
    "solve latin.toml": "latin.toml is not text",
    "solve nowhere.toml": "nowhere.toml cannot be read",
    "solve .": "cannot be read",
    "solve": "Missing argument",
    "solve good.toml --method magic": "method is 'magic'",
    "solve good.toml --samples 3": "samples is 3",
    "solve good.toml --samples many": "Invalid value",
    "solve good.toml --samples 1000000000000": "GiB",
    "solve good.toml --seeds 0": "seeds is 0",
    "solve good.toml --seed -1": "seed is -1",
    "solve good.toml --seed 99999999999999999999": "seed is 99999999999999999999",
    "solve good.toml --accuracy nan": "accuracy is nan",
    "solve good.toml --accuracy -1": "accuracy is -1",
    "solve good.toml --method lazy --samples 100": "option samples",
    "solve good.toml --method linear": "activation is tanh",
    "solve good.toml -o nowhere/out.nc": "there is no folder",
    "solve good.toml -o .": "folder",
    "solve good.toml --nonsense": "No such option",
    "solve good.toml -o good.toml": "the problem file itself",
    "solve read.toml -o data.npz": "holds the problem's data",
    "sweep good.toml --vary richness=1,2 -o good.toml": "the problem file itself",
    "sweep read.toml --vary richness=1,2 -o ./data.npz": "holds the problem's data",
    "sweep good.toml": "Missing option",
    "sweep good.toml --vary richness": "vary is 'richness'",
    "sweep good.toml --vary richness=1 --vary richness=2": "richness twice",
    "sweep good.toml --vary nothing=1": "field is 'nothing'",
    "sweep good.toml --vary richness=1:2:x": "FROM:TO:HOW_MANY",
    "sweep good.toml --vary richness=1 -o nowhere/out.nc": "there is no folder",
    "sweep good.toml --vary richness=1 --picture a.txt": "allowed endings",
    "simulate read.toml -o data.npz": "holds the problem's data",
    "simulate nowhere.toml": "nowhere.toml cannot be read",
    "simulate deep.toml": "deep.toml is not valid TOML",
    "simulate good.toml --width 1": "width is 1",
    "simulate good.toml --width -5": "width is -5",
    "simulate good.toml --width 1e3": "Invalid value",
    "simulate good.toml --width 1000000000000": "GiB",
    "simulate good.toml --seeds 0": "seeds is 0",
    "simulate good.toml --seeds 100000000000": "GiB",
    "simulate good.toml --seed -1": "seed is -1",
    "simulate good.toml --engine gpu": "engine is 'gpu'",
    "simulate good.toml -o nowhere/out.nc": "there is no folder",
    "compare nowhere.nc nowhere.nc": "nowhere.nc",
    "compare text.nc text.nc": "text.nc",
    "compare text.nc text.nc -o page.txt": "allowed endings",
    "compare text.nc": "Missing argument",
    "lazy digits --depths one": "depths is 'one'",
    "lazy digits --depths 0": "depth is 0",
    "lazy digits --seed -1": "seed is -1",
    "lazy digits --ridge 0": "ridge is 0",
    "lazy digits --train 1": "train is 1",
    "lazy digits --test 0": "test is 0",
    "lazy digits --train 5000": "at most the 1797 digits",
    "lazy digits --activation swish": "activation is 'swish'",
    "lazy digits -o nowhere/picture.png": "there is no folder",
    "reproduce fig99": "fig99",
    "nonsense": "No such command",
}


# Random wrong values for every argument of every public function.

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(),
    st.text(max_size=5), st.binary(max_size=3), st.sampled_from(["", "a\0b", ".", "a" * 300, "nowhere/a", "a:b", "\n"]),
    st.lists(st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=2)), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.sampled_from([HUGE, LONGEST, -LONGEST, MANY_DIGITS, object(), Weird(), wf.MLP, wf.rules.GD, min, DATES, X,
                     X * np.nan, np.ma.array(Y), Y * 1j, np.array(3.0), np.int64(-1), np.float32(np.nan),
                     np.bool_(True), (), DATA, TRAINING, ERF]),
)  # fmt: skip
# Other arguments of the functions that run something make a run that is too long to be started: the order of its points
# alone does not fit into memory, however seldom it records.
ENDLESS = wf.Training(2**62, 0.1, batch_size=1)
LATE = [0, 2**50]
MEASURED = arrays(phi=np.ones((3, 1, 3, 3)))
TWO_LAYERS = {"rule": "gd", "richness": 1.0, "y": 1.0}
FRAMES = {"points": 2}
BEFORE_WORK = {
    wf.simulate: {"problem": ask(training=ENDLESS), "width": 10, "progress": False},
    wf.solve: {"problem": ask(training=ENDLESS)},
    wf.sweep: {"problem": ask(training=ENDLESS), "vary": {"richness": [1.0]}, "progress": False},
    wf.lazy.predict: {"problem": ask(), "times": 1e40, "discrete": True},
    wf.lazy.kernels: {"x": X, "network": ERF, "rule": "gd", "memory_budget": 1},
    wf.lazy.angle_kernel: {"network": ERF, "rule": "gd", "angles": []},
    wf.exact.two_layer_linear: {**TWO_LAYERS, "times": [0.0]},
    wf.exact.fixed_point: {**TWO_LAYERS, "rule": "fa"},
    wf.exact.feature_movement: {**TWO_LAYERS, "rule": "hebb"},
    wf.exact.feature_movement_laws: {"rule": "gd", "y": 1.0},
    wf.exact.hebb_error_roots: {"h": 1.0, "richness": 1.0, "y": 1.0},
    wf.fluctuations.kernel_covariance: {"network": ERF, "x": X, "samples": 2**50},
    wf.datasets.sphere: {"points": 2, "dimension": 2},
    wf.datasets.random_gaussian: {"points": 2, "dimension": 2},
    wf.datasets.teacher_student: {"points": 2, "dimension": 2},
    wf.datasets.digits: {},
    wf.datasets.digit_rows: {},
    wf.datasets.npz: {"path": "nowhere.npz"},
    wf.datasets.table: {"path": "nowhere.csv", "target": "y"},
    wf.datasets.delayed_match: FRAMES,
    wf.datasets.delayed_sum: FRAMES,
    wf.datasets.flip_flop: FRAMES,
    wf.datasets.sine: FRAMES,
    wf.Dataset: {"x": X, "y": Y},
    wf.MLP: {"depth": 1},
    wf.CNN: {"depth": 1},
    wf.RNN: {},
    wf.Training: {"steps": 1, "dt": 0.1},
    wf.Problem: {"data": DATA, "network": ERF, "rule": "gd", "richness": 1.0, "training": TRAINING},
    wf.Problem.from_toml: {"path": "nowhere.toml"},
    wf.Problem.to_toml: {"self": ask()},
    wf.Observable: {"name": "a"},
    wf.compare: {"a": MEASURED, "b": MEASURED},
    wf.finite_width: {"problem": ask(training=ENDLESS), "progress": False},
    wf.candidates: {"problems": [ask(), ask(richness=2.0)], "steps": LATE, "progress": False},
    wf.power: {"a": ask(training=ENDLESS), "b": ask(training=ENDLESS, richness=2.0), "steps": LATE, "progress": False},
    wf.observe: {"activations": np.ones((2, 1, len(X), 12)), "steps": LATE},
    wf.identify: {"observed": wf.observe(np.ones((2, 1, len(X), 12)), LATE), "candidates": [ask(training=ENDLESS)],
                  "progress": False},
    wf.RankOne: {"strength": 1.0},
    wf.load: {"path": "nowhere.nc"},
    wf.Result.from_arrays: {"problem": ask(), "arrays": {}},
    wf.Result: {"runs": None},
    wf.Result.rdm: {"self": MEASURED, "name": "phi"},
    wf.Result.save: {"self": MEASURED, "path": "measured.nc"},
} | {rule: {} for rule in RULES.values()} | {wf.rules.Mixture: {"rules": ("gd",)}}  # fmt: skip
# `store` reads and writes a folder of its own; a compilation cache is set for the whole process.
ELSEWHERE = {"self", "options", "others", "store"}
ARGUMENTS = [
    (function, name)
    for function in BEFORE_WORK
    for name in inspect.signature(function).parameters
    if name not in ELSEWHERE
]
OPTIONS = [(method, name) for method in SOLVERS for name in list(inspect.signature(SOLVERS[method]).parameters)[1:]]


def test_every_public_function_is_fed_random_values():
    parts = [wf, wf.lazy, wf.exact, wf.fluctuations, wf.datasets]
    public = [getattr(part, name) for part in parts for name in getattr(part, "__all__", ())]
    functions = {one for one in public if inspect.isfunction(one) or inspect.isclass(one)}
    results = {one for one in functions if inspect.isclass(one) and "widefield.problem" not in one.__module__}
    assert functions - results - set(BEFORE_WORK) - {wf.compilation_cache, solve_lazy} == set()


def check_answer(call):
    """A result, or an error of our own in one line."""
    message = "-"
    try:
        call()
    except WidefieldError as error:
        message = str(error)
    assert "\n" not in message
    assert 0 < len(message) <= 1000


@pytest.mark.filterwarnings("ignore::widefield.sweeps.sweeping.SweepWarning")
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(ARGUMENTS), value=VALUES)
def test_any_value_of_any_argument_gives_a_result_or_an_error_of_ours(place, value, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("values"))  # for functions that write
    function, name = place
    check_answer(lambda: function(**{**BEFORE_WORK[function], name: value}))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(OPTIONS), value=VALUES)
def test_any_value_of_any_option_of_a_solver_gives_an_error_of_ours(place, value):
    method, name = place
    network = wf.MLP(1, "linear" if method == "linear" else "erf")
    training = ENDLESS if method in ("mean_field", "lazy") else wf.Training(2**62, 0.1)  # others take no batches
    problem = ask(network=network, training=training)
    check_answer(lambda: wf.solve(problem, method, **{name: value}))
