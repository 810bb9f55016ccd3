import sys
import textwrap
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import widefield as wf
from widefield.errors import InputError, ResultFileError
from widefield.problem.activations import Activation
from widefield.problem.toml import split_header
from widefield.rules import Site

FINITE = st.floats(-1e50, 1e50)


@dataclass(frozen=True)
class Mixed(wf.rules.Rule):
    """A rule of our own that holds other rules and a tuple."""

    first: wf.rules.Rule = field(default_factory=wf.rules.GD)
    shares: tuple[float, ...] = (0.1, 0.2)
    feedback: ClassVar[wf.rules.Feedback] = wf.rules.Silent()

    def local(self, site):
        return site.phi


def sine(h):
    return jnp.sin(h)


def cubic(f, y):
    return jnp.abs(f - y) ** 3


@st.composite
def problems(draw):
    points, outputs = draw(st.integers(1, 3)), draw(st.sampled_from([None, 1, 2]))
    convolutional = draw(st.booleans())
    shape = (draw(st.integers(1, 3)), 2) if convolutional else (draw(st.integers(1, 3)),)
    target = () if outputs is None else (outputs,)
    tests = draw(st.sampled_from([None, 1, 2]))
    data = {
        "x": draw(arrays(np.float64, (points, *shape), elements=FINITE)),
        "y": draw(arrays(np.float64, (points, *target), elements=FINITE)),
    }
    if tests:
        data["x_test"] = draw(arrays(np.float64, (tests, *shape), elements=FINITE))
        if draw(st.booleans()):
            data["y_test"] = draw(arrays(np.float64, (tests, *target), elements=FINITE))
    activation = draw(st.sampled_from(["relu", "tanh", "erf", "linear", "gelu", "softplus"]))
    depth = draw(st.integers(1, 4))
    mlp = wf.MLP(depth, activation, residual=draw(st.booleans()))
    cnn = wf.CNN(depth, draw(st.sampled_from([1, 3])), activation, draw(st.sampled_from(["circular", "zero"])), "pool")
    rho = draw(st.floats(-1, 1))
    own = Mixed(first=wf.rules.FA(rho), shares=(rho, 1.0))
    rule = draw(
        st.sampled_from([wf.rules.GD(), wf.rules.FA(rho), wf.rules.DFA(), wf.rules.GLN(), wf.rules.Hebb(), own])
    )
    positive = st.floats(0, exclude_min=True, allow_infinity=False)
    training = wf.Training(
        steps=draw(st.integers(1, 10**6)), dt=draw(positive), weight_decay=draw(positive), momentum=draw(positive)
    )
    return wf.Problem(wf.Dataset(**data), cnn if convolutional else mlp, rule, draw(positive), training)


@given(problem=problems())
@settings(deadline=None)
def test_round_trip_is_exact_to_the_last_bit(problem):
    text = problem.to_toml()
    back = wf.Problem.from_toml(text)
    assert back == problem
    for name in ("x", "y", "x_test", "y_test"):
        before, after = getattr(problem.data, name), getattr(back.data, name)
        # Bytes, because -0.0 equals 0.0.
        assert (before is None and after is None) or before.tobytes() == after.tobytes()
    assert back.to_toml() == text
    header, data = split_header(text)
    assert "data" not in tomllib.loads(header)
    assert set(tomllib.loads(data)) <= {"x", "y", "x_test", "y_test"}


def test_file_round_trip_and_npz_next_to_the_file(tmp_path, problem, monkeypatch):
    path = tmp_path / "problem.toml"
    text = problem.to_toml(path)
    assert path.read_text(encoding="utf-8") == text
    assert wf.Problem.from_toml(path) == wf.Problem.from_toml(str(path)) == problem
    np.savez(tmp_path / "mine.npz", x=problem.data.x, y=problem.data.y)
    head = text.partition("[data]")[0]
    path.write_text(head + '[data]\nkind = "npz"\npath = "mine.npz"\n', encoding="utf-8")
    monkeypatch.chdir("/")
    assert wf.Problem.from_toml(path).data == wf.Dataset(problem.data.x, problem.data.y)


def test_generators_in_a_file_are_the_functions():
    text = _text(data='kind = "digits"\nclasses = [3, 5]\npoints = 6\nseed = 2')
    assert wf.Problem.from_toml(text).data == wf.datasets.digits((3, 5), 6, 2)


