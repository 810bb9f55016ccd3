"""Results on disk: the same after a round trip, whole or untouched, and never trusted more than a stranger's text."""

from __future__ import annotations

import errno
import gc
import json
import os
import pickle
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import h5netcdf
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.figure import Figure
from test_toml import problems

import widefield as wf
from widefield import atomic
from widefield.atomic import check_writable, write_file
from widefield.errors import InputError, ResultFileError
from widefield.results.labels import dims_of
from widefield.results.result import make_result

OLD = Path(__file__).parent / "data" / "format-1.nc"


# Round trips


@st.composite
def results(draw):
    """Results of any problem, with some variables of one or more runs and some without sampling error."""
    problem = draw(problems())
    data = problem.data
    steps = np.array(sorted(draw(st.sets(st.integers(0, 10**6), min_size=1, max_size=3))))
    lengths = {
        "time": len(steps), "layer": problem.network.depth, "sample": data.points, "sample_": data.points,
        "output": data.outputs, "output_": data.outputs, "neuron": 2,
    }  # fmt: skip
    runs = draw(st.integers(1, 3))
    sampled, exact = {}, {}
    for name in draw(st.sets(st.sampled_from(["f", "loss", "entk", "phi", "g_tilde", "h_final"]), min_size=1)):
        shape = tuple(lengths[dim] for dim in dims_of(name, problem))
        where, lead = (sampled, (runs,)) if name == "h_final" or draw(st.booleans()) else (exact, ())
        where[name] = draw(arrays(np.float64, lead + shape, elements=st.floats(width=64)))
    info = draw(st.dictionaries(st.text(max_size=3), st.integers(-9, 9) | st.text(max_size=3), max_size=2))
    with np.errstate(over="ignore"):  # dt may be as large as it likes
        made = make_result(problem, "test", sampled, exact, steps=steps, seed=draw(st.integers(0, 9)), info=info)
    return problem, made


@given(made=results())
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_save_then_load_is_the_identity(made, tmp_path):
    problem, result = made
    path = tmp_path / "result.nc"
    with np.errstate(all="ignore"):  # numbers of any size
        result.save(path)
        back = wf.load(path, trust=True)
        xr.testing.assert_identical(back.replicates, result.replicates)
        xr.testing.assert_identical(back.dataset, result.dataset)
    assert back.problem == problem
    assert (back.info, back.method) == (result.info, "test")
    assert set(back.dataset.attrs) == {"problem", "method", "versions", "info", "seed"}
    assert [p.name for p in tmp_path.iterdir()] == ["result.nc"]


def test_a_run_survives_a_round_trip(tmp_path, problem):
    result = wf.simulate(problem, 20, seeds=3, progress=False)
    result.save(tmp_path / "a.nc")
    xr.testing.assert_identical(wf.load(tmp_path / "a.nc").replicates, result.replicates)
    # Read by others, the file is plain netCDF.
    xr.testing.assert_equal(xr.load_dataset(tmp_path / "a.nc", decode_times=False), result.runs)
    points = xr.load_dataset(tmp_path / "a.nc", group="data")
    np.testing.assert_array_equal(points["x_test"], problem.data.x_test)


def test_dimensions_without_entries_survive(tmp_path, problem):
    """Responses between layers have none where there is one layer."""
    shallow = wf.Problem(problem.data, wf.MLP(1), "gd", 1.0, problem.training)
    empty = {"inner_layer": np.arange(0)}
    result = make_result(shallow, "test", {"loss": np.ones((2, 4))}, steps=np.arange(4), coordinates=empty)
    result.save(tmp_path / "a.nc")
    xr.testing.assert_identical(wf.load(tmp_path / "a.nc").runs, result.runs)


def test_points_are_stored_as_numbers(tmp_path, problem):
    data = wf.datasets.random_gaussian(200, 300)
    large = wf.Problem(data, problem.network, "gd", 1.0, problem.training)
    result = make_result(large, "test", exact={"loss": np.ones(4)}, steps=np.arange(4))
    assert len(result.dataset.attrs["problem"]) < 1000
    result.save(tmp_path / "large.nc")
    assert (tmp_path / "large.nc").stat().st_size < 8 * 200 * 301 + 50_000
    assert wf.load(tmp_path / "large.nc").problem == large


