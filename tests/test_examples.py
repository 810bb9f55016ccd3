"""The scripts in examples/ and the code in the documentation run and say what they promise."""

from __future__ import annotations

import csv
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import widefield as wf

ROOT = Path(__file__).parent.parent


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example as a module that can be found again by name, as a script's rule must be."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_use_the_public_interface_only(path):
    assert re.findall(r"^ *(?:from|import) widefield\b.*", path.read_text(encoding="utf-8"), re.MULTILINE) == [
        "import widefield as wf"
    ]


def test_own_rule(monkeypatch, capsys):
    theory, nets = load("own_rule", monkeypatch).main(points=3, steps=4, samples=512, width=300)
    assert "loss, theory" in capsys.readouterr().out
    # One comparison of two means with four runs each: |t| > 8 has a chance below 1 in 1000.
    gap = float(theory["loss"][-1] - nets["loss"][-1])
    assert abs(gap) < 8 * np.hypot(float(theory["loss_se"][-1]), float(nets["loss_se"][-1]))
    assert theory.problem.rule == nets.problem.rule


def test_documented_rules_are_the_code():
    """The ten lines in the documentation are those of the example, and every snippet with a rule in it runs."""
    text = (ROOT / "docs" / "your_own_rule.md").read_text(encoding="utf-8")
    example = (ROOT / "examples" / "own_rule.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    for block in blocks:
        if "class " in block:
            exec(block, names)
    assert names["SignDFA"]().feedback == wf.rules.Direct()
    assert names["ClippedDFA"](limit=0.5).limit == 0.5
    for line in ("site.phi_dot * jnp.sign(site.signal)", "class SignDFA(wf.rules.Rule):"):
        assert line in text
        assert line in example
    for name in wf.rules.RULES:
        assert f"| `{name}`" in text


def test_generalisation(monkeypatch, capsys, tmp_path):
    module = load("generalisation", monkeypatch)
    rows = module.main(
        tmp_path / "study", rules={"readout only": wf.rules.ReadoutOnly()}, richness=(0.5, 2.0),
        points=4, test_points=4, training=wf.Training(steps=6, dt=0.1), samples=512, width=100, seeds=2,
    )  # fmt: skip
    assert len(rows) == 4
    assert (tmp_path / "study" / "generalisation.png").stat().st_size > 1000
    with open(tmp_path / "study" / "generalisation.csv", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["kind"] for row in table] == ["theory", "networks"] * 2
    assert all(0 <= float(row["wrong"]) <= 1 and float(row["test_loss"]) > 0 for row in table)
    # Random features learn the same at every richness.
    frozen = [r.test_loss for r in rows if r.kind == "theory"]
    assert abs(frozen[0] - frozen[1]) < 0.02
    assert "networks" in capsys.readouterr().out


def test_recurrent(monkeypatch, capsys, tmp_path):
    module = load("recurrent", monkeypatch)
    monkeypatch.setattr(module, "RULES", {"RFLO": wf.rules.RFLO()})
    found = module.main(tmp_path / "study", points=2, delay=0, steps=4, samples=512, width=100, seeds=2)
    assert (tmp_path / "study" / "recurrent.png").stat().st_size > 1000
    assert "RFLO" in capsys.readouterr().out
    assert found["RFLO"].theory["gradient_cosine"].shape == (5, 1, 3)
    assert module.outliers(found["RFLO"].networks)[-1] > 0


def test_generalisation_says_what_diverged(monkeypatch, capsys, tmp_path):
    module = load("generalisation", monkeypatch)

    def diverges(problem, **options):
        raise wf.errors.DivergenceError("the run diverged at step 3")

    monkeypatch.setattr(module.wf, "solve", diverges)
    data = wf.datasets.digits((3, 8), 4, test_points=4)
    rows = module.study(data, {"GD": wf.rules.GD()}, (1.0,), wf.Training(steps=2, dt=0.1), 64, 10, 2)
    assert rows == []
    assert "diverged at step 3" in capsys.readouterr().out


@pytest.mark.slow
def test_which_rule(monkeypatch, capsys, tmp_path):
    module = load("which_rule", monkeypatch)
    rules = {name: module.RULES[name] for name in ("GD", "Hebb")}
    matrix, found, plans = module.main(tmp_path, module.SMALL, rules)
    assert matrix.shape == (2, 3)
    assert np.all(np.diag(matrix) > 0.5)
    assert len(found) == module.SMALL.hidden
    assert list(plans) == ["GD or Hebb"]
    assert (tmp_path / "which_rule.png").stat().st_size > 10_000
    assert "mean posterior of the right rule" in capsys.readouterr().out


@pytest.mark.slow
def test_not_our_network(monkeypatch, capsys):
    found = load("not_our_network", monkeypatch).main(width=400, samples=512, networks=6)
    assert found.best == "feedback alignment"
    assert "goodness of fit" in capsys.readouterr().out


@pytest.mark.slow
def test_files_of_another_tool(monkeypatch, tmp_path):
    found = load("files_of_another_tool", monkeypatch).main(folder=tmp_path, samples=512, networks=6)
    assert [one.best for one in found] == ["Hebb", "Hebb"]
    assert [one.kind for one in found] == ["kernel", "rdm"]