def test_writing_to_a_folder_that_is_not_there_is_an_error(tmp_path, problem):
    with pytest.raises(ResultFileError, match="folder"):
        problem.to_toml(tmp_path / "none" / "problem.toml")


def test_own_activation_and_loss_come_back_by_name(problem):
    mine = wf.Problem(problem.data, wf.MLP(1, sine), problem.rule, 1.0, wf.Training(steps=1, dt=0.1, loss=cubic))
    back = wf.Problem.from_toml(mine.to_toml())
    assert back.network.activation.name == f"{__name__}:sine"
    assert back.training.loss.name == f"{__name__}:cubic"
    np.testing.assert_array_equal(back.network.activation.phi(jnp.arange(3.0)), jnp.sin(jnp.arange(3.0)))
    np.testing.assert_array_equal(back.training.loss.total(jnp.ones((2, 1)), jnp.zeros((2, 1))), 2.0)


def test_a_rule_in_a_file_next_to_the_user_is_found(tmp_path, monkeypatch):
    code = """
    from dataclasses import dataclass
    import jax.numpy as jnp
    import widefield as wf

    @dataclass(frozen=True)
    class SignDFA(wf.rules.Rule):
        scale: float = 1.0
        feedback = wf.rules.Direct()

        def local(self, site):
            return self.scale * site.phi_dot * jnp.sign(site.signal)
    """
    (tmp_path / "my_rules_of_test_toml.py").write_text(textwrap.dedent(code), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    problem = wf.Problem.from_toml(_text(rule='name = "my_rules_of_test_toml:SignDFA"\nscale = 0.5'))
    assert type(problem.rule).__name__ == "SignDFA"
    assert wf.Problem.from_toml(problem.to_toml()) == problem
    with pytest.raises(InputError, match=r"rule\.rho.*scale"):
        wf.Problem.from_toml(_text(rule='name = "my_rules_of_test_toml:SignDFA"\nrho = 0.5'))


BESIDE = """
from dataclasses import dataclass
import jax.numpy as jnp
import widefield as wf
from {module}_more import FACTOR

@dataclass(frozen=True)
class Own(wf.rules.Rule):
    feedback = wf.rules.Direct()

    def local(self, site):
        return FACTOR * site.signal

def bend(h):
    return jnp.tanh(h)

def miss(f, y):
    return (f - y) ** 4
"""


def beside(folder, module, factor):
    """A TOML file with a module of its own beside it, which imports another one there."""
    folder.mkdir()
    (folder / f"{module}.py").write_text(BESIDE.format(module=module), encoding="utf-8")
    (folder / f"{module}_more.py").write_text(f"FACTOR = {factor}", encoding="utf-8")
    text = _text(
        rule=f'name = "{module}:Own"',
        network=f'kind = "mlp"\ndepth = 1\nactivation = "{module}:bend"',
        training=f'steps = 2\ndt = 0.1\nloss = "{module}:miss"',
    )
    (folder / "problem.toml").write_text(text, encoding="utf-8")
    return folder / "problem.toml"


def test_a_module_beside_the_file_is_found_from_anywhere(tmp_path, monkeypatch):
    path = beside(tmp_path / "study", "beside_of_test_toml", 2.0)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    before = list(sys.path)
    problem = wf.Problem.from_toml(Path("..") / "study" / "problem.toml")
    assert problem == wf.Problem.from_toml(path)
    assert sys.path == before
    assert problem.rule.local(Site(*[jnp.ones(())] * 7)) == 2.0
    assert problem.network.activation.name == "beside_of_test_toml:bend"
    assert problem.training.loss.name == "beside_of_test_toml:miss"


def test_a_module_beside_the_file_comes_before_one_in_the_working_directory(tmp_path, monkeypatch):
    path = beside(tmp_path / "study", "first_of_test_toml", 2.0)
    beside(tmp_path / "here", "first_of_test_toml", 3.0)
    monkeypatch.chdir(tmp_path / "here")
    assert wf.Problem.from_toml(path).rule.local(Site(*[jnp.ones(())] * 7)) == 2.0


def test_another_module_of_that_name_is_not_taken_for_it(tmp_path):
    one = beside(tmp_path / "one", "twin_of_test_toml", 2.0)
    other = beside(tmp_path / "other", "twin_of_test_toml", 3.0)
    assert wf.Problem.from_toml(one) == wf.Problem.from_toml(one)
    with pytest.raises(InputError, match=r"other.twin_of_test_toml\.py.*already, from .*one.*name of its own"):
        wf.Problem.from_toml(other)
    # The standard library's module wins over a file of its name only by an error.
    (tmp_path / "one" / "json.py").write_text("Own = 1", encoding="utf-8")
    one.write_text(_text(rule='name = "json:Own"'), encoding="utf-8")
    with pytest.raises(InputError, match=r"rule.*json"):
        wf.Problem.from_toml(one)


def test_modules_beside_a_file_are_not_looked_for_later(tmp_path, monkeypatch):
    path = beside(tmp_path / "study", "later_of_test_toml", 2.0)
    text = path.read_text(encoding="utf-8")
    path.write_text(_text(), encoding="utf-8")
    monkeypatch.chdir("/")
    wf.Problem.from_toml(path)
    for later in (lambda: wf.MLP(1, "later_of_test_toml:bend"), lambda: wf.Problem.from_toml(text)):
        with pytest.raises(InputError, match=r"later_of_test_toml.*cannot be imported"):
            later()


@pytest.mark.parametrize("code", ["def broken(", "1 / 0", "import no_such_module_at_all"])
def test_a_module_of_the_user_that_fails_is_named_in_one_line(tmp_path, monkeypatch, code):
    (tmp_path / "failing_of_test_toml.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"rule.*failing_of_test_toml.*Error") as caught:
        wf.Problem.from_toml(_text(rule='name = "failing_of_test_toml:Rule"'))
    assert "\n" not in str(caught.value)


def test_what_has_no_name_is_written_but_not_read(problem):
    def inner(h):
        return h

    @dataclass(frozen=True)
    class Local(Mixed):
        pass

    def with_(activation="tanh", rule=problem.rule):
        return wf.Problem(problem.data, wf.MLP(1, activation), rule, 1.0, problem.training).to_toml()

    for text in (with_(lambda h: h), with_(inner), with_(rule=Local())):
        with pytest.raises(InputError, match=r"cannot be found by name.*module:Name"):
            wf.Problem.from_toml(text)
    with pytest.raises(InputError, match=r"rule\.shares"):
        wf.Problem.from_toml(with_(rule=Mixed(shares=frozenset({1.0}))))  # type: ignore[arg-type]


def test_own_activation_is_not_mistaken_for_a_built_in_one(problem):
    mine = Activation("relu", lambda h: jnp.maximum(h, 0.0), lambda h: (h > 0) * 1.0)
    text = wf.Problem(problem.data, wf.MLP(1, mine), "gd", 1.0, problem.training).to_toml()
    with pytest.raises(InputError, match="your own relu"):
        wf.Problem.from_toml(text)


def test_what_a_script_defines_is_found_while_it_runs_and_explained_later(problem, monkeypatch):
    @dataclass(frozen=True)
    class Scripted(Mixed):
        pass

    Scripted.__module__, Scripted.__qualname__ = "__main__", "Scripted"
    mine = wf.Problem(problem.data, problem.network, Scripted(), 1.0, problem.training)
    monkeypatch.setattr(sys.modules["__main__"], "Scripted", Scripted, raising=False)
    assert wf.Problem.from_toml(mine.to_toml()) == mine
    monkeypatch.delattr(sys.modules["__main__"], "Scripted")
    with pytest.raises(InputError, match="script or notebook"):
        wf.Problem.from_toml(mine.to_toml())


def _text(top="richness = 1.0", data="x = [[1.0], [2.0]]\ny = [1.0, -1.0]", network='kind = "mlp"\ndepth = 1',
          rule='name = "gd"', training="steps = 2\ndt = 0.1"):  # fmt: skip
    return f"{top}\n[data]\n{data}\n[network]\n{network}\n[rule]\n{rule}\n[training]\n{training}\n"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"top": "richness = 1.0\nwidth = 5"}, ["width", "richness, network, rule, training, data"]),
        ({"top": ""}, ["richness is missing"]),
        ({"top": "richness = -1.0"}, ["richness", "above 0"]),
        ({"top": 'richness = "big"'}, ["richness"]),
        ({"top": "richness = = 1"}, ["not valid TOML", "line 1"]),
        ({"data": "x = [[1.0]]\ny = [1.0]\nlabels = [1]"}, ["labels", "x, y, x_test, y_test"]),
        ({"data": "x = [[1.0]]"}, ["y is missing"]),
        ({"data": "x = [[1.0], [2.0, 3.0]]\ny = [1.0, 1.0]"}, ["x"]),
        ({"data": "x = [[nan]]\ny = [1.0]"}, ["x is nan"]),
        ({"data": 'kind = "moons"'}, ["data.kind", "random_gaussian, sphere, teacher_student, digits, npz"]),
        ({"data": 'kind = "sphere"\npoints = 3'}, ["dimension is missing"]),
        ({"data": 'kind = "sphere"\npoints = 3\ndimension = 2\nradius = 1'}, ["radius", "points, dimension, seed"]),
        ({"data": 'kind = "npz"\npath = "none.npz"'}, ["none.npz", "cannot be read"]),
        ({"network": "depth = 1"}, ["network.kind", "mlp, cnn"]),
        ({"network": 'kind = "mlp"'}, ["depth is missing"]),
        ({"network": 'kind = "mlp"\ndepth = 0'}, ["depth", "1 or more"]),
        ({"network": 'kind = "mlp"\ndepth = 1\nwidth = 9'}, ["width", "depth, activation, residual"]),
        ({"network": 'kind = "mlp"\ndepth = 1\nactivation = "swish"'}, ["activation", "relu, tanh"]),
        ({"network": 'kind = "cnn"\ndepth = 1'}, ["x", "for a CNN"]),
        ({"rule": "rho = 0.5"}, ["rule.name", "gd, fa, dfa, gln, hebb"]),
        ({"rule": 'name = "backprop"'}, ["rule", "gd, fa, dfa, gln, hebb"]),
        ({"rule": 'name = "fa"\nrho = 1.5'}, ["rho", "[−1, 1]"]),
        ({"rule": 'name = "fa"\nrhoo = 0.5'}, ["rhoo", "rho"]),
        ({"rule": 'name = "no_such_module:Rule"'}, ["no_such_module"]),
        ({"training": "steps = 2"}, ["dt is missing"]),
        ({"training": "steps = 0\ndt = 0.1"}, ["steps"]),
        ({"training": "steps = 2\ndt = 0.1\nlr = 1"}, ["lr", "steps, dt, loss"]),
        ({"training": 'steps = 2\ndt = 0.1\nloss = "hinge"'}, ["loss", "squared, logistic"]),
    ],
)
def test_errors_name_the_key_and_what_is_allowed(change, names):
    with pytest.raises(InputError) as caught:
        wf.Problem.from_toml(_text(**change))
    assert "\n" not in str(caught.value)
    for name in names:
        assert name in str(caught.value)


