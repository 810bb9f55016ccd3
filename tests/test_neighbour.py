"""A good neighbour: what importing and using widefield leaves as it was, and what it can do without."""

import dataclasses
import importlib.metadata
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import psutil
import pytest

import widefield as wf
from widefield import extras
from widefield.cli.main import main
from widefield.errors import InputError, MemoryBudgetError, MissingExtraError
from widefield.numerics.memory import available_bytes, check_memory
from widefield.precision import double_precision
from widefield.progress import make_progress

ROOT = Path(__file__).parent.parent
SOURCES = Path(wf.__file__).parent
HEAVY = ("diffrax", "equinox", "jax", "matplotlib", "pandas", "rich", "scipy", "sklearn", "typer", "xarray", "zarr")


def in_a_process(*arguments: str) -> str:
    """What another Python says, with the same sources and tests and no settings of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES.parent), str(ROOT / "tests")])}
    environment.pop("JAX_ENABLE_X64", None)
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Precision


def test_a_users_32_bit_code_stays_so_and_ours_is_64_bit():
    found = json.loads(in_a_process(str(ROOT / "tests" / "user_process.py")))
    assert found["problems"] == []
    assert found["changed"] == []
    assert found["loaded"] == []
    # A user's activation, loss and rule saw nothing but 64-bit numbers, in probes and in runs.
    assert found["seen"] == [f"{what} float64" for what in ("activation", "loss", "rule", "teach")]
    assert all(found["compared"].values())


def test_precision_can_be_nested_and_keeps_the_signature():
    @double_precision
    def recursive(depth: int, *, more: int = 0) -> int:
        """Its words."""
        return more if depth == 0 else recursive(depth - 1, more=more + 1)

    assert recursive(3) == 3
    assert recursive.__doc__ == "Its words."
    assert {"problem", "method"} <= set(inspect.signature(wf.solve).parameters)
    assert {"problem", "width", "seeds"} <= set(inspect.signature(wf.simulate).parameters)


# Importing


def test_importing_loads_nothing_heavy():
    code = f"import sys, widefield; print([name for name in {HEAVY} if name in sys.modules])"
    assert in_a_process("-c", code).strip() == "[]"


def test_describing_a_problem_loads_no_more_than_jax():
    code = f"""
import sys, widefield as wf
wf.Problem(wf.datasets.sphere(2, 2), wf.MLP(1), "gd", 1.0, wf.Training(steps=1, dt=0.1)).to_toml()
print([name for name in {HEAVY} if name in sys.modules and name not in ("jax", "scipy")])
"""
    assert in_a_process("-c", code).strip() == "[]"


def test_public_names_are_there_and_listed():
    assert sorted(wf._PLACES) == sorted(wf.__all__)
    assert set(wf.__all__) <= set(dir(wf))
    everything: dict = {}
    exec("from widefield import *", everything)
    for name in wf.__all__:
        assert everything[name] is getattr(wf, name)
    with pytest.raises(AttributeError, match="no_such_name"):
        wf.no_such_name  # noqa: B018


def test_no_module_has_the_name_of_a_public_function():
    """Importing such a module would put it in the function's place."""
    for name, place in wf._PLACES.items():
        if ":" in place:
            assert not (SOURCES / f"{name}.py").exists()
            assert not (SOURCES / name).exists()


def test_version_is_that_of_the_package(monkeypatch):
    assert wf.__version__ == importlib.metadata.version("widefield")
    for path in SOURCES.rglob("*.py"):
        assert not re.search(r"^__version__ *=", path.read_text(encoding="utf-8"), re.MULTILINE)

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert wf._version() == "0+unknown"


# What can be missing


def without(extra: str, monkeypatch) -> str:
    """Hides the packages of an extra; gives the pattern that an error must have."""
    hidden, find = extras.EXTRAS[extra], extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in hidden else find(name))
    packages = " and ".join(hidden.values())
    return rf"needs {packages}, not installed here; pip install 'widefield\[{extra}\]'"


