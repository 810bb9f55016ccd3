"""A sweep that is killed at random moments loses nothing, computes nothing twice, and reads no half of a file."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xarray as xr

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