def test_missing_table_and_wrong_kind_of_table():
    with pytest.raises(InputError, match="network is missing"):
        wf.Problem.from_toml("richness = 1.0\n")
    with pytest.raises(InputError, match=r"rule is 'gd'.*table"):
        wf.Problem.from_toml(_text(top='richness = 1.0\nrule = "gd"').replace('[rule]\nname = "gd"\n', ""))


def test_missing_file_and_not_text(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        wf.Problem.from_toml(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text"):
        wf.Problem.from_toml(tmp_path / "binary.toml")


def test_variants_of_a_problem(tmp_path):
    from widefield.problem.toml import read_variants

    base = wf.Problem(wf.datasets.sphere(3, 3), wf.MLP(2, "tanh"), "gd", 1.0, wf.Training(5, 0.1)).to_toml()
    named = (
        base
        + '\n[candidates.a]\nrule = {name = "fa", rho = 0.5}\n[candidates.b]\nrichness = 2.0\nnetwork = {depth = 3}\n'
    )
    problems, vary = read_variants(named)
    assert vary is None
    assert isinstance(problems, dict)
    assert problems["a"].rule == wf.rules.FA(0.5)
    assert (problems["b"].richness, problems["b"].network.depth, problems["b"].rule) == (2.0, 3, wf.rules.GD())
    problem, vary = read_variants(base + "\n[vary]\nrichness = [0.5, 1.0]\n")
    assert isinstance(problem, wf.Problem)
    assert vary == {"richness": [0.5, 1.0]}
    for text, words in (
        (base, "no candidates"),
        (base + "\n[candidates.a]\ndata = {}\n", r"data is not a key of \[candidates\.a\]"),
        (base + "\n[candidates]\na = 3\n", r"candidates\.a is 3"),
        (base + "\n[candidates]\n", "tables"),
    ):
        with pytest.raises(InputError, match=words):
            read_variants(text)
