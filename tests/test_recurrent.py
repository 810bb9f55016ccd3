"""Recurrent networks: the engine against plain loops over frames, and theory against networks."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreement import alarm, runs_of, wide_networks
from recurrent import Case, train

import widefield as wf
from widefield.engine import backward
from widefield.engine.capacity import first_room
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
    wf.rules.RFLO: lambda rule: {"feedback": "direct"},
    wf.rules.EProp: lambda rule: {"feedback": "readout" if rule.symmetric else "direct"},
    wf.rules.TruncatedBPTT: lambda rule: {"feedback": "transposed", "reach": rule.frames},
}
RULES = [
    wf.rules.GD(), wf.rules.FA(0.6), wf.rules.FA(0.0), wf.rules.DFA(), wf.rules.GLN(), wf.rules.Hebb(),
    wf.rules.TraditionalHebb(), wf.rules.SignedHebb(), wf.rules.DRTP(), wf.rules.KolenPollack(0.3),
    wf.rules.SignSymmetric(), wf.rules.WeightMirror(1.5, 0.4), wf.rules.ReadoutOnly(),
    wf.rules.RFLO(), wf.rules.EProp(), wf.rules.EProp(False), wf.rules.TruncatedBPTT(1), wf.rules.TruncatedBPTT(2),
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
    state = initialise(spec, Interpretation("dense", WIDTH), inputs, jax.random.key(0), [])
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
        weights = np.asarray(state.gates[0])
        gates = np.stack([np.asarray(x)[:points] @ weights for x in inputs.x], axis=1)
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


@pytest.mark.parametrize(
    ("rule", "readout"),
    [
        (wf.rules.TruncatedBPTT(2), "every"),
        (wf.rules.FA(0.6), "last"),
        *[pytest.param(rule, readout, marks=SLOW) for rule in RULES for readout in ("last", "every")],
    ],
    ids=repr,
)
def test_frames_compiled_as_a_loop_are_the_plain_loop(rule, readout, monkeypatch):
    monkeypatch.setattr(backward, "UNROLLED", 2)
    check_against_loop(make_problem(rule, readout, 0.5, gain=1.3, frames=4, outputs=2))


# A feed-forward network written as a recurrent one


def one_input(frames: int, activation: str, rule="gd", seed: int = 5) -> tuple[wf.Problem, wf.Problem]:
    """A recurrent network whose input comes at frame 1 only, and the MLP of depth T with the same data."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((3, 4)), rng.standard_normal(3)
    sequence = np.concatenate([x[:, None], np.zeros((3, frames - 1, 4))], axis=1)
    training = wf.Training(steps=4, dt=0.2)
    recurrent = wf.Problem(wf.Dataset(sequence, y), wf.RNN(activation), rule, 1.0, training)
    return recurrent, wf.Problem(wf.Dataset(x, y), wf.MLP(frames, activation), rule, 1.0, training)


@pytest.mark.parametrize("rule", [wf.rules.GD(), wf.rules.FA(0.6), wf.rules.Hebb()], ids=repr)
def test_two_frames_with_one_input_are_an_mlp_of_depth_two(rule):
    """W is asked once in a pass: layers 1 and 2 are the two frames. Direct feedback is left out, where an MLP has a
    vector per layer and a recurrent network one for all frames."""
    recurrent, layered = one_input(2, "tanh", rule)
    spec, inputs, state = start(recurrent)
    other_spec, other_inputs, other = start(layered)
    # The engine's own MLP with the same weights, which reference.py judges.
    coordinates = np.linalg.lstsq(np.asarray(other_inputs.x[0]), np.asarray(inputs.x[0]), rcond=None)[0]
    other = dataclasses.replace(
        other, inputs=jnp.asarray(coordinates) @ state.inputs, matrices=state.matrices, feedbacks=state.feedbacks,
        readout=state.readout, readout_initial=state.readout_initial, readout_feedback=state.readout_feedback,
    )  # fmt: skip
    a = engine_run(recurrent, spec, inputs, state)
    b = engine_run(layered, other_spec, other_inputs, other)
    for name in ("f", "entk"):
        np.testing.assert_allclose(a[name], b[name], atol=TOLERANCE)
    for frame in range(2):
        for name in ("phi", "g_tilde"):
            np.testing.assert_allclose(a[name][:, 0, :, :, frame, frame], b[name][:, frame], atol=TOLERANCE)


