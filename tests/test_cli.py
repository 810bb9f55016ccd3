import subprocess
import sys
import textwrap
import tomllib

import pytest
from typer.testing import CliRunner

import widefield as wf
from widefield.cli.app import app
from widefield.cli.demo import demo_problems
from widefield.errors import DivergenceError
from widefield.progress import Progress, make_progress


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in a folder of its own, on a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, code: int = 0):
        outcome = CliRunner().invoke(app, list(arguments))
        assert outcome.exit_code == code, outcome.output
        return outcome

    return run


@pytest.fixture
def engines(monkeypatch, fake_result):
    """Stands in for `wf.solve` and `wf.simulate`, and remembers how they were called."""
    calls = []

    def solve(problem, **arguments):
        calls.append((problem, arguments))
        return fake_result(problem, seed=arguments.get("seed", 0), method=arguments.get("method", "mean_field"))

    def simulate(problem, **arguments):
        calls.append((problem, arguments))
        return fake_result(problem, seed=arguments.get("seed", 0) + 1, width=arguments["width"])

    monkeypatch.setattr(wf, "solve", solve, raising=False)
    monkeypatch.setattr(wf, "simulate", simulate, raising=False)
    return calls


def test_from_a_problem_to_a_page(run, engines, problem, tmp_path):
    problem.to_toml("problem.toml")
    assert "MLP, 2 hidden layers" in run("solve", "problem.toml", "-o", "theory.nc").stdout
    run(
        "simulate", "problem.toml", "--width", "50", "--seeds", "3", "--engine", "dense", "--seed", "4", "-o", "nets.nc"
    )
    (solved, solve_arguments), (simulated, simulate_arguments) = engines
    assert solved == simulated == problem
    assert solve_arguments == {"method": "mean_field"}
    assert simulate_arguments == {"width": 50, "seeds": 3, "engine": "dense", "seed": 4}
    assert wf.load("theory.nc").problem == problem
    table = run("compare", "theory.nc", "nets.nc", "-o", "page.png").stdout
    assert "theory.nc − nets.nc" in table
    assert "gradient_cosine" in table
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_theory_and_networks_in_earnest(run, tmp_path):
    """No stand-ins: a rule of the user's own, from a file to a page."""
    code = """
    from dataclasses import dataclass
    import jax.numpy as jnp
    import widefield as wf

    @dataclass(frozen=True)
    class SignDFA(wf.rules.Rule):
        feedback = wf.rules.Direct()

        def local(self, site):
            return site.phi_dot * jnp.sign(site.signal)
    """
    (tmp_path / "sign_rule_of_test_cli.py").write_text(textwrap.dedent(code), encoding="utf-8")
    text = """
    richness = 1.0
    data = { kind = "sphere", points = 3, dimension = 4 }
    network = { kind = "mlp", depth = 1, activation = "tanh" }
    rule = { name = "sign_rule_of_test_cli:SignDFA" }
    training = { steps = 4, dt = 0.1 }
    """
    (tmp_path / "problem.toml").write_text(textwrap.dedent(text), encoding="utf-8")
    run("solve", "problem.toml", "--samples", "256", "--seeds", "2", "-o", "theory.nc")
    run("simulate", "problem.toml", "--width", "64", "--seeds", "2", "-o", "networks.nc")
    assert "entk" in run("compare", "theory.nc", "networks.nc").stdout
    assert wf.load("theory.nc", trust=True).problem == wf.Problem.from_toml("problem.toml")
    # Both start from f = 0 with the same loss, whatever the width.
    assert float(wf.load("theory.nc")["loss"][0]) == float(wf.load("networks.nc")["loss"][0]) == 1.5


def test_solve_passes_on_what_was_given_and_names_the_file_itself(run, engines, problem, tmp_path):
    problem.to_toml("mine.toml")
    run(
        "solve", "mine.toml", "--method", "lazy", "--samples", "64", "--seeds", "2", "--accuracy", "0.01", "--seed", "7"
    )
    assert engines[0][1] == {"method": "lazy", "seed": 7, "samples": 64, "seeds": 2, "accuracy": 0.01}
    run("simulate", "mine.toml")
    assert sorted(p.name for p in tmp_path.glob("*.nc")) == ["mine-networks.nc", "mine-theory.nc"]


