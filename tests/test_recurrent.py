"""Recurrent networks: the engine against plain loops over frames, and theory against networks."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recurrent import Case, train

import widefield as wf
from widefield.engine.interpretation import Interpretation, initialise
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.program import step
from widefield.engine.state import Inputs, Spec, State
from widefield.observables import DEFAULT_KERNELS as KERNELS

WIDTH, POINTS, FRAMES, STEPS = 7, 3, 3, 3
TOLERANCE = 1e-10
SLOW = pytest.mark.slow

REFERENCE = {
    wf.rules.GD: lambda rule: {"feedback": "transposed"},
    wf.rules.FA: lambda rule: {"feedback": "fixed", "rho": rule.rho},
    wf.rules.DFA: lambda rule: {"feedback": "direct"},
    wf.rules.GLN: lambda rule: {"feedback": "transposed"},
    wf.rules.Hebb: lambda rule: {"feedback": "none", "output": "error_phi"},
    wf.rules.TraditionalHebb: lambda rule: {"feedback": "none", "output": "phi", "error": "one"},
    wf.rules.SignedHebb: lambda rule: {"feedback": "none", "output": "phi"},
    wf.rules.DRTP: lambda rule: {"feedback": "direct", "error": "target"},
    wf.rules.KolenPollack: lambda rule: {"feedback": "follows", "rho": rule.rho},
    wf.rules.SignSymmetric: lambda rule: {"feedback": "signs"},
    wf.rules.WeightMirror: lambda rule: {"feedback": "mirror", "rho": rule.rho, "rate": rule.rate},
    wf.rules.ReadoutOnly: lambda rule: {"feedback": "none", "output": "zero"},
}
RULES = [
    wf.rules.GD(), wf.rules.FA(0.6), wf.rules.FA(0.0), wf.rules.DFA(), wf.rules.GLN(), wf.rules.Hebb(),
    wf.rules.TraditionalHebb(), wf.rules.SignedHebb(), wf.rules.DRTP(), wf.rules.KolenPollack(0.3),
    wf.rules.SignSymmetric(), wf.rules.WeightMirror(1.5, 0.4), wf.rules.ReadoutOnly(),
]  # fmt: skip


def make_problem(
    rule="gd", readout="last", leak=1.0, gain=1.0, outputs=1, masked=False, targets="gaussian", activation="tanh",
    points=POINTS, frames=FRAMES, dimension=2, richness=0.8, seed=3, **training,
) -> wf.Problem:  # fmt: skip
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((points, frames, dimension))
    y = rng.standard_normal((points, frames, outputs))
    if targets == "signs":
        y = np.sign(y)
    elif targets == "one_hot":
        y = np.eye(outputs)[rng.integers(outputs, size=(points, frames))]
    if masked:
        y[0, 0], y[-1, 1:] = np.nan, np.nan
    y = y if readout == "every" else y[:, 0]
    return wf.Problem(
        data=wf.Dataset(x, y if outputs > 1 else y[..., 0]),
        network=wf.RNN(activation, leak=leak, readout=readout, gain=gain),
        rule=rule,
        richness=richness,
        training=wf.Training(**{"steps": STEPS, "dt": 0.3, **training}),
    )


def start(problem: wf.Problem, record=KERNELS) -> tuple[Spec, Inputs, State]:
    spec, inputs = prepare(problem, make_recording(problem, record, 1, 1), "float64")
    state = initialise(
        spec, Interpretation("dense", WIDTH), inputs, jax.random.key(0), jnp.zeros((spec.populations, 0, WIDTH))
    )
    return spec, inputs, state


def make_case(problem: wf.Problem, spec: Spec, inputs: Inputs, state: State) -> Case:
    """The engine's initial state as plain weights; U back from the coordinates of the inputs' span."""
    data, network, training = problem.data, problem.network, problem.training
    assert isinstance(network, wf.RNN)
    rows = np.moveaxis(data.all_x, 1, 0).reshape(-1, data.x.shape[-1]) / np.sqrt(data.x.shape[-1])
    back = np.linalg.pinv(np.asarray(inputs.x).reshape(len(rows), -1)) @ rows
    points, root = data.points, np.sqrt(WIDTH)

    def square(matrix) -> np.ndarray | None:
        return None if matrix is None else np.asarray(matrix.weights).T * root

    def vector(value) -> np.ndarray | None:
        return None if value is None else np.asarray(value)[:, 0]

    gates = None
    if state.gates[0] is not None:
        gates = np.stack([np.asarray(gate)[:points, 0] for gate in state.gates], axis=1)
    w, tilde = square(state.matrices[0]), square(state.feedbacks[0])
    readout = vector(state.readout)
    assert w is not None
    assert readout is not None
    size, rng = training.batch_size, np.random.default_rng(training.batch_seed)
    line: list[int] = []
    while len(line) < size * training.steps:
        line += list(rng.permutation(points))
    return Case(
        x=data.x, y=problem.targets, every=network.readout == "every", leak=network.leak,
        u=(back.T @ np.asarray(state.inputs)).T, w=w, readout=readout,
        w_tilde=None if tilde is None else network.gain * tilde, readout_tilde=vector(state.readout_feedback),
        direct=vector(state.direct[0]), gates=gates, richness=problem.richness, dt=training.dt, steps=training.steps,
        activation=network.activation.name, loss=training.loss.name, decay=training.weight_decay,
        momentum=training.momentum, ab2=training.integrator == "ab2",
        batches=tuple(tuple(line[t * size : (t + 1) * size]) for t in range(training.steps)) if size else (),
        **REFERENCE[type(problem.rule)](problem.rule),
    )  # fmt: skip


def engine_run(problem: wf.Problem, spec: Spec, inputs: Inputs, state: State, record=KERNELS) -> dict[str, np.ndarray]:
    recording = make_recording(problem, record, 1, 1)
    one = partial(step, spec, inputs)  # not compiled: a compilation per case would cost more than the few steps
    kept = []
    for _ in range(problem.training.steps + 1):
        state, fields = one(state)
        kept.append(recording.measure(spec, inputs, fields))
    return {name: np.stack([np.asarray(one[name]) for one in kept]) for name in kept[0]}


def check_against_loop(problem: wf.Problem, record=KERNELS) -> None:
    spec, inputs, state = start(problem, record)
    expected = train(make_case(problem, spec, inputs, state))
    found = engine_run(problem, spec, inputs, state, record)
    times = problem.training.steps + 1
    for name, value in found.items():
        wanted = expected[name]
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(value.reshape(times, -1), wanted.reshape(times, -1), atol=TOLERANCE * scale)
    assert np.abs(expected["f"][-1]).max() > 1e-3, "nothing was learnt"


# Networks against a plain loop


@pytest.mark.parametrize(
    ("readout", "leak"),
    [("last", 1.0), ("every", 0.5), pytest.param("last", 0.5, marks=SLOW), pytest.param("every", 1.0, marks=SLOW)],
)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_networks_are_the_plain_loop(rule, readout, leak):
    check_against_loop(make_problem(rule, readout, leak, gain=1.3))


OPTIONS = {
    "classes": {"outputs": 2},
    "cross entropy": {"outputs": 2, "targets": "one_hot", "loss": "cross_entropy"},
    "logistic": {"targets": "signs", "loss": "logistic"},
    "decay": {"weight_decay": 0.2},
    "momentum": {"momentum": 0.9},
    "ab2": {"integrator": "ab2"},
    "batches": {"batch_size": 2},
    "relu": {"activation": "relu"},
}


@pytest.mark.parametrize("rule", [wf.rules.GD(), wf.rules.KolenPollack(0.3)], ids=repr)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_training_options(options, rule):
    check_against_loop(make_problem(rule, "every", 0.5, **options))


@pytest.mark.parametrize("rule", [wf.rules.GD(), wf.rules.DRTP(), wf.rules.TraditionalHebb(), wf.rules.DFA()], ids=repr)
def test_frames_without_a_target_do_not_teach(rule):
    check_against_loop(make_problem(rule, "every", 0.5, outputs=2, masked=True))


@pytest.mark.parametrize("rule", [wf.rules.GD(), wf.rules.FA(0.6), wf.rules.DFA()], ids=repr)
def test_networks_do_not_depend_on_what_is_recorded(rule):
    """Without gradient kernels all outputs of all frames share one backward sweep."""
    check_against_loop(make_problem(rule, "every", 0.5, outputs=2, masked=True), record=("phi",))


@pytest.mark.parametrize("readout", ["last", "every"])
def test_gd_is_the_gradient_of_the_unrolled_network(readout):
    problem = make_problem("gd", readout, 0.6, gain=1.2)
    spec, inputs, state = start(problem)
    case = make_case(problem, spec, inputs, state)

    def outputs(weights) -> jax.Array:
        u, w, readout = weights
        h = jnp.zeros((POINTS, WIDTH))
        out, found = jnp.zeros((POINTS, WIDTH)), []
        for t in range(FRAMES):
            drive = case.x[:, t] @ u.T / np.sqrt(case.x.shape[-1]) + out @ w.T / np.sqrt(WIDTH)
            h = 0.4 * h + 0.6 * drive
            out = jnp.tanh(h)
            found.append(out @ readout.T)
        kept = found if readout_every else found[-1:]
        return jnp.stack(kept, axis=1) / (problem.richness * WIDTH)

    readout_every = readout == "every"
    weights = tuple(jnp.asarray(array) for array in (case.u, case.w, case.readout))
    first = outputs(weights)
    # Learning rates of the notation: f moves by dt·γ₀²N·(gradient), for every weight alike.
    rate = problem.training.dt * problem.richness**2 * WIDTH

    def loss(weights) -> jax.Array:
        return 0.5 * jnp.sum((outputs(weights) - first - case.y) ** 2)

    found = engine_run(problem, spec, inputs, state)["f"].reshape(STEPS + 1, -1)
    for number in range(STEPS + 1):
        np.testing.assert_allclose(found[number], np.ravel(outputs(weights) - first), atol=TOLERANCE)
        weights = jax.tree.map(lambda a, b: a - rate * b, weights, jax.grad(loss)(weights))