def test_three_frames_with_one_input_and_an_odd_activation_are_an_mlp_of_depth_three():
    """Fields of different frames are independent at the start, and with an odd φ ⟨φ_t φ_s⟩ stays 0 for t ≠ s: at
    infinite width it is not felt that the weights are shared."""
    pair = one_input(3, "linear")
    a, b = (wf.solve(problem, samples=256, seeds=2, record=("phi",), progress=False) for problem in pair)
    np.testing.assert_allclose(a["f"], b["f"], atol=1e-8)
    np.testing.assert_allclose(a["phi"].values[:, 0, :, :, 0, 1], 0, atol=1e-8)


@pytest.mark.slow
def test_shared_weights_are_felt_where_the_activation_is_not_odd():
    """With ReLU ⟨φ_t φ_s⟩ is not 0. Twelve entries of f; equal means would be 4 errors apart in 1 of 60 keys."""
    pair = one_input(3, "relu")
    a, b = (wf.solve(problem, samples=2048, seeds=8, record=("phi",), progress=False) for problem in pair)
    error = np.hypot(a["f_se"].values, b["f_se"].values)[1:]
    assert (np.abs(a["f"].values - b["f"].values)[1:] / error).max() > 4


# Infinite width


DISTINCT = [rule for rule in RULES if rule not in (wf.rules.ReadoutOnly(), wf.rules.RFLO(), wf.rules.EProp(False))]
AGREE = [
    (wf.rules.GD(), "every", 0.5, 1.5),
    (wf.rules.DFA(), "last", 0.5, 1.5),
    *[(rule, "last", 1.0, 0.8) for rule in DISTINCT],
    *[(rule, "every", 0.5, 1.5) for rule in DISTINCT[1:]],
]


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "readout", "leak", "gain"), AGREE, ids=repr)
def test_theory_is_the_limit_of_wide_networks(rule, readout, leak, gain):
    """False alarm in less than 1 of 1000 keys; measured error bars of networks are 0.5 % of f and 1.5 % of K."""
    # Gated linear neurons have no bound: some networks of width 100 explode with the larger step.
    dt = 0.1 if isinstance(rule, wf.rules.GLN) else 0.4
    problem = make_problem(rule, readout, leak, gain, points=2, richness=1.5, steps=5, dt=dt)
    networks = wide_networks(problem, 600)
    theory = wf.solve(problem, samples=2048, seeds=12, record=KERNELS, progress=False)
    runs = {name: values.reshape(len(values), -1) for name, values in runs_of(theory).items() if name in networks}
    where, chance = alarm(runs, {name: values.reshape(len(values), -1) for name, values in networks.items()})
    assert chance > 1e-3, where


def law(problem: wf.Problem, kind: str, seed: int, seeds: int = 3000, width: int = 14) -> dict[str, np.ndarray]:
    """f, K and Φ of many networks of tiny width, (seeds, entries)."""
    recording = make_recording(problem, ("entk", "phi"), 1, 1)
    spec, inputs = prepare(problem, recording, "float64", 1e-6)
    interpretation = Interpretation(kind, width)
    rows = problem.data.points * FRAMES * (problem.training.steps + 1)
    room = first_room(interpretation, spec, rows, inputs.x.shape[-1], (float(inputs.tolerance),) * 2)
    interpretation = dataclasses.replace(interpretation, room=room)

    def one(key: jax.Array) -> dict[str, jax.Array]:
        state = initialise(spec, interpretation, inputs, key, [])

        def advance(state, _):
            state, fields = step(spec, inputs, state)
            return state, recording.measure(spec, inputs, fields)

        return jax.lax.scan(advance, state, None, length=problem.training.steps + 1)[1]

    arrays = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), seeds))
    return {name: np.asarray(value).reshape(seeds, -1) for name, value in arrays.items()}


