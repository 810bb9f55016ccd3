"""Networks whose neurons are shared by several devices or processes have the numbers of networks on one."""

import dataclasses
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils
from sharded_runs import every, make_run

import widefield as wf
from widefield.engine import devices as module
from widefield.engine.crew import Crew
from widefield.engine.devices import Place, about_devices, announce, choose_devices, places
from widefield.errors import DivergenceError, InputError, TooFewSamplesError, WidefieldError

FOLDER = Path(__file__).parent
DEVICES = "--xla_force_host_platform_device_count={}"
# Less work for the compiler, which is nearly all of the time of these small runs.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
CLOSE = 1e-9


def start(script: str, devices: int, *arguments: object) -> subprocess.Popen[str]:
    environment = os.environ | {"XLA_FLAGS": f"{DEVICES.format(devices)} {QUICK}"}
    command = [sys.executable, str(FOLDER / script), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(process: subprocess.Popen[str], seconds: float) -> str:
    try:
        said, errors = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return said


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def check(said: str, cases: int) -> None:
    # Gloo writes about its connections between our lines.
    lines = [line.split() for line in said.splitlines() if not line.startswith("[Gloo]")]
    assert len(lines) == cases, said
    for difference, *case in lines:
        assert float(difference) < CLOSE, case


def test_two_devices():
    check(output(start("sharded_runs.py", 2, "few"), 300), 1)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mean_field", "conditioned", "dense"])
def test_four_devices_every_rule(engine):
    check(output(start("sharded_runs.py", 4, engine), 3000), len(every(engine)))


@pytest.mark.slow
def test_calls_on_two_devices():
    check(output(start("sharded_calls.py", 2), 600), 4)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["mean_field", "conditioned", "dense", "calls"])
def test_two_processes(what):
    port, calls = free_port(), what == "calls"
    script = "sharded_calls.py" if calls else "sharded_runs.py"
    both = [start(script, 1, what, 2, number, port) for number in range(2)]
    try:
        said, _ = [output(process, 3000) for process in both]
    finally:
        for process in both:
            process.kill()
    check(said, 4 if calls else len(every(what)))


# Where networks go


class Device:
    """As much of a device as `places` looks at."""

    def __init__(self, number: int, process: int = 0):
        self.number, self.process_index = number, process

    def memory_stats(self) -> dict[str, int]:
        return {"bytes_limit": 100, "bytes_in_use": 10}


def where(devices: int, networks: int, width: int, size: int = 1) -> list[int]:
    """How many devices each place has."""
    found = places(tuple(Device(n) for n in range(devices)), networks, width, lambda place: size)  # type: ignore[misc]
    return [len(place.devices) for place in found]


def test_networks_are_split_only_where_they_must_be(monkeypatch):
    monkeypatch.setattr(module, "LEAST_SHARE", 10)
    assert where(2, networks=4, width=1000) == [1, 1]
    assert where(4, networks=2, width=16) == [1, 1]  # shares of four neurons
    assert where(4, networks=2, width=1000) == [4]
    assert where(2, networks=4, width=1000, size=91) == [2]  # 90 bytes are free on a device
    assert where(4, networks=1, width=1002) == [3]
    assert where(1, networks=1, width=7) == [1]


def test_devices_of_processes_take_turns(monkeypatch):
    """Two processes with two devices and one: networks go to each process in turn, and all decide alike."""
    monkeypatch.setattr(module, "LEAST_SHARE", 10)
    said = []

    def gather(value):
        said.append(value)
        return np.stack([value, True])

    monkeypatch.setattr(multihost_utils, "process_allgather", gather)
    devices = Device(0), Device(1), Device(2, process=1)

    def numbers(networks, width, size=1):
        return [[one.number for one in place.devices] for place in places(devices, networks, width, lambda _: size)]  # type: ignore[arg-type]

    assert numbers(5, 1000) == [[0], [2], [1]]
    assert numbers(2, 16) == [[0], [2]]
    assert numbers(1, 15) == [[0, 1, 2]]
    assert numbers(2, 999) == [[0, 1, 2]]
    assert numbers(5, 999, size=91) == [[0, 1, 2]]
    assert [bool(value) for value in said] == [True] * 4 + [False]
    with pytest.raises(InputError, match="number of neurons is 1000; allowed: a multiple of the 3 devices"):
        numbers(1, 1000)
    assert Place(devices).across_processes  # type: ignore[arg-type]
    assert not Place(devices[:2]).across_processes  # type: ignore[arg-type]
    assert [Place((one,)).writes for one in devices] == [True, True, False]  # type: ignore[arg-type]
    assert about_devices(devices) == {"devices": 3, "processes": 2}