def test_files_of_the_first_format_still_load(tmp_path):
    """Means and standard errors of three networks, and the problem as text, data included."""
    old = wf.load(OLD)
    assert old.problem.data == wf.Dataset([[1.0, 0.25], [-0.5, 2.0]], [1.0, -1.0], [[0.1, 0.2]], [1.0])
    assert old.problem.rule == wf.rules.FA(0.5)
    np.testing.assert_allclose(old["loss"], [1.0, 0.87489089, 0.76581156], rtol=1e-7)
    np.testing.assert_allclose(old["loss_se"], [0, 0.01227315, 0.02131929], atol=1e-7)
    assert "± 0.021" in old.summary()
    assert isinstance(old.plot(), Figure)
    with pytest.raises(InputError, match="means and standard errors only"):
        _ = old.replicates
    new = wf.simulate(old.problem, 20, seeds=3, progress=False)
    found = wf.compare(old, new)
    assert np.isfinite(found.chance)  # three networks are known to stand behind each error
    old.save(tmp_path / "again.nc")
    again = wf.load(tmp_path / "again.nc")
    xr.testing.assert_identical(again.dataset, old.dataset)
    assert again.problem == old.problem


def test_results_are_pickled_with_their_problem(problem):
    result = make_result(problem, "test", {"loss": np.ones((2, 4))}, steps=np.arange(4))
    back = pickle.loads(pickle.dumps(result))
    xr.testing.assert_identical(back.dataset, result.dataset)
    assert back.problem == problem
    # Also where the problem cannot be: it holds a function without a name.
    nameless = wf.Problem(problem.data, wf.MLP(2, lambda h: h**2), "gd", 1.0, problem.training)
    own = make_result(nameless, "test", {"loss": np.ones((2, 4))}, steps=np.arange(4))
    back = pickle.loads(pickle.dumps(own))
    assert back.summary() == own.summary()
    with pytest.raises(InputError, match="cannot be found by name"):
        _ = back.problem


# Writing: whole or not at all


def small(problem, value=1.0):
    return make_result(problem, "test", {"loss": np.full((2, 4), value)}, steps=np.arange(4))


