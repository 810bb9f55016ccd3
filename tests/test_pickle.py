"""What describes a problem can be pickled, copied and compared, also from one process to another."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.errors import InputError
from widefield.problem.activations import ACTIVATIONS, RELU, Activation, as_activation
from widefield.problem.losses import LOSSES, Loss, as_loss
from widefield.solvers.lazy.closed_forms import CLOSED_FORMS

ROOT = Path(__file__).parent.parent
DATA = wf.Dataset([[1.0, -0.0], [0.0, 2.0]], [1.0, -1.0], [[3.0, 4.0]], [1.0])


def sine(h):
    return jnp.sin(h)


@jax.jit
def compiled(h):
    return jnp.sin(h) + h


def cubic(f, y):
    return jnp.abs(f - y) ** 3


@jax.jit
def compiled_loss(f, y):
    return (f - y) ** 2


def twice(h):
    return 2.0 * jnp.ones_like(h)


# With a derivative that is not that of automatic differentiation, under a name of its own or of something else.
OWN = [Activation(name, sine, twice) for name in ("own", "relu", f"{__name__}:sine")]
REFERRED = Activation(f"{__name__}:REFERRED", compiled, twice)
OWN_LOSSES = [Loss(name, cubic) for name in ("own", "squared", f"{__name__}:cubic")]

OBJECTS = {
    **{name: kind((wf.rules.FA(0.5), "dfa")) if name == "mixture" else kind() for name, kind in wf.rules.RULES.items()},
    **ACTIVATIONS,
    **LOSSES,
    "module-level activation": as_activation(sine),
    "activation compiled by JAX": as_activation(compiled),
    "activation of JAX": as_activation(jnp.sin),
    "activation from JAX's neural networks": as_activation(jax.nn.silu),
    **{f"own {activation}": activation for activation in OWN},
    "own activation by reference": REFERRED,
    "module-level loss": as_loss(cubic),
    "loss compiled by JAX": as_loss(compiled_loss),
    **{f"own {loss}": loss for loss in OWN_LOSSES},
    "data": DATA,
    "data without test points": wf.Dataset(DATA.x, DATA.y),
    "training": wf.Training(steps=3, dt=0.1, loss=cubic),
    "mlp": wf.MLP(2, sine, residual=True),
    "cnn": wf.CNN(1, 3, "gelu", "zero", "pool"),
}
PROBLEMS = [
    wf.Problem(DATA, wf.MLP(2, activation), rule, 0.5, wf.Training(steps=3, dt=0.1, loss=loss))
    for activation, rule, loss in (("relu", "gd", "squared"), (compiled, wf.rules.Mixture(("fa", "hebb")), cubic))
]
OBJECTS |= {f"problem {number}": problem for number, problem in enumerate(PROBLEMS)}


@pytest.mark.parametrize("name", OBJECTS)
def test_pickles_and_copies_are_equal(name):
    value = OBJECTS[name]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(value, protocol))
        assert type(back) is type(value)
        assert back == value
        assert hash(back) == hash(value)
    for copied in (copy.copy(value), copy.deepcopy(value)):
        assert copied == value
        assert hash(copied) == hash(value)


def test_round_trip_through_another_process():
    code = """
import pickle, sys
objects = pickle.load(sys.stdin.buffer)
import test_pickle
assert objects == test_pickle.OBJECTS, [name for name in objects if objects[name] != test_pickle.OBJECTS[name]]
assert not objects["data"].x.flags.writeable
pickle.dump(objects, sys.stdout.buffer)
"""
    path = os.pathsep.join([str(Path(wf.__file__).parent.parent), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(OBJECTS),
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert pickle.loads(done.stdout) == OBJECTS


@pytest.mark.parametrize("again", [lambda data: pickle.loads(pickle.dumps(data)), copy.copy, copy.deepcopy])
def test_data_stay_read_only_to_the_last_bit(again):
    back = again(DATA)
    for name in ("x", "y", "x_test", "y_test"):
        array = getattr(back, name)
        assert not array.flags.writeable
        assert array.tobytes() == getattr(DATA, name).tobytes()
    assert not again(PROBLEMS[0]).data.x.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        back.x[0, 0] = 5.0


def test_equal_data_have_equal_hashes():
    zeros = wf.Dataset(np.abs(DATA.x), DATA.y, DATA.x_test, DATA.y_test)
    assert zeros == DATA  # −0.0 equals 0.0
    assert hash(zeros) == hash(DATA)
    assert wf.Dataset(DATA.x, DATA.y) != DATA


@pytest.mark.parametrize("problem", PROBLEMS)
def test_copies_are_written_and_read_back(problem):
    for copied in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert copied.to_toml() == problem.to_toml()
        assert wf.Problem.from_toml(copied.to_toml()) == problem


def test_the_same_function_is_the_same_activation():
    assert wf.MLP(1, sine) == wf.MLP(1, sine)
    assert hash(as_activation(sine)) == hash(as_activation(sine))  # no second compilation
    assert as_activation(sine) != as_activation(compiled)
    assert as_loss(cubic) == as_loss(cubic)
    first, second = (lambda h: h**3), (lambda h: h**3)
    assert as_activation(first) != as_activation(second)


def test_closed_forms_know_a_copy():
    assert pickle.loads(pickle.dumps(RELU)) in CLOSED_FORMS
    assert Activation("relu", RELU.phi, RELU.phi_dot) in CLOSED_FORMS


def test_a_name_does_not_make_it_the_built_in_one(problem):
    cube = Activation("linear", lambda h: h**3, lambda h: 3 * h**2)
    assert cube != ACTIVATIONS["linear"]
    with pytest.raises(InputError, match="activation is linear"):
        wf.solve(wf.Problem(problem.data, wf.MLP(1, cube), "gd", 1.0, problem.training), "linear")
    quartic = Loss("squared", lambda f, y: jnp.sum((f - y) ** 4, axis=-1))
    assert quartic != LOSSES["squared"]
    training = wf.Training(steps=1, dt=0.1, loss=quartic)
    mine = wf.Problem(problem.data, wf.MLP(1, "relu"), "gd", 1.0, training)
    assert wf.lazy.predict(mine, [0.1]).info["prediction"] == "integrator"


def test_what_python_cannot_pickle_is_left_to_picklers_that_can():
    mine = as_activation(lambda h: h**3)
    for one in (mine, as_activation(jax.jit(lambda h: h**3)), as_loss(jax.jit(lambda f, y: (f - y) ** 2))):
        assert copy.deepcopy(one) == one
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(mine)
    cloudpickle = pytest.importorskip("cloudpickle")
    back = pickle.loads(cloudpickle.dumps(mine))
    assert back.name == mine.name
    np.testing.assert_array_equal(back.phi_dot(jnp.arange(3.0)), mine.phi_dot(jnp.arange(3.0)))


def test_what_cannot_be_hashed_is_refused():
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, h):
            return h

    with pytest.raises(InputError, match=r"activation.*hash"):
        as_activation(Unhashable())
    with pytest.raises(InputError, match=r"loss.*hash"):
        as_loss(Unhashable())  # type: ignore[arg-type]
