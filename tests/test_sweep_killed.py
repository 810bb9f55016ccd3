"""A sweep that is killed at random moments loses nothing, computes nothing twice, and reads no half of a file."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import xarray as xr

import widefield as wf
from widefield.errors import ClusterError
from widefield.sweeps.sweeping import SweepWarning

pytest.importorskip("distributed")
SCRIPT = Path(__file__).parent / "killed_sweep.py"
MOMENTS = 10


def read(path: Path) -> xr.Dataset:
    return xr.load_dataset(path, engine="h5netcdf")


def begun(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


class Watch:
    """Which cells were finished when something was killed, and what was begun after that."""

    def __init__(self, folder: Path, log: Path):
        self.folder, self.log, self.moments = folder, log, []

    def look(self) -> None:
        finished = {int(read(path)["number"]) for path in self.folder.glob("*.nc")}  # every file is whole
        self.moments.append((finished, len(begun(self.log))))

    def check(self) -> None:
        for finished, position in self.moments:
            assert not finished & set(begun(self.log)[position:])


@pytest.mark.slow
def test_killed_at_ten_moments(tmp_path):
    folder, log, processes, result = (tmp_path / name for name in ("cells", "log", "processes", "result.nc"))
    rng, watch, killed = random.Random(0), Watch(folder, log), 0
    limit = time.monotonic() + 900

    def start() -> subprocess.Popen:
        processes.unlink(missing_ok=True)
        command = [sys.executable, SCRIPT, folder, log, processes, result]
        return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)

    driver = start()
    try:
        while killed < MOMENTS:
            assert time.monotonic() < limit
            count, wanted = len(begun(log)), rng.randint(1, 3)
            while len(begun(log)) < count + wanted and driver.poll() is None:
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.4))  # anywhere in a cell
            assert driver.poll() is None
            watch.look()
            if killed % 2 == 0:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
                driver = start()
            else:
                with contextlib.suppress(ProcessLookupError):  # one that was killed before
                    os.kill(int(rng.choice(processes.read_text().split())), signal.SIGKILL)
            killed += 1
        assert driver.wait(timeout=300) == 0
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    watch.check()
    assert len(list(folder.glob("*.nc"))) == 40
    whole = [sys.executable, SCRIPT, tmp_path / "other", tmp_path / "log2", "none", tmp_path / "whole.nc"]
    subprocess.run(whole, check=True)
    xr.testing.assert_identical(read(result), read(tmp_path / "whole.nc"))


@pytest.mark.slow
def test_vanished_scheduler(tmp_path):
    """One line, and the cells that were finished serve the next call."""
    from distributed import Client
    from killed_sweep import CELLS, make_problem, run

    place, out, log = tmp_path / "scheduler.json", tmp_path / "cells", tmp_path / "log"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), os.environ.get("PYTHONPATH", "")])}

    def start(program: str, *options: str) -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--scheduler-file", place, "--no-dashboard"]
        return subprocess.Popen([*command, *options], env=environment, stderr=subprocess.DEVNULL)

    scheduler, worker = start("scheduler", "--port", "0"), start("worker", "--nthreads", "1", "--no-nanny")
    vary = {"number": list(range(CELLS))}

    def kill_when_begun() -> None:
        while len(begun(log)) < 4:
            time.sleep(0.05)
        scheduler.kill()

    try:
        limit = time.monotonic() + 60
        while not place.exists() and time.monotonic() < limit:
            time.sleep(0.1)
        with Client(scheduler_file=str(place), timeout=60) as client:
            killer = threading.Thread(target=kill_when_begun, daemon=True)
            killer.start()
            with pytest.raises(ClusterError, match=rf"is gone.*of {CELLS} cells are finished and stay in") as raised:
                wf.sweep(make_problem(), vary, run, out, client, log=str(log))
            assert "\n" not in str(raised.value)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    count = len(begun(log))
    finished = {int(read(path)["number"]) for path in out.glob("*.nc")}
    assert finished
    found = wf.sweep(make_problem(), vary, run, out, log=str(log))
    assert found["number"].values.tolist() == list(range(CELLS))
    assert not finished & set(begun(log)[count:])


@pytest.mark.slow
def test_a_cell_that_loses_its_workers_is_named(tmp_path):
    import dask
    from distributed import Client, LocalCluster
    from killed_sweep import deadly, make_problem

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
        pytest.warns(SweepWarning, match=r"1 of 3 cells failed: number=1: KilledWorker: workers were lost"),
    ):
        found = wf.sweep(make_problem(), {"number": [0, 2, 1]}, deadly, tmp_path, client)
    # The deadly one comes last: Dask suspects all tasks that wait on a worker when it dies.
    assert found["status"].values[:2].tolist() == ["ok", "ok"]