@pytest.mark.parametrize(
    ("rule", "readout"),
    [(RULES[0], "last"), *[pytest.param(RULES[k], "every", marks=SLOW) for k in (0, 1, 3, 5)]],
    ids=repr,
)
def test_conditioned_has_the_law_of_dense(rule, readout):
    """The largest of some 100 correlated z-scores: beyond 5 by chance less than once in 10⁴ tests."""
    problem = make_problem(rule, readout, 0.5, 1.5, points=2, richness=2.0, steps=1, dt=0.8)
    dense, conditioned = law(problem, "dense", 1), law(problem, "conditioned", 2)
    for name in dense:
        a, b = dense[name], conditioned[name]
        moving = (a.std(0) > 1e-12) & (b.std(0) > 1e-12)
        for left, right in ((a, b), ((a - a.mean(0)) ** 2, (b - b.mean(0)) ** 2)):
            gap = left.mean(0) - right.mean(0)
            error = np.hypot(left.std(0), right.std(0)) / np.sqrt(len(left))
            assert np.abs(gap[moving] / error[moving]).max() < 5, name


# What a user writes, and reads

X = np.random.default_rng(0).standard_normal((3, 4, 2))
TARGETS = np.ones((3, 4))
HOLES = np.where(np.arange(4) == 2, TARGETS, np.nan)


def ask(x=X, y=TARGETS, readout="every", rule="gd", y_test=None, **options) -> wf.Problem:
    data = wf.Dataset(x, y) if y_test is None else wf.Dataset(x, y, x, y_test)
    return wf.Problem(data, wf.RNN(readout=readout, **options), rule, 1.0, wf.Training(2, 0.1))


WRONG = {
    "x without frames": (lambda: ask(x=X[:, 0]), ["x is", "(3, 2)", "(P, T, D)"]),
    "no frames": (lambda: ask(x=X[:, :0]), ["x is", "(3, 0, 2)"]),
    "targets without frames": (lambda: ask(y=TARGETS[:, 0]), ["y is", "(3,)", "(P, T)", "T = 4"]),
    "targets of other frames": (lambda: ask(y=TARGETS[:, :3]), ["y is", "(3, 3)", "T = 4"]),
    "targets at every frame": (lambda: ask(y=np.ones((3, 4, 2)), readout="last"), ["y is", "(3, 4, 2)", "(P, C)"]),
    "leak 0": (lambda: ask(leak=0.0), ["leak is 0.0", "(0, 1]"]),
    "leak above 1": (lambda: ask(leak=1.5), ["leak is 1.5", "(0, 1]"]),
    "gain below 0": (lambda: ask(gain=-1.0), ["gain is -1.0", "0 or more"]),
    "signs of nothing": (
        lambda: wf.Problem(wf.Dataset(X, np.ones(3)), wf.RNN(gain=0), "sign_symmetric", 1.0, wf.Training(1, 0.1)),
        ["gain is 0", "SignSymmetric"],
    ),
    "readout": (lambda: ask(readout="first"), ["readout is 'first'", "last, every"]),
    "readout weights for hidden layers": (
        lambda: wf.Problem(wf.Dataset(X[0], X[0, :, 0]), wf.MLP(2), "eprop", 1.0, wf.Training(1, 0.1)),
        ["rule is EProp", "hidden layer 1"],
    ),
    "no frames to go back": (lambda: wf.rules.TruncatedBPTT(0), ["frames is 0"]),
    "several rules": (lambda: ask(rule=wf.rules.Mixture(("gd", "dfa"))), ["rules", "one per hidden layer"]),
    "a hole with readout last": (lambda: ask(y=HOLES, readout="last"), ["y is 'nan at index (0, 0)'", "finite"]),
    "half a hole": (lambda: ask(y=np.stack([TARGETS, HOLES], -1)), ["y is", "in all outputs of a frame"]),
    "nothing but holes": (lambda: ask(y=TARGETS * np.nan), ["y is 'nan everywhere'", "a target"]),
    "infinite targets": (lambda: ask(y=TARGETS * np.inf), ["y is inf", "finite"]),
    "linear": (lambda: wf.solve(ask(), method="linear"), ["activation is", "'linear'"]),
    "two-time of linear": (lambda: wf.solve(ask(activation="linear"), "linear", two_time=1), ["two_time is", "False"]),
    "fixed point": (lambda: wf.solve(ask(), method="fixed_point"), ["network is", "fixed_point"]),
    "two-time": (lambda: wf.solve(ask(), two_time=1), ["two_time is 1", "recurrent"]),
}  # fmt: skip


