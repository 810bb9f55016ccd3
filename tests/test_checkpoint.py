"""A run that was stopped goes on from its checkpoint with the numbers of one that was not."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

import widefield as wf
from widefield.engine import run as engine
from widefield.engine.checkpoint import Checkpoint, identity
from widefield.engine.interpretation import Interpretation, Room
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.run import Leg, Run
from widefield.engine.sources import Pool
from widefield.errors import InputError, ResultFileError

SETTINGS = {
    "mean_field": {"rule": wf.rules.FA(0.5)},  # buffers grow on the way
    "dense": {"rule": "gd", "training": wf.Training(steps=8, dt=0.1, momentum=0.5)},
}


def make_problem(**changes) -> wf.Problem:
    data = wf.datasets.sphere(points=5, dimension=6, seed=1)
    return replace(wf.Problem(data, wf.MLP(2), "gd", 1.0, wf.Training(steps=8, dt=0.1)), **changes)


def make_run(kind: str, problem: wf.Problem) -> Run:
    recording = make_recording(problem, ["phi"], 1, 4)
    spec, inputs = prepare(problem, recording, "float64", 1e-4)
    keys = jax.random.split(jax.random.key(3), 2)
    infinite = kind == "mean_field"
    rows = np.random.default_rng(2).standard_normal((4, 512))
    pools = [[Pool(rows, (number, layer)) for layer in range(2)] for number in range(len(keys))] if infinite else ()
    return Run(spec, inputs, Interpretation(kind, 512 if infinite else 12), recording, 8, keys, pools)


class Killed(Exception):
    pass


def stop_at(step: int):
    def watch(leg: Leg) -> None:
        if leg.done >= step:
            raise Killed

    return watch


def uninterrupted(run: Run, number: int, room: Room) -> dict[str, np.ndarray]:
    *_, last = run.legs(number, room)
    return run.records_of(last)


@pytest.mark.parametrize("kind", list(SETTINGS))
def test_goes_on_bit_by_bit(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "SECONDS_PER_CALL", 0.0)  # a chunk per step
    problem = make_problem(**SETTINGS[kind])
    run = make_run(kind, problem)
    room = jax.tree.map(lambda size: min(size, 32), run.start(0).kind.room)._replace(sources=run.start(0).kind.room[2])
    said = identity(problem, {"seed": 3})
    for step in (3, 5):
        with pytest.raises(Killed):
            Checkpoint(tmp_path / "c", said, interval=0).train(run, 0, room, stop_at(step))
    seen = []
    found, leg = Checkpoint(tmp_path / "c", said, interval=0).train(
        run, 0, room, lambda leg: seen.append(int(leg.state.step))
    )
    assert seen[0] == 4  # the last one before step 5 was reached
    assert (leg.kind.room != room) == (kind == "mean_field")  # buffers have grown
    for name, values in uninterrupted(run, 0, room).items():
        np.testing.assert_array_equal(values, found[name], strict=True)
    # A network at its end is read, with the buffers that it had.
    again, read = Checkpoint(tmp_path / "c", said).train(run, 0, watch=stop_at(0))
    np.testing.assert_array_equal(again["f"], found["f"])
    assert read == leg


def test_refuses_other_problems_and_versions_by_name(tmp_path):
    problem = make_problem()
    Checkpoint(tmp_path / "c", identity(problem, {"samples": 64}))
    Checkpoint(tmp_path / "c", identity(make_problem(), {"samples": 64}))
    others = {
        r"richness is 1\.0 there and 2\.0 here": identity(replace(problem, richness=2.0), {"samples": 64}),
        r"samples is 64 there and 128 here": identity(problem, {"samples": 128}),
        r"data\.x is": identity(replace(problem, data=wf.datasets.sphere(5, 6, seed=2)), {"samples": 64}),
        r"network\.activation is": identity(replace(problem, network=wf.MLP(2, "relu")), {"samples": 64}),
        r"widefield is .* there and next here": identity(problem, {"samples": 64}) | {"widefield": "next"},
    }
    for message, said in others.items():
        with pytest.raises(InputError, match=message):
            Checkpoint(tmp_path / "c", said)
    for more, says in ((4, ""), (7, "; and 3 more")):
        with pytest.raises(InputError, match=f"e is None there and 5 here{says}; allowed"):
            Checkpoint(tmp_path / "c", identity(problem, {"samples": 64}) | dict.fromkeys("bcdefgh"[:more], "5"))
    assert Checkpoint(tmp_path / "c", identity(problem, {"samples": 64})).interval == 300
    for text in ("{", "3"):
        (tmp_path / "c" / "identity.json").write_text(text)
        with pytest.raises(ResultFileError, match=r"cannot be read \(.*\); remove it"):
            Checkpoint(tmp_path / "c", {})
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "thesis.tex").touch()
    with pytest.raises(InputError, match="something else"):
        Checkpoint(tmp_path / "d", {})
    with pytest.raises(ResultFileError, match=r"cannot be made \(File exists\)"):
        Checkpoint(tmp_path / "d" / "thesis.tex", {})


def test_damaged_checkpoint_says_so_and_full_disk_does_not_stop_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "SECONDS_PER_CALL", 0.0)
    run = make_run("dense", make_problem())
    checkpoint = Checkpoint(tmp_path / "c", {}, interval=0)
    with pytest.raises(Killed):
        checkpoint.train(run, 0, watch=stop_at(3))
    (file,) = (tmp_path / "c").glob("*.npz")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ResultFileError, match=r"damaged .*remove it"):
        checkpoint.train(run, 0)
    file.unlink()
    with pytest.raises(Killed):
        checkpoint.train(run, 0, watch=stop_at(3))
    with np.load(file) as content:
        arrays = dict(content)
    for changed in ({"record f": arrays["record f"][:-1]}, {"record f": arrays["record f"].astype(np.float32)}):
        np.savez(file, **(arrays | changed))
        with pytest.raises(ResultFileError, match=r"does not fit this run; remove it"):
            checkpoint.train(run, 0)
    file.unlink()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match=r"No space left on device.*goes on"):
        records, _ = checkpoint.train(run, 0)
    assert np.isfinite(records["f"]).all()


SCRIPT = """
import sys, time
import jax
jax.config.update("jax_enable_x64", True)
sys.path.insert(0, sys.argv[2])
import test_checkpoint as t
t.engine.SECONDS_PER_CALL = 0.0
run = t.make_run("dense", t.make_problem())
t.Checkpoint(sys.argv[1], {}, interval=0).train(run, 0, watch=lambda leg: time.sleep(0.3))
"""


def test_after_kill_9(tmp_path, monkeypatch):
    folder = tmp_path / "c"
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder), os.path.dirname(__file__)]
    process = subprocess.Popen(command)
    limit = time.monotonic() + 120
    while not list(folder.glob("*.npz")) and time.monotonic() < limit and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    monkeypatch.setattr(engine, "SECONDS_PER_CALL", 0.0)
    run, seen = make_run("dense", make_problem()), []
    records, _ = Checkpoint(folder, {}, interval=0).train(run, 0, watch=lambda leg: seen.append(leg.done))
    assert seen[0] > 0
    assert len(seen) < 10
    np.testing.assert_array_equal(records["f"], run.to_the_end().arrays["f"][0])
