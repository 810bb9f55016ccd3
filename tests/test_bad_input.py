"""Everything a user can get wrong is answered with one line that names the argument and what is allowed."""

import numpy as np
import pytest
from typer.testing import CliRunner

import widefield as wf
from widefield.cli.app import app
from widefield.errors import DivergenceError, InputError

X, Y = np.ones((3, 2)), np.array([1.0, -1.0, 1.0])
DATA = wf.Dataset(X, Y)
TRAINING = wf.Training(steps=2, dt=0.1)


def ask(data=DATA, network=None, rule="gd", richness=1.0, training=TRAINING):
    return wf.Problem(data, network or wf.MLP(depth=1), rule, richness, training)


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
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_answered_in_one_line(case):
    call, says = BAD[case]
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
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


def test_a_diverging_run_names_the_step_and_the_remedy():
    problem = ask(rule="hebb", richness=2.0, training=wf.Training(steps=60, dt=1.0), network=wf.MLP(1, "linear"))
    for run in (lambda: wf.simulate(problem, width=20, seeds=2), lambda: wf.solve(problem, samples=256, seeds=2)):
        with pytest.raises(DivergenceError, match=r"at step \d+.*lower dt"):
            run()


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