def test_extras_are_those_of_the_package():
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, packages in extras.EXTRAS.items():
        assert [requirement.partition(">=")[0] for requirement in optional[extra]] == list(packages.values())
    assert optional["all"] == [f"widefield[{','.join(extras.EXTRAS)}]"]


def test_a_picture_without_matplotlib(monkeypatch, fake_result, problem):
    result = fake_result(problem)
    pattern = without("plot", monkeypatch)
    for picture in (result, wf.compare(result, result)):
        with pytest.raises(MissingExtraError, match=pattern):
            picture.plot()


def test_digits_without_scikit_learn(monkeypatch):
    with pytest.raises(MissingExtraError, match=without("digits", monkeypatch)):
        wf.datasets.digits()


def test_a_store_without_zarr(monkeypatch, tmp_path):
    with pytest.raises(MissingExtraError, match=without("zarr", monkeypatch)):
        wf.lazy.kernels([[1.0]], wf.MLP(1), "gd", store=tmp_path / "kernels")  # type: ignore[arg-type]


def test_progress_without_rich(monkeypatch):
    pattern = without("cli", monkeypatch)
    with pytest.raises(MissingExtraError, match=pattern):
        make_progress(True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with make_progress(None) as silent:
        silent.update(1, 2)


def test_the_command_without_typer(monkeypatch, capsys):
    pattern = without("cli", monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert re.fullmatch(f"widefield: the command line {pattern}\n", capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [["demo"], ["compare", "a", "b"], ["lazy", "digits"], ["reproduce"]])
def test_commands_that_draw_say_so_at_once(monkeypatch, tmp_path, arguments):
    from typer.testing import CliRunner

    from widefield.cli.app import app

    monkeypatch.chdir(tmp_path)
    pattern = without("plot", monkeypatch)
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 2
    assert re.search(pattern, outcome.stderr)
    assert outcome.stderr.count("\n") == 1


def test_every_dependency_has_a_lower_bound_to_test():
    listed = in_a_process(str(ROOT / ".ci" / "oldest.py")).split()
    assert all(re.fullmatch(r"[\w-]+==\d[\w.]+", line) for line in listed)
    assert {"jax", "numpy", "matplotlib", "pytest"} <= {line.partition("==")[0] for line in listed}


# Memory


def test_work_beyond_the_memory_is_refused():
    free = available_bytes()
    assert free is not None
    with pytest.raises(MemoryBudgetError, match=r"a big thing needs about .* GiB are free; take less"):
        check_memory(1000 * free, "a big thing", "take less")
    check_memory(free // 1000, "a small thing", "take less")


def test_without_sysconf_as_on_windows(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert available_bytes() is not None


@pytest.mark.parametrize("error", [NotImplementedError, PermissionError, FileNotFoundError, RuntimeError])
def test_where_memory_cannot_be_read_nothing_is_refused(monkeypatch, error):
    def fail():
        raise error("no")

    monkeypatch.setattr(psutil, "virtual_memory", fail)
    assert available_bytes() is None
    check_memory(10**30, "anything", "take less")


# One way to check fields


def test_a_changed_copy_is_checked_too(problem):
    for change in ({"steps": 0}, {"dt": "fast"}, {"loss": "hinge"}, {"integrator": "rk4"}, {"integrator": ["euler"]}):
        with pytest.raises(InputError, match=next(iter(change))):
            dataclasses.replace(problem.training, **change)
    assert dataclasses.replace(problem.training, dt=1).dt == 1.0
    assert isinstance(dataclasses.replace(problem.training, dt=1).dt, float)
    for change in ({"data": [1.0]}, {"network": "mlp"}, {"rule": 3}, {"richness": 0.0}, {"training": None}):
        with pytest.raises(InputError, match=next(iter(change))):
            dataclasses.replace(problem, **change)