def check_refused(make, words):
    with pytest.raises(wf.errors.InputError) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused(case):
    check_refused(*case)


def test_exploding_dynamics_name_step_and_frame():
    problem = wf.Problem(wf.Dataset(X, np.ones(3)), wf.RNN("relu", gain=1e150), "gd", 1.0, wf.Training(2, 0.1))
    with pytest.raises(wf.errors.DivergenceError, match="diverged at step 0, frame 3 of 4"):
        wf.simulate(problem, 10, 1, record=("phi",), progress=False)


def test_results_have_frames(tmp_path):
    problem = ask(y=HOLES, y_test=HOLES, leak=0.5)
    result = wf.simulate(problem, 20, 2, record=(*KERNELS, "h_particles", "z_particles"), neurons=5, progress=False)
    frames = ("frame", "frame_")
    assert result["f"].dims == result["delta"].dims == ("time", "sample", "frame")
    assert result["phi"].dims == ("time", "layer", "sample", "sample_", *frames)
    assert result["g_tilde"].dims == ("time", "layer", "sample", "sample_", *frames, "read", "read_")
    assert result["entk"].dims == ("time", "sample", "sample_", *frames)
    assert result["gradient_cosine"].dims == ("time", "layer", "frame", "read")
    assert result["h_particles"].dims == ("time", "layer", "sample", "frame", "neuron")
    np.testing.assert_array_equal(result["frame"], [1, 2, 3, 4])
    # Gradients of earlier outputs do not reach later frames, and GD's are the true ones.
    cosine = result["gradient_cosine"].values[-1, 0]
    np.testing.assert_allclose(cosine, np.triu(np.ones((4, 4))), atol=1e-12)
    # Frames without a target have no error, and loss and K count the others only.
    assert np.all(result["delta"].values[:, :, [0, 1, 3]] == 0)
    expected = 0.5 * ((result.replicates["f"].values[:, :, :, 2] - 1) ** 2).sum(-1)
    np.testing.assert_allclose(result.replicates["loss"].values, expected, rtol=1e-12)
    np.testing.assert_allclose(result["f_test"], result["f"], atol=1e-12)
    assert np.all(result["accuracy"].values[-1] > 0.5)
    kernel = result.replicates["entk"].values[:, :, :, :, 2, 2]
    aligned = kernel.sum((-2, -1)) / np.sqrt((kernel**2).sum((-2, -1))) / 3
    np.testing.assert_allclose(result.replicates["entk_alignment"], aligned, rtol=1e-12)
    # Trajectories of single neurons make up the kernels.
    h = result["h_particles"].values
    assert h.shape == (3, 1, 3, 4, 10)
    assert np.all(result["z_particles"].values[:, :, :, -1] != 0)
    result.save(tmp_path / "recurrent.nc")
    again = wf.load(tmp_path / "recurrent.nc")
    assert again.problem == problem
    np.testing.assert_array_equal(again.problem.data.y, HOLES)
    assert "RNN" in repr(again)
    result.plot()