def test_a_rule_of_the_users_own_beside_the_file(run, engines, problem, tmp_path, monkeypatch):
    code = """
    from dataclasses import dataclass
    import widefield as wf

    @dataclass(frozen=True)
    class Own(wf.rules.Rule):
        feedback = wf.rules.Direct()

        def local(self, site):
            return site.phi_dot * site.signal
    """
    (tmp_path / "own_rules_of_test_cli.py").write_text(textwrap.dedent(code), encoding="utf-8")
    text = problem.to_toml().replace('name = "fa"\nrho = 0.5', 'name = "own_rules_of_test_cli:Own"')
    (tmp_path / "problem.toml").write_text(text, encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert "own_rules_of_test_cli:Own" in run("simulate", "../problem.toml", "-o", "out.nc").stdout
    assert type(engines[0][0].rule).__name__ == "Own"
    assert wf.load("out.nc", trust=True).problem == engines[0][0]


def test_demo_draws_five_rules(run, engines, tmp_path):
    out = run("demo", "--width", "30", "--seeds", "2", "-o", "a/b").stdout
    for name in ("GD", "FA", "DFA", "GLN", "Hebb"):
        assert name in out
    names = {p.name for p in (tmp_path / "a" / "b").iterdir()}
    assert {"curves.png", "kernels.png", "gd-theory.nc", "hebb-networks.nc"} <= names
    problem = demo_problems()["FA"]
    assert (problem.data.x.shape, problem.richness, problem.network.depth) == ((10, 50), 2.0, 1)


def test_outputs_are_checked_before_the_work(run, engines, problem):
    problem.to_toml("problem.toml")
    for command in ("solve", "simulate"):
        outcome = run(command, "problem.toml", "-o", "none/out.nc", code=2)
        assert "none/out.nc" in outcome.stderr
        outcome = run(command, "problem.toml", "-o", "./problem.toml", code=2)
        assert "the problem file itself" in outcome.stderr
    assert wf.Problem.from_toml("problem.toml") == problem
    run("demo", "-o", "problem.toml", code=2)
    assert engines == []


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (
            DivergenceError("the loss is nan at step 7;\nlower dt"),
            2,
            "widefield: the loss is nan at step 7; lower dt\n",
        ),
        (KeyboardInterrupt(), 130, "widefield: stopped"),
        (ZeroDivisionError("oops"), 1, "widefield: ZeroDivisionError: oops"),
    ],
)
def test_errors_are_one_line_on_stderr(run, problem, monkeypatch, tmp_path, error, code, says):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(wf, "simulate", fail, raising=False)
    problem.to_toml("problem.toml")
    outcome = run("simulate", "problem.toml", "-o", "out.nc", code=code)
    assert says in outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert outcome.stdout == ""
    assert not (tmp_path / "out.nc").exists()


def test_debug_shows_where_an_unexpected_error_comes_from(run, problem, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(wf, "simulate", fail, raising=False)
    problem.to_toml("problem.toml")
    assert isinstance(run("--debug", "simulate", "problem.toml", code=1).exception, ZeroDivisionError)


def test_help_teaches(run):
    overview = run("--help").stdout
    for command in ("demo", "solve", "simulate", "compare"):
        assert command in overview
        assert "widefield" in run(command, "--help").stdout
    assert "widefield 0" in run("--version").stdout


def test_the_problem_in_the_help_text_is_a_problem():
    from widefield.cli.solve import solve

    text = textwrap.dedent((solve.__doc__ or "").partition("like this:")[2].partition("Examples:")[0])
    assert set(tomllib.loads(text)) == {"richness", "data", "network", "rule", "training"}
    assert wf.Problem.from_toml(text).data.points == 10


def test_the_installed_command_answers_without_a_traceback(tmp_path):
    code = "from widefield.cli.main import main; main()"
    arguments = ["compare", "none.nc", "none.nc"]
    outcome = subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("widefield: none.nc cannot be read")
    assert outcome.stderr.count("\n") == 1


# Progress


def test_progress_is_silent_a_bar_or_the_users_own(capsys):
    class Mine:
        def __init__(self):
            self.calls = []

        def update(self, done, total, message=""):
            self.calls.append((done, total, message))

    mine = Mine()
    assert isinstance(mine, Progress)
    for choice in (mine, True, False, None):
        with make_progress(choice) as bar:
            bar.update(1, 2, "half")
            bar.update(2, 2, "whole")
    assert mine.calls == [(1, 2, "half"), (2, 2, "whole")]
    assert capsys.readouterr().out == ""
    with pytest.raises(wf.errors.InputError, match="progress"):
        make_progress("yes")  # type: ignore[arg-type]
