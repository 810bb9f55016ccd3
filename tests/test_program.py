"""The training program at dense width is the plain NumPy loop of reference.py, step by step, on the same weights."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import Case, LayerRule, Weights, neighbours, train

import widefield as wf
from widefield.engine.interpretation import Interpretation, initialise
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.program import step
from widefield.engine.state import Inputs, Spec, State
from widefield.observables import DEFAULT_KERNELS as KERNELS

WIDTH, POINTS, STEPS = 8, 3, 4
TOLERANCE = 1e-10

GRADIENT = LayerRule("transposed")
REFERENCE = {
    wf.rules.GD: lambda rule: GRADIENT,
    wf.rules.FA: lambda rule: LayerRule("fixed", rule.rho),
    wf.rules.DFA: lambda rule: LayerRule("direct"),
    wf.rules.GLN: lambda rule: LayerRule("transposed", gated=True),
    wf.rules.Hebb: lambda rule: LayerRule("none", output="error_phi"),
    wf.rules.TraditionalHebb: lambda rule: LayerRule("none", output="phi", error="one"),
    wf.rules.SignedHebb: lambda rule: LayerRule("none", output="phi"),
    wf.rules.DRTP: lambda rule: LayerRule("direct", error="target"),
    wf.rules.KolenPollack: lambda rule: LayerRule("follows", rule.rho),
    wf.rules.SignSymmetric: lambda rule: LayerRule("signs"),
    wf.rules.WeightMirror: lambda rule: LayerRule("mirror", rule.rho, rule.rate),
    wf.rules.ReadoutOnly: lambda rule: LayerRule("none", output="zero"),
}
PAPER = [wf.rules.GD(), wf.rules.FA(0.6), wf.rules.FA(0.0), wf.rules.DFA(), wf.rules.GLN(), wf.rules.Hebb()]


def make_problem(rule, network=None, shape=(5,), outputs=1, richness=0.8, targets="gaussian", **training) -> wf.Problem:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((POINTS, *shape)), rng.standard_normal((POINTS, outputs))
    if targets == "signs":
        y = np.sign(y)
    elif targets == "one_hot":
        y = np.eye(outputs)[rng.integers(outputs, size=POINTS)]
    return wf.Problem(
        data=wf.Dataset(x, y if outputs > 1 else y[:, 0]),
        network=network or wf.MLP(depth=2, activation="tanh"),
        rule=rule,
        richness=richness,
        training=wf.Training(**{"steps": STEPS, "dt": 0.3, **training}),
    )


def explicit_weights(case: Case, spec: Spec, inputs: Inputs, state: State) -> Weights:
    """The engine's initial state as plain weights; W⁰ and gates back from the coordinates of the inputs' span."""
    near, channels = neighbours(case), case.x.shape[-1]
    outside = near < 0
    patches = np.where(outside[None, :, :, None], 0.0, case.x[:, near])
    patches = patches.reshape(len(case.x) * len(near), -1) / np.sqrt(channels)
    back = np.linalg.pinv(np.asarray(inputs.x[0]))
    rows = (back @ patches).T  # orthonormal columns: patches · rows = coordinates

    def first(coordinates: np.ndarray) -> np.ndarray:
        full = rows @ coordinates
        return full.reshape(near.shape[1], channels, -1).transpose(0, 2, 1)

    def hidden(matrix) -> np.ndarray | None:
        if matrix is None:
            return None
        w = np.asarray(matrix.weights) * np.sqrt(WIDTH)
        return w.reshape(WIDTH, near.shape[1], WIDTH).transpose(1, 2, 0)

    def array(value) -> np.ndarray | None:
        return None if value is None else np.asarray(value)

    # What the loop is not given it leaves out, as the engine would.
    own = spec.form.shapes[-1]
    assert (state.readout_feedback is None) == ("fresh" not in own.uses or own.entrywise is not None)
    return Weights(
        first=first(np.asarray(state.inputs)),
        hidden=[hidden(m) for m in state.matrices],
        readout=np.asarray(state.readout),
        hidden_tilde=[hidden(m) for m in state.feedbacks],
        readout_tilde=array(state.readout_feedback),
        direct=[array(z) for z in state.direct],
        gates=[None if m is None else first(np.asarray(m)) for m in state.gates],
    )


def make_case(problem: wf.Problem) -> Case:
    network, training, rules = problem.network, problem.training, problem.layer_rules
    x = problem.data.x
    extra: dict = {}
    if isinstance(network, wf.CNN):
        extra = {
            "grid": x.shape[1:-1], "filter": network.filter, "circular": network.padding == "circular",
            "pooled": network.readout == "pool",
        }  # fmt: skip
    return Case(
        x=x.reshape(len(x), -1 if extra else 1, x.shape[-1]),
        y=problem.data.y_columns,
        rules=[REFERENCE[type(rule)](rule) for rule in rules],
        richness=problem.richness,
        dt=training.dt,
        steps=training.steps,
        activation=network.activation.name,
        loss=training.loss.name,
        decay=training.weight_decay,
        momentum=training.momentum,
        ab2=training.integrator == "ab2",
        batches=schedule(training, len(x)),
        residual=getattr(network, "residual", False),
        **extra,
    )


def schedule(training: wf.Training, points: int) -> tuple[tuple[int, ...], ...]:
    """The points of every step: one after another, in a new order for every pass if it is random."""
    size, rng = training.batch_size, np.random.default_rng(training.batch_seed)
    line: list[int] = []
    while len(line) < size * training.steps:
        line += list(rng.permutation(points)) if training.schedule == "random" else list(range(points))
    return tuple(tuple(line[t * size : (t + 1) * size]) for t in range(training.steps)) if size else ()


def start(problem: wf.Problem, record=KERNELS, seed: int = 0) -> tuple[Spec, Inputs, State]:
    spec, inputs = prepare(problem, make_recording(problem, record, 1, 1), "float64")
    state = initialise(spec, Interpretation("dense", WIDTH), inputs, jax.random.key(seed), [])
    return spec, inputs, state


def engine_run(problem: wf.Problem, spec: Spec, inputs: Inputs, state: State, record=KERNELS) -> dict[str, np.ndarray]:
    recording = make_recording(problem, record, 1, 1)
    one = partial(step, spec, inputs)  # not compiled: a compilation per case would cost more than the few steps
    kept = []
    for _ in range(problem.training.steps + 1):
        state, fields = one(state)
        kept.append(recording.measure(spec, inputs, fields) | {"delta": fields.delta[:, 0]})
    return {name: np.stack([np.asarray(k[name]) for k in kept]) for name in kept[0]}


def assert_same(problem: wf.Problem, record=KERNELS) -> None:
    spec, inputs, state = start(problem, record)
    case = make_case(problem)
    expected = train(case, explicit_weights(case, spec, inputs, state))
    got = engine_run(problem, spec, inputs, state, record)
    moved = np.abs(expected["f"][-1]).max()
    assert moved > 1e-3, "nothing was learnt, nothing is tested"
    for name, value in got.items():
        scale = max(np.abs(expected[name]).max(), 1.0)
        gap = np.abs(value - expected[name]).reshape(len(value), -1).max(1)
        assert np.all(gap < TOLERANCE * scale), f"{name} is off by {gap} at steps 0 … (scale {scale})"


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("rule", PAPER, ids=repr)
def test_rule_and_depth(rule, depth):
    assert_same(make_problem(rule, wf.MLP(depth=depth, activation="tanh")))


@pytest.mark.parametrize("activation", ["relu", "erf", "linear"])
def test_activation(activation):
    assert_same(make_problem(wf.rules.FA(0.6), wf.MLP(depth=2, activation=activation)))


@pytest.mark.parametrize(
    "rule",
    [wf.rules.TraditionalHebb(), wf.rules.SignedHebb(), wf.rules.DRTP(), wf.rules.KolenPollack(0.3),
     wf.rules.ReadoutOnly(), wf.rules.SignSymmetric(), wf.rules.WeightMirror(2.0, 0.3), wf.rules.WeightMirror(1.0, 1.0),
     wf.rules.Mixture((wf.rules.FA(0.3), "hebb", "gd")), wf.rules.Mixture(("sign_symmetric", "weight_mirror", "dfa")),
     wf.rules.Mixture(("gd", "dfa", wf.rules.KolenPollack()))],
    ids=repr,
)  # fmt: skip
def test_further_rules(rule):
    assert_same(make_problem(rule, wf.MLP(depth=3, activation="tanh")))


OUTPUTS = {"outputs": 3, "network": wf.MLP(depth=2, activation="tanh")}
CONV = wf.CNN(depth=2, filter=3, activation="tanh")
IMAGE = wf.CNN(depth=2, filter=3, activation="tanh", padding="zero", readout="pool")
EXTENSIONS = {
    "three outputs": partial(make_problem, rule="gd", **OUTPUTS),
    "three outputs, fa": partial(make_problem, rule=wf.rules.FA(0.6), **OUTPUTS),
    "three outputs, hebb": partial(make_problem, rule="hebb", **OUTPUTS),
    "three outputs, traditional hebb": partial(make_problem, rule="traditional_hebb", **OUTPUTS),
    "three outputs, drtp": partial(make_problem, rule="drtp", **OUTPUTS),
    "logistic": partial(make_problem, rule="dfa", loss="logistic", targets="signs"),
    "cross entropy": partial(make_problem, rule="gln", loss="cross_entropy", targets="one_hot", **OUTPUTS),
    "weight decay": partial(make_problem, rule=wf.rules.FA(0.6), weight_decay=0.4),
    "weight decay, kolen-pollack": partial(make_problem, rule=wf.rules.KolenPollack(0.3), weight_decay=0.4),
    "momentum": partial(make_problem, rule="gd", momentum=0.5),
    "momentum and decay": partial(make_problem, rule=wf.rules.KolenPollack(), momentum=0.5, weight_decay=0.4),
    "minibatches": partial(make_problem, rule=wf.rules.FA(0.6), batch_size=2, batch_seed=5),
    "minibatches in order, momentum and decay": partial(
        make_problem, rule="gd", batch_size=2, schedule="cyclic", momentum=0.5, weight_decay=0.4
    ),
    "minibatches, three outputs, drtp": partial(make_problem, rule="drtp", batch_size=1, **OUTPUTS),
    "residual": partial(make_problem, rule="gd", network=wf.MLP(depth=3, activation="tanh", residual=True)),
    "residual fa": partial(
        make_problem, rule=wf.rules.FA(0.6), network=wf.MLP(depth=3, activation="tanh", residual=True)
    ),
    "residual gln": partial(make_problem, rule="gln", network=wf.MLP(depth=3, activation="tanh", residual=True)),
    "residual dfa": partial(make_problem, rule="dfa", network=wf.MLP(depth=3, activation="tanh", residual=True)),
    "ab2": partial(make_problem, rule=wf.rules.FA(0.6), integrator="ab2"),
    "ab2 at depth 3": partial(make_problem, rule="gd", integrator="ab2", network=wf.MLP(depth=3, activation="tanh")),
    "cnn": partial(make_problem, rule="gd", network=CONV, shape=(4, 2)),
    "cnn fa": partial(make_problem, rule=wf.rules.FA(0.6), network=CONV, shape=(4, 2)),
    "cnn gln": partial(make_problem, rule="gln", network=CONV, shape=(4, 2)),
    "cnn hebb": partial(make_problem, rule="hebb", network=CONV, shape=(4, 2)),
    "cnn pooled, zero padding, images": partial(make_problem, rule="gd", network=IMAGE, shape=(3, 2, 2)),
    "cnn pooled images, fa": partial(make_problem, rule=wf.rules.FA(0.6), network=IMAGE, shape=(3, 2, 2)),
    "cnn, dfa, three outputs, momentum": partial(
        make_problem, rule="dfa", network=CONV, shape=(4, 2), outputs=3, momentum=0.5
    ),
    "cnn images, kolen-pollack, three outputs, decay": partial(
        make_problem, rule=wf.rules.KolenPollack(0.3), network=IMAGE, shape=(3, 2, 2), outputs=3, weight_decay=0.4
    ),
}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_extension(name):
    assert_same(EXTENSIONS[name]())


@pytest.mark.parametrize("rule", [wf.rules.GD(), wf.rules.FA(0.6), wf.rules.DFA(), wf.rules.DRTP()], ids=repr)
def test_one_sweep_for_all_outputs(rule):
    """Without gradient kernels a linear rule carries all outputs in one backward sweep."""
    assert_same(make_problem(rule, outputs=3), record=("phi",))


def test_simulate_is_the_same_run():
    """The compiled loop over seeds records what the reference computes from each seed's weights."""
    problem = make_problem(wf.rules.FA(0.6))
    result = wf.simulate(problem, width=WIDTH, seeds=2, seed=5, engine="dense", progress=False)
    runs = []
    for key in jax.random.split(jax.random.key(5), 2):
        spec, inputs, _ = start(problem)
        state = initialise(spec, Interpretation("dense", WIDTH), inputs, key, [])
        case = make_case(problem)
        runs.append(train(case, explicit_weights(case, spec, inputs, state)))
    for name in ("f", "delta", "loss", "entk", "phi", "g", "g_tilde", "g_tilde_tilde"):
        both = np.stack([run[name] for run in runs])
        mean, error = both.mean(0), both.std(0, ddof=1) / np.sqrt(2)
        np.testing.assert_allclose(result[name].values.ravel(), mean.ravel(), atol=1e-10, err_msg=name)
        np.testing.assert_allclose(result[f"{name}_se"].values.ravel(), error.ravel(), atol=1e-10, err_msg=name)