def test_a_failing_save_leaves_the_old_file_and_nothing_else(tmp_path, problem, monkeypatch):
    path = tmp_path / "result.nc"
    small(problem).save(path)
    before = path.read_bytes()

    def no_space(file, content):
        file.write(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    for nameless in (True, False):
        with monkeypatch.context() as patched:
            patched.setattr(atomic, "_write_through", no_space)
            if not nameless:
                patched.setattr(atomic, "_open_nameless", lambda folder: None)
            with pytest.raises(ResultFileError, match=r"result\.nc cannot be written \(No space left on device\)$"):
                small(problem, 2.0).save(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["result.nc"]


FULL_DISK = """
    import resource, signal, sys
    import numpy as np
    import widefield as wf
    from widefield.errors import ResultFileError
    from widefield.results.result import make_result

    problem = wf.Problem(wf.datasets.sphere(4, 3), wf.MLP(1), "gd", 1.0, wf.Training(3, 0.1))
    result = make_result(problem, "test", {"entk": np.ones((50, 4, 4, 4, 1, 1))}, steps=np.arange(4))
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        result.save("result.nc")
    except ResultFileError as error:
        print(error)
    print("still here")
"""


def run_python(code, folder, *arguments):
    source = str(Path(wf.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of file sizes there")
def test_a_full_disk_is_one_line_and_the_process_goes_on(tmp_path):
    """A limit of file sizes stands in for the disk: HDF5 itself ends the process when a write fails."""
    process = run_python(FULL_DISK, tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.splitlines() == ["result.nc cannot be written (File too large)", "still here"]
    assert err == ""
    assert os.listdir(tmp_path) == []


WRITE_FOR_EVER = """
    import signal
    import sys
    from itertools import count
    from widefield.atomic import write_file

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell would have it ignored
    letter, replace = sys.argv[1], sys.argv[2] == "replace"
    for number in count():
        write_file("file" if replace else f"{letter}{number % 20}", letter.encode() * 3_000_000)
        if number == 0:
            print("ready", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are a thing of Linux")
@pytest.mark.parametrize("how", ["new", "replace"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_killed_writer_leaves_whole_files(tmp_path, number, how):
    """Two processes, which write files of their own or one and the same, each killed at some moment of its writing."""
    rng = np.random.default_rng(int(number))
    writers = [run_python(WRITE_FOR_EVER, tmp_path, letter, how) for letter in "ab"]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            time.sleep(rng.uniform(0, 0.1))
            writer.send_signal(number)
        for writer in writers:
            writer.communicate(timeout=60)
            assert writer.returncode == -number
    finally:
        for writer in writers:
            writer.kill()
    assert len(os.listdir(tmp_path)) >= (1 if how == "replace" else 2)
    for path in tmp_path.iterdir():
        assert path.read_bytes() in (b"a" * 3_000_000, b"b" * 3_000_000)
        # A file that replaces another has a temporary name for a moment, already whole; only SIGKILL can leave it.
        assert path.name[0] in "abf" or (how == "replace" and number == signal.SIGKILL)


def test_old_leftovers_are_removed_where_temporary_files_have_names(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_open_nameless", lambda folder: None)
    old, young, other = (tmp_path / name for name in (".widefield-a.tmp", ".widefield-b.tmp", ".other.tmp"))
    for path in (old, young, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (0, 0))
    write_file(tmp_path / "file", b"whole")
    assert sorted(os.listdir(tmp_path)) == [".other.tmp", ".widefield-b.tmp", "file"]
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_places_that_cannot_be_written_are_found_out_beforehand(tmp_path, monkeypatch):
    with pytest.raises(ResultFileError, match="no folder"):
        check_writable(tmp_path / "none" / "a.nc")
    with pytest.raises(ResultFileError, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(ResultFileError, match="File name too long"):
        check_writable(tmp_path / ("a" * 300))

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    check_writable(tmp_path / "a.nc")
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(atomic, "_open_nameless", refuse)
    with pytest.raises(ResultFileError, match="Permission denied"):
        check_writable(tmp_path / "a.nc")


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes and sockets with names there")
@pytest.mark.parametrize("nameless", [True, False])
def test_only_regular_writable_files_are_replaced(tmp_path, problem, nameless, monkeypatch):
    """Never with a device of the machine: broken code under test, run by a superuser, would replace it."""
    if not nameless:
        monkeypatch.setattr(atomic, "_open_nameless", lambda folder: None)
    pipe, read_only = tmp_path / "pipe", tmp_path / "read_only"
    os.mkfifo(pipe)
    read_only.write_text("precious")
    read_only.chmod(0o444)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in (pipe, tmp_path / "socket"):
            with pytest.raises(ResultFileError, match="a device, a pipe or a socket"):
                small(problem).save(path)
    with pytest.raises(ResultFileError, match="it is read-only"):
        small(problem).save(read_only)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert stat.S_ISSOCK(os.stat(tmp_path / "socket").st_mode)
    assert read_only.read_text() == "precious"
    assert len(os.listdir(tmp_path)) == 3


def test_a_link_stays_a_link(tmp_path, problem):
    (tmp_path / "link.nc").symlink_to(tmp_path / "target.nc")
    small(problem).save(tmp_path / "link.nc")
    assert (tmp_path / "link.nc").is_symlink()
    assert wf.load(tmp_path / "target.nc").problem == problem


# Reading: nothing is believed


def rewritten(path, problem, change):
    """A saved result after `change` of its HDF5 groups."""
    small(problem).save(path)
    with h5netcdf.File(path, "a") as file:
        change(file)
    return path


def retyped(file, name, values):
    del file[name]
    file.create_variable(name, ("time",), data=values)


DAMAGES = {
    "no method": (lambda f: f.attrs.__delitem__("method"), "has no attribute method"),
    "method a number": (lambda f: f.attrs.__setitem__("method", 3), "attribute method is"),
    "info no JSON": (lambda f: f.attrs.__setitem__("info", "{"), "attribute info cannot be read"),
    "info a list": (lambda f: f.attrs.__setitem__("info", "[1]"), "attribute info cannot be read"),
    "info deep": (lambda f: f.attrs.__setitem__("info", "[" * 10**5), "attribute info cannot be read"),
    "seed a word": (lambda f: f.attrs.__setitem__("seed", "none"), "attribute seed is"),
    "problem no TOML": (lambda f: f.attrs.__setitem__("problem", "= ="), "attribute problem cannot be read"),
    "problem a path": (lambda f: f.attrs.__setitem__("problem", "/etc/passwd"), "attribute problem cannot be read"),
    "problem deep": (lambda f: f.attrs.__setitem__("problem", "a = " + "[" * 10**5), "attribute problem cannot be"),
    "problem of something else": (lambda f: f.attrs.__setitem__("problem", "a = 1\n"), "not that of a result"),
    "loss along layers": (lambda f: f.create_variable("accuracy", ("layer",), data=[1.0, 2.0]), "accuracy is 'along"),
    "an error of nothing": (lambda f: f.create_variable("phi_se", ("time",), data=np.ones(4)), "phi_se has no phi"),
    "a name with a bell": (lambda f: f.create_variable("a\x07b", ("time",), data=np.ones(4)), "a name is"),
    "times of text": (lambda f: f.create_variable("note", ("time",), data=np.array([b"a"] * 4)), "note is 'of type"),
    "no x": (lambda f: f["data"]._h5group.__delitem__("x"), "data is 'without x'"),
    "x not finite": (lambda f: f["data"]["x"].__setitem__((0, 0), np.nan), "x is nan at index"),
    "a later format": (lambda f: f.attrs.__setitem__("format", 99), "another version of widefield.*update"),
    "a format in words": (lambda f: f.attrs.__setitem__("format", "new"), "another version of widefield"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_results_are_refused_when_they_are_loaded(tmp_path, problem, name):
    change, says = DAMAGES[name]
    path = rewritten(tmp_path / "a.nc", problem, change)
    with pytest.raises(ResultFileError, match=says) as caught:
        wf.load(path)
    assert "a.nc" in str(caught.value)
    assert str(caught.value).isprintable()


def test_damaged_foreign_and_missing_files_give_one_line(tmp_path, problem):
    good = tmp_path / "good.nc"
    small(problem).save(good)
    (tmp_path / "empty.nc").write_bytes(b"")
    (tmp_path / "text.nc").write_text("hello")
    (tmp_path / "cut.nc").write_bytes(good.read_bytes()[:3000])
    xr.Dataset({"temperature": ("day", np.ones(3))}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    for name in ("none", "empty", "text", "cut", "foreign"):
        with pytest.raises(ResultFileError, match=name) as caught:
            wf.load(tmp_path / f"{name}.nc")
        assert "\n" not in str(caught.value)


def test_files_that_were_cut_short_give_one_line(tmp_path, problem):
    path = tmp_path / "a.nc"
    small(problem).save(path)
    whole = path.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 40).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(ResultFileError, match=r"a\.nc cannot be read as netCDF") as caught:
            wf.load(path)
        assert str(caught.value).isprintable()


def test_nothing_is_printed_about_a_damaged_file(tmp_path, problem, monkeypatch):
    """h5netcdf fails once more, when it is collected, if the root of the file is damaged, here in its 101st byte."""
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    small(problem).save(tmp_path / "a.nc")
    content = bytearray((tmp_path / "a.nc").read_bytes())
    content[100] ^= 0xFF
    (tmp_path / "a.nc").write_bytes(content)
    with pytest.raises(ResultFileError, match="damaged"):
        wf.load(tmp_path / "a.nc")
    gc.collect()
    assert printed == []


def test_text_from_a_file_cannot_steer_a_terminal(tmp_path, problem):
    evil = "\x1b[2J\u202e"

    def change(file):
        file.attrs["method"] = f"mean{evil}field"
        file.attrs["info"] = json.dumps({"engine": evil, evil: 1})
        file.attrs["problem"] = file.attrs["problem"].replace('"tanh"', r'"\u001b[2J"')
        file["loss"].attrs["long_name"] = evil

    result = wf.load(rewritten(tmp_path / "a.nc", problem, change))
    described = result["loss"].attrs["long_name"]
    shown = [result.method, repr(wf.compare(result, result)), described, result._repr_html_()]
    for text in (*shown, *result.summary().splitlines()):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "mean" in result.method


# Reading: no code is run


@dataclass(frozen=True)
class Own(wf.rules.GD):
    """A rule from outside the library."""


@pytest.fixture
def evil_module(tmp_path, monkeypatch):
    """A module beside the working directory that leaves a mark when it is imported."""
    mark = tmp_path / "imported"
    (tmp_path / "evil_module.py").write_text(f"open({str(mark)!r}, 'w').close()\nthing = 3\n")
    monkeypatch.chdir(tmp_path)
    yield mark
    sys.modules.pop("evil_module", None)


REFERENCES = {
    "rule": ('name = "fa"', 'name = "evil_module:thing"'),
    "activation": ('"tanh"', '"evil_module:thing"'),
    "loss": ('"squared"', '"evil_module:thing"'),
    "rule in a mixture": ('name = "fa"\nrho = 0.5', 'name = "mixture"\nrules = ["evil_module:thing", "gd"]'),
    "rule in a rule": (
        'name = "fa"\nrho = 0.5',
        'name = "mixture"\nrules = [{name = "evil_module:thing"}, {name = "gd"}]',
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_strangers_file_imports_nothing(tmp_path, problem, evil_module, name):
    before, after = REFERENCES[name]

    def change(file):
        assert before in file.attrs["problem"]
        file.attrs["problem"] = file.attrs["problem"].replace(before, after)

    path = rewritten(tmp_path / "a.nc", problem, change)
    result = wf.load(path)
    assert "evil_module:thing" in result.summary()
    with pytest.raises(InputError, match=r"evil_module:thing.*wf\.load\(path, trust=True\)"):
        _ = result.problem
    assert not evil_module.exists()
    with pytest.raises(InputError):  # a number is no rule, but the module was asked for it
        _ = wf.load(path, trust=True).problem
    assert evil_module.exists()


@pytest.mark.parametrize(
    "data",
    [
        'kind = "npz"\npath = "secret.npz"',
        'path = "secret.npz"',
        'x = [[1.0]]\ny = [1.0]\npath = "secret.npz"',
        "x = 3",
    ],
)
def test_a_strangers_file_reads_no_other(tmp_path, problem, monkeypatch, data):
    """Data of the first format are text, which may hold numbers only."""
    np.savez(tmp_path / "secret.npz", x=np.ones((2, 2)), y=np.ones(2))
    monkeypatch.chdir(tmp_path)

    def change(file):
        del file._h5group["data"]
        file.attrs["problem"] = file.attrs["problem"] + "\n[data]\n" + data

    result = wf.load(rewritten(tmp_path / "a.nc", problem, change))
    with pytest.raises(InputError, match="data of the problem are"):
        _ = result.problem


def test_own_rules_come_back_with_trust(tmp_path, problem):
    asked = wf.Problem(problem.data, problem.network, Own(), 1.0, problem.training)
    result = make_result(asked, "test", {"loss": np.ones((2, 4))}, steps=np.arange(4))
    assert result.problem is asked
    result.save(tmp_path / "a.nc")
    with pytest.raises(InputError, match="trust=True"):
        _ = wf.load(tmp_path / "a.nc").problem
    assert wf.load(tmp_path / "a.nc", trust=True).problem == asked
    wf.load(tmp_path / "a.nc").save(tmp_path / "b.nc")  # nobody needs to be trusted for a copy
    assert wf.load(tmp_path / "b.nc", trust=True).problem == asked


# Arguments


@pytest.mark.parametrize("path", [None, 3, "", "a\0b", b"bytes", ["a.nc"]])
def test_what_is_no_path_is_refused(problem, path):
    for call in (small(problem).save, wf.load, check_writable):
        with pytest.raises(InputError, match="path is"):
            call(path)


def test_what_is_no_result_is_refused(problem):
    for wrong in (None, 3, {"loss": np.ones(3)}, np.ones(3)):
        with pytest.raises(InputError, match=r"runs is .*xarray\.Dataset"):
            wf.Result(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"no attribute problem, method.*Result\.from_arrays"):
        wf.Result(xr.Dataset({"loss": ("time", np.ones(3))}))
    with pytest.raises(InputError, match="problem is 'int'"):
        wf.Result(small(problem).runs, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="trust is 'yes'"):
        wf.load("a.nc", trust="yes")  # type: ignore[arg-type]


def test_a_dataset_of_a_result_is_a_result(problem):
    result = small(problem)
    last = wf.Result(result.dataset.isel(time=[-1]), problem)
    assert last.problem == problem
    assert "loss" in last.summary()
    with pytest.raises(InputError, match="data of this result's problem were not kept"):
        _ = wf.Result(result.dataset).problem
