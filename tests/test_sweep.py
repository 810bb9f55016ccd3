"""Sweeps: every combination in its place, nothing lost and nothing computed twice."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import LogNorm
from typer.testing import CliRunner

import widefield as wf
from widefield.cli.app import app
from widefield.cli.sweep import parse_all
from widefield.digest import code_version, digest
from widefield.errors import ClusterError, DivergenceError, InputError, ResultFileError
from widefield.results.panels import COLOURS
from widefield.results.result import make_result
from widefield.results.sweep_pictures import _short, final, plot_sweep
from widefield.sweeps.cells import Cell, by_compilation
from widefield.sweeps.store import Folder
from widefield.sweeps.sweeping import SweepWarning


def fake(problem, *, progress=False, gain=1.0, seeds=3, fail_at=None, error=DivergenceError):
    """A result whose numbers say what it was run for."""
    fake.called.append(problem.richness)
    if progress:
        progress.update(1, 2)
    if problem.richness == fail_at:
        raise error("the run diverged\nat step 3")
    times, depth, points = problem.training.steps + 1, problem.network.depth, problem.data.points
    value = gain * problem.richness + getattr(problem.rule, "rho", 0.0)
    spread = np.arange(seeds) - (seeds - 1) / 2
    arrays = {
        "loss": value * np.ones((seeds, times)) * np.exp(-np.arange(times)) + 0.01 * value * spread[:, None],
        "phi_alignment": value * np.ones((seeds, times, depth)) * np.arange(1, depth + 1),
        "f": value * np.ones((seeds, times, points, problem.data.outputs)),
    }
    return make_result(problem, "fake", arrays, steps=np.arange(times))


# Not a global that `fake` uses: those are part of what it computes, and of the names of its cells.
CALLED: list[float] = []
fake.called = CALLED  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def nothing_called():
    CALLED.clear()


def test_every_combination_in_its_place(problem):
    found = wf.sweep(problem, {"richness": [0.5, 2], "rule.rho": [0, 0.25, 1]}, fake)
    assert found["loss"].dims == ("richness", "rule.rho", "time")
    assert found["phi_alignment"].dims == ("richness", "rule.rho", "time", "layer")
    assert found["richness"].values.tolist() == [0.5, 2.0]
    for richness in (0.5, 2.0):
        for rho in (0.0, 0.25, 1.0):
            cell = found.sel({"richness": richness, "rule.rho": rho})
            one = fake(replace(problem, richness=richness, rule=wf.rules.FA(rho))).dataset
            for name in ("loss", "loss_se", "phi_alignment", "f"):
                np.testing.assert_array_equal(cell[name], one[name])
    assert (found["status"] == "ok").all()
    assert json.loads(found.attrs["vary"]) == {"richness": [0.5, 2.0], "rule.rho": [0.0, 0.25, 1.0]}
    np.testing.assert_array_equal(found["time"], problem.training.dt * np.arange(4))


def test_cells_of_different_shapes_end_with_nan(problem):
    found = wf.sweep(problem, {"network.depth": [1, 3]}, fake)
    assert found.sizes["layer"] == 3
    assert np.isnan(found["phi_alignment"].sel({"network.depth": 1}).sel(layer=[2, 3])).all()
    assert np.isfinite(found["phi_alignment"].sel({"network.depth": 3})).all()
    data = {"one": problem.data, "classes": wf.Dataset(np.ones((3, 3)), np.ones((3, 2)))}
    found = wf.sweep(problem, {"data": data}, fake)
    assert found["data"].values.tolist() == ["one", "classes"]
    assert found["f"].dims == ("data", "time", "sample", "output")
    assert np.isfinite(found["f"].sel(data="one").isel(output=0)).all()
    assert np.isnan(found["f"].sel(data="one").isel(output=1)).all()
    assert np.isnan(found["f"].sel(data="classes").isel(sample=3)).all()


def test_times_of_their_own(problem):
    found = wf.sweep(problem, {"training.steps": [3, 5]}, fake)
    assert found.sizes["time"] == 6
    assert found["time"].values[-1] == pytest.approx(0.5)
    assert "training_time" not in found.coords
    found = wf.sweep(problem, {"training.dt": [0.1, 0.2]}, fake)
    assert "time" not in found.coords
    np.testing.assert_allclose(found["training_time"].isel({"training.dt": 1}), 0.2 * np.arange(4))


def test_names_of_values(problem):
    rules = ["gd", wf.rules.FA(0.5), wf.rules.DFA]
    found = wf.sweep(problem, {"rule": rules, "seeds": [2, 3]}, fake)
    assert found["rule"].values.tolist() == ["gd", "fa(rho=0.5)", "dfa"]
    assert found["seeds"].values.tolist() == [2, 3]
    found = wf.sweep(problem, {"network.activation": ["relu", np.tanh.__name__]}, fake)
    assert found["network.activation"].values.tolist() == ["relu", "tanh"]
    found = wf.sweep(problem, {"rule": {"backprop": "gd", "none": wf.rules.FA(0.0)}}, fake)
    assert found["rule"].values.tolist() == ["backprop", "none"]
    found = wf.sweep(problem, {"rule": ["fa", wf.rules.KolenPollack(1.0)], "training.momentum": [0.5]}, fake)
    assert found["loss"].shape == (2, 1, 4)


@pytest.mark.parametrize(
    ("vary", "options", "message"),
    [
        ({"richnes": [1]}, {}, r"field is 'richnes'; allowed: data, network, rule, .*options of the run: gain"),
        ({"rule.gain": [1]}, {}, r"field is 'rule\.gain'"),
        ({"richness": [1, -1]}, {}, r"cell richness=-1: richness is -1"),
        ({"rule.rho": [0, 2], "richness": [1]}, {}, r"cell rule\.rho=2, richness=1: rho is 2"),
        ({"rule": ["gd", "fa"], "rule.rho": [0.5]}, {}, r"cell rule=gd, rule\.rho=0\.5: rule\.rho is not a field"),
        ({"richness": []}, {}, r"richness is \[\]; allowed: one value or more"),
        ({"richness": 1.0}, {}, r"richness is 1\.0; allowed: a list"),
        ({"richness": [1, 1.0]}, {}, r"values with different names"),
        ({}, {}, r"vary is \{\}; allowed: one field or more"),
        (["richness"], {}, r"vary is 'list'"),
        ({"data": [1]}, {}, r"data is not a dictionary"),
        ({"data": {"a": 1}}, {}, r"cell data=a: data is 'int'"),
        ({"rule": ["backprop"]}, {}, r"rule is 'backprop'"),
        ({"richness": [1]}, {"gains": 2}, r"option gains is 2; allowed: gain, seeds"),
        ({"gain": [1]}, {"gain": 2}, r"option gain is given, and swept as well"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_any_run(problem, tmp_path, vary, options, message):
    with pytest.raises(InputError, match=message):
        wf.sweep(problem, vary, fake, out=tmp_path / "cells", **options)
    assert CALLED == []
    assert not (tmp_path / "cells").exists()


def test_options_of_solve_and_simulate(problem):
    with pytest.raises(InputError, match=r"field is 'width'; allowed: .*options of the run: method, samples"):
        wf.sweep(problem, {"width": [8]})
    with pytest.raises(InputError, match=r"option sample is 8; allowed: method, samples"):
        wf.sweep(problem, {"richness": [1]}, sample=8)
    with pytest.raises(InputError, match=r"simulate needs width"):
        wf.sweep(problem, {"richness": [1]}, wf.simulate)


def test_failed_cells_are_named_and_do_not_stop_the_rest(problem, tmp_path):
    call = {"vary": {"richness": [1, 2, 3]}, "run": fake, "out": tmp_path, "fail_at": 2.0}
    with pytest.warns(
        SweepWarning, match=r"1 of 3 cells failed: richness=2: DivergenceError: the run diverged at step"
    ):
        found = wf.sweep(problem, **call)
    assert CALLED == [1, 2, 3]
    assert found["status"].values.tolist() == ["ok", "DivergenceError: the run diverged at step 3", "ok"]
    assert np.isnan(found["loss"].sel(richness=2)).all()
    assert np.isfinite(found["loss"].sel(richness=[1, 3])).all()
    assert json.loads(found.attrs["failures"]) == {"richness=2": "DivergenceError: the run diverged at step 3"}
    CALLED.clear()
    with pytest.warns(SweepWarning):
        xr.testing.assert_identical(wf.sweep(problem, **call), found)
    assert CALLED == []  # it would diverge again
    with pytest.warns(SweepWarning, match="1 of 1 cells failed"):
        found = wf.sweep(problem, {"richness": [2]}, fake, out=tmp_path, fail_at=2.0, error=MemoryError)
    with pytest.warns(SweepWarning):
        wf.sweep(problem, {"richness": [2]}, fake, out=tmp_path, fail_at=2.0, error=MemoryError)
    assert CALLED == [2, 2]  # an error of the machine may be gone


def test_goes_on_where_it_stopped(problem, tmp_path):
    vary = {"richness": [1, 2, 3, 4]}
    whole = wf.sweep(problem, vary, fake)

    class Stop:
        def update(self, done, total, message=""):
            if message == "richness=3":
                raise KeyboardInterrupt

    CALLED.clear()
    with pytest.raises(KeyboardInterrupt):
        wf.sweep(problem, vary, fake, out=tmp_path, progress=Stop())
    assert CALLED == [1, 2]
    # What a killed process leaves of a file has another name; a file that a disk has damaged is made again.
    first, second = (Folder(tmp_path).path(Cell(fake, replace(problem, richness=r), {})) for r in (1.0, 2.0))
    (tmp_path / f".{first.name}.0123.tmp").write_bytes(b"half of a file")
    second.write_bytes(second.read_bytes()[:1000])
    CALLED.clear()
    xr.testing.assert_identical(wf.sweep(problem, vary, fake, out=tmp_path), whole)
    assert CALLED == [2, 3, 4]
    CALLED.clear()
    xr.testing.assert_identical(wf.sweep(problem, vary, fake, out=tmp_path), whole)
    assert CALLED == []


def test_a_full_disk_is_one_line(problem, tmp_path, monkeypatch):
    real, saved = Folder.save, []

    def save(self, cell, made):
        if saved:
            raise ResultFileError("x.nc cannot be written (No space left on device)")
        saved.append(cell)
        real(self, cell, made)

    monkeypatch.setattr(Folder, "save", save)
    message = r"^x\.nc cannot be written \(No space left on device\); 1 of 3 cells are finished and stay in .*goes on"
    with pytest.raises(ResultFileError, match=message):
        wf.sweep(problem, {"richness": [1, 2, 3]}, fake, out=tmp_path)
    with pytest.raises(ResultFileError, match="cannot be made"):
        wf.sweep(problem, {"richness": [1]}, fake, out=next(tmp_path.glob("*.nc")))


def test_names_of_cells_are_those_of_what_they_compute(problem):
    def own(gain):
        return lambda h: gain * h

    data = problem.data
    moved = data.x.copy()
    moved[0, 0] = np.nextafter(moved[0, 0], 9)
    changes = [
        {},
        {"richness": 2.0},
        {"rule": wf.rules.FA(0.25)},
        {"rule": wf.rules.GD()},
        {"data": wf.Dataset(moved, data.y, data.x_test, data.y_test)},
        {"training": wf.Training(steps=3, dt=0.1, loss="logistic")},
        {"network": wf.MLP(2, own(1.0))},
        {"network": wf.MLP(2, own(2.0))},
        {"network": wf.MLP(2, lambda h: h + 1)},
        {"network": wf.MLP(2, lambda h: h + 2)},
    ]
    names = [Cell(fake, replace(problem, **change), {}).name for change in changes]
    names += [Cell(fake, problem, {"gain": 2.0}).name, Cell(wf.simulate, problem, {}).name]
    assert len(set(names)) == len(names)
    assert Cell(fake, replace(problem, network=wf.MLP(2, own(1.0))), {}).name == names[6]
    assert Cell(fake, replace(problem), {}).name == names[0]
    assert len(code_version()) == 16


def test_digests_follow_a_users_code_and_nothing_else():
    def function(body: str, helper: str = "return 2 * h"):
        space: dict = {"__name__": "__main__", "np": np}
        exec(f"def helper(h):\n    {helper}\n\ndef use(h):\n    {body}\n", space)
        return space["use"]

    same = digest(function("return helper(h)"))
    assert same == digest(function("return helper(h)  # a comment"))
    assert same != digest(function("return helper(h) + 1"))
    assert same != digest(function("return helper(h)", "return 3 * h"))
    assert digest([1, 2]) != digest([12])
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    loop: list = []
    loop.append(loop)
    assert digest(loop) == digest(loop)


def test_an_edited_engine_never_serves_old_cells(tmp_path):
    """Every source file that may decide a number is part of the key; figures and the command line are not."""
    package = tmp_path / "widefield"
    shutil.copytree(Path(wf.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    key = code_version.__wrapped__  # as asked by a new process
    before = key(package)
    assert before == code_version()
    for place in ("reproduce/fig1.py", "cli/app.py", "sweeps/grid.py"):
        (package / place).write_text("changed = True")
        assert key(package) == before
    for place in (
        "engine/program.py",
        "solvers/mean_field/solve.py",
        "rules/gd.py",
        "results/derived.py",
        "problem/losses.py",
    ):
        text = (package / place).read_text(encoding="utf-8")
        (package / place).write_text(text + "\n", encoding="utf-8")
        assert key(package) != before
        (package / place).write_text(text, encoding="utf-8")
        assert key(package) == before
    (package / "engine" / "new.py").write_text("")
    assert key(package) != before


def test_names_are_the_same_in_another_process(tmp_path):
    script = """
        from dataclasses import dataclass
        from typing import ClassVar
        import widefield as wf
        from widefield.sweeps.cells import Cell

        @dataclass(frozen=True)
        class Own(wf.rules.Rule):
            gain: float = 1.0
            feedback: ClassVar = wf.rules.Direct()

            def local(self, site):
                return self.gain * site.signal * (site.h in {"a", "b"} if False else 1.0)

        data = wf.datasets.sphere(points=4, dimension=3, seed=1)
        problem = wf.Problem(data, wf.MLP(2), Own(), 1.0, wf.Training(steps=3, dt=0.1))
        print(Cell(wf.solve, problem, {"samples": 8}).name)
    """
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(script))
    names = [
        subprocess.run(
            [sys.executable, file], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert names[0] == names[1] != b""


def test_cells_that_share_a_compilation_follow_each_other(problem):
    cells = {
        (depth, richness): Cell(fake, replace(problem, richness=richness, network=wf.MLP(depth)), {"seed": depth})
        for richness in (1.0, 2.0)
        for depth in (1, 2)
    }
    assert by_compilation(cells) == [(1, 1.0), (1, 2.0), (2, 1.0), (2, 2.0)]


def test_real_runs_are_those_of_single_calls(problem):
    small = replace(problem, network=wf.MLP(1), rule=wf.rules.GD())
    found = wf.sweep(small, {"width": [4, 6], "richness": [1, 2]}, wf.simulate, seeds=2)
    for width in (4, 6):
        for richness in (1, 2):
            one = wf.simulate(replace(small, richness=richness), width, seeds=2).dataset
            for name in ("f", "f_se", "entk", "phi"):
                np.testing.assert_array_equal(found[name].sel(width=width, richness=richness), one[name])
    assert np.isnan(found["h_final"].sel(width=4).isel(neuron=slice(8, None))).all()


# Dask


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None, protocol="inproc://"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_dask_gives_the_same(problem, tmp_path, client):
    vary = {"richness": [1, 2, 3], "rule.rho": [0, 1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SweepWarning)
        here = wf.sweep(problem, vary, fake, fail_at=2.0)
        for out in (None, tmp_path / "cells"):
            there = wf.sweep(problem, vary, fake, out=out, client=client, fail_at=2.0)
            xr.testing.assert_identical(there, here)
        CALLED.clear()
        xr.testing.assert_identical(wf.sweep(problem, vary, fake, out=tmp_path / "cells", fail_at=2.0), here)
    assert CALLED == []


def test_dask_says_what_is_wrong_with_the_cluster(problem, tmp_path, client, monkeypatch):
    with pytest.raises(InputError, match=r"client is 3; allowed: a dask"):
        wf.sweep(problem, {"richness": [1]}, fake, client=3)  # type: ignore[arg-type]
    import widefield.sweeps.cluster as cluster

    main = threading.main_thread()
    monkeypatch.setattr(cluster, "code_version", lambda: "here" if threading.current_thread() is main else "there")
    with pytest.raises(ClusterError, match=r"other sources of widefield.*0 of 2 cells are finished and stay in"):
        wf.sweep(problem, {"richness": [1, 2]}, fake, out=tmp_path / "a", client=client)
    monkeypatch.undo()

    monkeypatch.setattr(Folder, "save", lambda *arguments: None)  # a folder of the worker's own
    with pytest.raises(ClusterError, match="a folder that all workers share"):
        wf.sweep(problem, {"richness": [1]}, fake, out=tmp_path / "b", client=client)


# Pictures and the command


def test_swept_values_are_written_short():
    assert [_short(value) for value in (0.1 + 0.2, np.float32(0.1), 3, "gd")] == ["0.3", "0.1", "3", "gd"]


def test_pictures_hold_the_numbers(problem):
    found = wf.sweep(problem, {"richness": [1, 2, 3]}, fake)
    axes = plot_sweep(found).axes
    assert [place.get_title() for place in axes[:3]] == ["richness = 1", "richness = 2", "richness = 3"]
    np.testing.assert_array_equal(axes[1].lines[-1].get_ydata(), found["loss"].sel(richness=2))
    with pytest.warns(SweepWarning):
        found = wf.sweep(problem, {"richness": [1, 2], "network.depth": [1, 3]}, fake, fail_at=2.0)
    assert final(found["phi_alignment"]).sel(richness=1).values.tolist() == [1.5, 4.5]
    (image,) = plot_sweep(found).axes[1].images
    np.testing.assert_array_equal(image.get_array(), final(found["phi_alignment"]).values)
    with pytest.raises(InputError, match="one or two for a picture"):
        plot_sweep(wf.sweep(problem, {"richness": [1, 2], "rule.rho": [0, 1], "seeds": [2, 3]}, fake))


def test_small_multiples_show_one_curve_and_the_others_in_grey(problem):
    with pytest.warns(SweepWarning):
        found = wf.sweep(problem, {"richness": [1, 2, 3, 4, 5]}, fake, fail_at=3.0)
    figure = plot_sweep(found)
    first, _, failed, *_ = places = figure.axes
    assert [axes.axison for axes in places] == [True] * 5 + [False] * 3  # four in a row
    assert [line.get_color() for line in first.lines] == ["0.8"] * 4 + [COLOURS[0]]
    assert [text.get_text() for text in failed.texts] == ["failed"]
    assert not failed.collections
    loss, error = (found[name].sel(richness=1).values for name in ("loss", "loss_se"))
    heights = first.collections[0].get_paths()[0].vertices[:, 1]
    for edge in (loss - 2 * error, loss + 2 * error):
        assert all(np.isclose(heights, value).any() for value in edge)
    np.testing.assert_array_equal(first.lines[-1].get_xdata(), found["time"])
    smallest = float(found["loss"].min())
    for axes in places[:5]:
        assert axes.get_yscale() == "log"
        assert axes.get_ylim()[0] == pytest.approx(0.5 * smallest)
        assert axes.get_legend() is None
    negative = wf.sweep(problem, {"richness": [1, 2]}, fake, gain=-1.0)
    assert {axes.get_yscale() for axes in plot_sweep(negative).axes} == {"linear"}


def test_heat_maps_are_labelled_by_what_was_swept(problem):
    found = wf.sweep(problem, {"richness": [0.5, 1, 2], "rule.rho": [0, 0.25], "seeds": [2]}, fake)
    loss, alignment = (axes for axes in plot_sweep(found).axes if axes.images)
    assert [loss.get_title(), alignment.get_title()] == ["final loss", r"final alignment of $\Phi^L$"]
    assert (loss.get_ylabel(), loss.get_xlabel()) == ("richness", "rule.rho")
    assert [text.get_text() for text in loss.get_yticklabels()] == ["0.5", "1", "2"]
    assert [text.get_text() for text in loss.get_xticklabels()] == ["0", "0.25"]
    np.testing.assert_array_equal(loss.images[0].get_array(), found["loss"].isel(seeds=0, time=-1))
    last = found["phi_alignment"].isel(seeds=0, time=-1, layer=-1)
    np.testing.assert_array_equal(alignment.images[0].get_array(), last)
    assert loss.images[0].origin == "lower"
    assert [isinstance(axes.images[0].norm, LogNorm) for axes in (loss, alignment)] == [True, False]
    single = wf.sweep(problem, {"richness": [2], "rule.rho": [0.25]}, fake)
    assert [axes.get_title() for axes in plot_sweep(single).axes] == ["richness = 2"]
    with pytest.raises(InputError, match=r"what wf\.sweep returns"):
        plot_sweep(found.drop_attrs())
    with pytest.raises(InputError, match="holds no loss"):
        plot_sweep(found.drop_vars("loss"))


def test_values_on_the_command_line():
    found = parse_all(
        ["richness=0.1,1", "rule.rho=0:1:5", "network.depth=1:4:4", "rule=gd,fa", "network.residual=true"]
    )
    assert found == {
        "richness": [0.1, 1],
        "rule.rho": [0, 0.25, 0.5, 0.75, 1],
        "network.depth": [1, 2, 3, 4],
        "rule": ["gd", "fa"],
        "network.residual": [True],
    }
    assert [type(value) for value in found["network.depth"]] == [int] * 4
    for wrong in (["richness"], ["richness="], ["=1"], ["richness=1", "richness=2"], ["rule.rho=0:1:1"], ["a=0:b:3"]):
        with pytest.raises(InputError, match="allowed"):
            parse_all(wrong)


def test_command(problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    replace(problem, network=wf.MLP(1), rule=wf.rules.GD()).to_toml(tmp_path / "p.toml")
    command = ["sweep", "p.toml", "--simulate", "--width", "4", "--seeds", "2", "--vary", "richness=1,2"]
    outcome = CliRunner().invoke(app, [*command, "-o", "s.nc", "--picture", "s.png"])
    assert outcome.exit_code == 0, outcome.output
    assert "2 cells, 0 failed" in outcome.output
    saved = xr.load_dataset("s.nc", engine="h5netcdf", decode_times=False)
    assert saved["loss"].dims == ("richness", "time")
    assert saved["status"].values.tolist() == ["ok", "ok"]
    assert len(list((tmp_path / "s-cells").glob("*.nc"))) == 2
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    outcome = CliRunner().invoke(app, ["sweep", "p.toml", "--vary", "rich=1"])
    assert outcome.exit_code == 2
    assert "field is 'rich'; allowed: data," in outcome.output
    outcome = CliRunner().invoke(app, ["sweep", "p.toml", "--vary", "richness=1", "--scheduler", "nowhere"])
    assert outcome.exit_code == 2
    assert "no Dask scheduler answers at nowhere" in outcome.output