def test_networks_of_other_processes_come_back_in_their_order(monkeypatch):
    """What `process_allgather` gives: the arrays of all processes, stacked; each fills its own networks."""
    theirs = {1: {"f": np.full(3, 10.0), "rank": np.array(7)}}
    mine = {0: {"f": np.zeros(3), "rank": np.array(5)}, 2: {"f": np.full(3, 20.0), "rank": np.array(6)}}

    def gather(whole):
        other, name = np.zeros_like(whole), "f" if whole.ndim == 2 else "rank"
        for number, arrays in theirs.items():
            other[number] = arrays[name]
        return np.stack([whole, other])

    monkeypatch.setattr(multihost_utils, "process_allgather", gather)
    found = module.exchange(mine, [0, 1, 0])
    assert [int(one["rank"]) for one in found] == [5, 7, 6]
    np.testing.assert_array_equal([one["f"] for one in found], np.array([[0.0], [10.0], [20.0]]) * np.ones(3))


@pytest.mark.parametrize(
    "error",
    [DivergenceError("at step 3; lower dt"), TooFewSamplesError("too few", 12), WidefieldError("x" * 9000), None],
    ids=lambda error: type(error).__name__,
)
def test_what_one_process_raises_all_raise(monkeypatch, error):
    told = []
    monkeypatch.setattr(multihost_utils, "process_allgather", lambda row: told.append(row) or np.stack([told[0]] * 2))
    if error is None:
        module.raise_together(None)
        return
    for own in (error, None):
        if own is None:
            told[:] = told[:1]
        with pytest.raises(type(error)) as caught:
            module.raise_together(own)
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)[:512]
        assert getattr(caught.value, "directions", None) == getattr(error, "directions", None)


def test_networks_at_two_places_are_those_at_one():
    """Threads with programs of their own; network i is trained at place i modulo their number."""
    run = make_run("mlp", "dense", "gd")
    run = dataclasses.replace(run, keys=jax.random.split(jax.random.key(3), 3))
    here = Place(tuple(jax.local_devices()[:1]))
    alone, together = (Crew(run).train_all(where, None) for where in ([here], [here, here]))
    assert len(together) == 3
    for (a, leg), (b, other) in zip(alone, together, strict=True):
        assert (leg.number, leg.done) == (other.number, other.done)
        for name in a:
            np.testing.assert_allclose(b[name], a[name], rtol=1e-12, atol=1e-14)


def test_what_devices_may_be():
    assert choose_devices() == tuple(jax.devices())
    assert choose_devices(jax.devices()[:1]) == tuple(jax.devices()[:1])
    problem = wf.Problem(wf.datasets.sphere(2, 2), wf.MLP(1), "gd", 1.0, wf.Training(steps=1, dt=0.1))
    for wrong in ("cpu", 2, [], ["cpu:0"], jax.devices()[:1] * 2):
        with pytest.raises(InputError, match=r"devices is .*allowed: a list of different JAX devices"):
            wf.solve(problem, samples=16, devices=wrong)
        with pytest.raises(InputError, match=r"devices is .*allowed"):
            wf.simulate(problem, 16, devices=wrong)
    with pytest.raises(InputError, match="option devices"):
        wf.solve(problem, method="lazy", devices=jax.devices())


def test_says_what_it_uses(capsys):
    two = [jax.devices()[0], jax.devices()[0]]
    announce(two, None)
    assert capsys.readouterr().err == "widefield: 1 process, 2 devices (cpu)\n"
    announce(two, False)
    announce(two[:1], True)
    assert capsys.readouterr().err == ""


def test_bytes_per_device(monkeypatch):
    monkeypatch.setattr(Place, "sharding", lambda place, shape, width: Sharded(shape[-1] % width == 0))
    two = Place((Device(0), Device(1)))  # type: ignore[arg-type]
    arrays = [np.zeros((3, 8)), np.zeros((3, 16)), np.zeros((2, 5))]
    assert two.bytes_per_device(arrays, 8) == 8 * (12 + 24 + 10)
    assert Place().bytes_per_device(arrays, 8) == 8 * (24 + 48 + 10)
    assert two.free_bytes() == 90
    monkeypatch.setattr(module, "available_bytes", lambda: 1000)
    assert [Place().free_bytes(), Place().free_bytes(4)] == [1000, 250]
    shared = Place((jax.devices()[0],) * 2)  # devices without memory of their own
    assert [shared.free_bytes(), shared.free_bytes(2)] == [500, 250]
    monkeypatch.setattr(module, "available_bytes", lambda: None)
    assert Place().free_bytes() is None
    assert f"a run{two}" == "a run on each of 2 devices"
    assert f"a run{Place()}" == "a run"


class Sharded:
    def __init__(self, split: bool):
        self.is_fully_replicated = not split
