"""Networks whose neurons are shared by several devices or processes have the numbers of networks on one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from sharded_runs import every

import widefield as wf
from widefield.engine import devices as module
from widefield.engine.devices import Place, announce, choose_devices, places
from widefield.errors import InputError

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

    def __init__(self, number: int):
        self.number, self.process_index = number, 0

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
    assert f"a run{two}" == "a run on each of 2 devices"
    assert f"a run{Place()}" == "a run"


class Sharded:
    def __init__(self, split: bool):
        self.is_fully_replicated = not split