def test_gradient_descent_is_automatic_differentiation():
    """GD moves along −∂loss/∂θ of the network itself: θ += dt γ₀² N · (−∂loss/∂θ) in unit-variance weights."""
    problem = make_problem("gd")
    spec, inputs, state = start(problem)
    case = make_case(problem)
    weights = explicit_weights(case, spec, inputs, state)
    x, y, gamma, dt = (jnp.asarray(v) for v in (case.x[:, 0], case.y[:, 0], case.richness, case.dt))
    theta = [jnp.asarray(w) for w in (weights.first[0], weights.hidden[0][0], weights.readout[0, 0])]

    def output(theta):
        h1 = x @ theta[0].T / jnp.sqrt(x.shape[1])
        h2 = jnp.tanh(h1) @ theta[1].T / jnp.sqrt(WIDTH)
        return jnp.tanh(h2) @ theta[2] / (gamma * WIDTH)

    at_start = output(theta)
    gradient = jax.jit(jax.grad(lambda theta: 0.5 * jnp.sum((output(theta) - at_start - y) ** 2)))
    got = engine_run(problem, spec, inputs, state)["f"][:, :, 0]
    for t in range(STEPS + 1):
        np.testing.assert_allclose(got[t], output(theta) - at_start, atol=1e-10)
        theta = [w - dt * gamma**2 * WIDTH * g for w, g in zip(theta, gradient(theta), strict=True)]


def test_ab2_is_second_order():
    """Halving dt divides the error of Adams–Bashforth by about 4, of Euler by about 2 (gradient flow at t = 1).

    Measured on the reference, which the program equals at any dt.
    """
    problem = make_problem("gd")
    spec, inputs, state = start(problem)
    weights = explicit_weights(make_case(problem), spec, inputs, state)
    finals = {}
    for ab2, steps in ((False, 32), (False, 64), (True, 32), (True, 64), (True, 512)):
        case = dataclasses.replace(make_case(problem), steps=steps, dt=1.0 / steps, ab2=ab2)
        finals[ab2, steps] = train(case, weights)["f"][-1]
    exact = finals[True, 512]
    euler, second = (
        np.linalg.norm(finals[ab2, 32] - exact) / np.linalg.norm(finals[ab2, 64] - exact) for ab2 in (False, True)
    )
    assert 1.8 < euler < 2.2
    assert 3.5 < second < 4.5
