"""Commands that are stopped at any moment, a full disk, two writers: the old result or the new one, nothing else.

The command line runs in processes of its own, which share a folder of compiled programs.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import widefield as wf
from widefield.errors import ResultFileError
from widefield.results import read_groups

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")

SOURCE = str(Path(wf.__file__).parents[1])
COMMAND = "from widefield.cli.main import main; main()"
PROBLEM = """
richness = 1.0
data = { kind = "sphere", points = 3, dimension = 4 }
network = { kind = "mlp", depth = 1, activation = "erf" }
rule = { name = "gd" }
training = { steps = 3, dt = 0.1 }
"""
# Every command with the file it writes last, the folder of what it keeps on the way, and what is done before it.
TINY = "from widefield.reproduce.run import FIGURES\nFIGURES['fig4'].sizes['quick'] = FIGURES['fig4'].sizes['tiny']\n"
COMMANDS = {
    "solve": ("solve p.toml --samples 64 --seeds 2 -o out.nc", "out.nc", None, ""),
    "simulate": ("simulate p.toml --width 8 --seeds 2 -o out.nc", "out.nc", None, ""),
    "sweep": ("sweep p.toml --simulate --width 8 --vary richness=0.5,1,2 -o out.nc", "out.nc", "out-cells", ""),
    "reproduce": ("reproduce fig4 --quick -o made", "made/index.html", "made/cache", TINY),
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MOMENTS = 10


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """Compiled programs, so that only the first process compiles."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "p.toml").write_text(PROBLEM, encoding="utf-8")
    return tmp_path


def start(folder: Path, programs: Path, arguments: str, code: str = COMMAND) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "JAX_COMPILATION_CACHE_DIR": str(programs)}
    # A background shell has its children ignore SIGINT.
    listens = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", listens + code, *arguments.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, **pipes)


def finish(process: subprocess.Popen) -> tuple[str, str]:
    try:
        return process.communicate(timeout=300)
    finally:
        process.kill()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_whole(folder: Path, *, killed: bool) -> None:
    """Every file is whole; only SIGKILL may leave a temporary name, for a file that is whole as well."""
    for path in folder.rglob("*"):
        if path.name.startswith(".widefield-"):
            assert killed, path
        elif path.suffix == ".nc":
            read_groups(path)
        elif path.suffix == ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82")
        elif path.suffix == ".html":
            assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")


def stop_at_random_moments(name: str, number: signal.Signals, folder: Path, programs: Path, moments: int) -> None:
    """Stop the command at `moments` moments between its start and its end, with an old result in place."""
    arguments, output, kept, prelude = COMMANDS[name]
    for _ in range(2):  # the second has compiled programs, and says how long it takes
        _remove(folder, kept)
        began = time.monotonic()
        process = start(folder, programs, arguments, prelude + COMMAND)
        _, err = finish(process)
        assert process.returncode == 0, err
        duration = time.monotonic() - began
    stopped, rng = 0, random.Random(f"{name} {number}")
    for _ in range(moments):
        _remove(folder, kept)
        (folder / output).write_bytes(b"old")
        process = start(folder, programs, arguments, prelude + COMMAND)
        time.sleep(rng.uniform(0, 1) * duration)
        process.send_signal(number)
        _, err = finish(process)
        if process.returncode != 0:
            stopped += 1
            assert process.returncode in (-number, 130), err
        if (folder / output).read_bytes() == b"old":
            assert process.returncode != 0
            (folder / output).unlink()
        check_whole(folder, killed=number == signal.SIGKILL)
    assert stopped >= moments // 3
    process = start(folder, programs, arguments, prelude + COMMAND)
    finish(process)
    assert process.returncode == 0
    check_whole(folder, killed=number == signal.SIGKILL)


def _remove(folder: Path, kept: str | None) -> None:
    if kept is not None:
        shutil.rmtree(folder / kept, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", COMMANDS)
def test_stopped_at_ten_moments(name, number, folder, programs):
    stop_at_random_moments(name, number, folder, programs, MOMENTS)


# One moment of each, quickly: the one at which a new file takes the place of the old one.

AT_THE_RENAMING = """
import os, signal, sys
from widefield import atomic

number, replace = int(sys.argv.pop(1)), os.replace


def stopped(*paths):
    os.kill(os.getpid(), number)
    replace(*paths)


os.replace = stopped
"""
WRITE = "atomic.write_file('out.nc', b'new')"


@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_while_the_new_file_takes_the_place_of_the_old_one(number, tmp_path):
    (tmp_path / "out.nc").write_bytes(b"old")
    process = start(tmp_path, tmp_path, str(int(number)), AT_THE_RENAMING + WRITE)
    _, err = finish(process)
    assert process.returncode == -number, err
    found = contents(tmp_path)
    if number == signal.SIGKILL:
        assert found.pop("out.nc") == b"old"
        assert list(found.values()) == [b"new"]
    else:
        assert found == {"out.nc": b"new"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_answered_as_before_when_a_file_has_been_written(number, tmp_path):
    seen = []
    before = signal.signal(number, lambda number, frame: seen.append(number))
    try:
        for content in (b"a", b"b"):
            wf.atomic.write_file(tmp_path / "file", content)
        signal.raise_signal(number)
    finally:
        signal.signal(number, before)
    assert seen == [number]


def test_threads_write_too(tmp_path):
    """Only the main thread may hold signals back."""
    with ThreadPoolExecutor(2) as pool:
        for content in (b"a", b"b"):
            pool.submit(wf.atomic.write_file, tmp_path / "file", content).result()
    assert contents(tmp_path) == {"file": b"b"}


def test_a_command_that_is_stopped_says_so_in_one_line(folder, programs):
    """SIGINT at its first step of a run that would take hours; the old result stays."""
    long = PROBLEM.replace("steps = 3", "steps = 1000000")
    (folder / "p.toml").write_text(long, encoding="utf-8")
    (folder / "out.nc").write_bytes(b"old")
    announced = (
        "from widefield.engine.run import Run\n"
        "advance = Run.advance\n"
        "def told(run, leg):\n"
        "    print('under way', flush=True)\n"
        "    return advance(run, leg)\n"
        "Run.advance = told\n"
    )
    arguments = "simulate p.toml --width 8 --seeds 1 --engine dense -o out.nc"
    process = start(folder, programs, arguments, announced + COMMAND)
    assert process.stdout is not None
    assert process.stdout.readline() == "under way\n"
    process.send_signal(signal.SIGINT)
    _, err = finish(process)
    assert process.returncode == 130
    assert err == "widefield: stopped; files that were there before are as they were\n"
    assert (folder / "out.nc").read_bytes() == b"old"
    assert sorted(os.listdir(folder)) == ["out.nc", "p.toml"]


def test_a_ctrl_c_that_python_drops_counts(folder, programs):
    """It comes while garbage is collected, where Python cannot raise: the command ends all the same, in one line."""
    unlucky = (
        "import gc, signal\n"
        "from widefield.engine.run import Run\n"
        "advance, pressed = Run.advance, []\n"
        "def press(phase, info):\n"
        "    if not pressed:\n"
        "        pressed.append(True)\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        for _ in range(1000): pass\n"
        "def told(run, leg):\n"
        "    gc.callbacks.append(press)\n"
        "    gc.collect()\n"
        "    return advance(run, leg)\n"
        "Run.advance = told\n"
    )
    (folder / "p.toml").write_text(PROBLEM.replace("steps = 3", "steps = 1000000"), encoding="utf-8")
    process = start(folder, programs, "simulate p.toml --width 8 --seeds 1 --engine dense -o out.nc", unlucky + COMMAND)
    _, err = finish(process)
    assert (process.returncode, err) == (130, "widefield: stopped; files that were there before are as they were\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_standard_output_that_is_full_is_one_line():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([sys.executable, "-m", "widefield.cli.main", "--version"], stdout=full,
                              stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("widefield: standard output cannot be written: No space left")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of address space")
def test_too_little_address_space_is_one_line_before_jax_is_loaded(folder):
    limited = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "sys.argv = ['widefield', 'solve', 'p.toml', '-o', 'out.nc']\n"
        "from widefield.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", limited], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("widefield: the limit of this process (ulimit -v) is 1.0 GiB; allowed: 2 GiB or more")
    assert done.stderr.count("\n") == 1


# A full disk

LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["solve", "simulate", "sweep", "reproduce"])
def test_a_command_on_a_full_disk_says_so_in_one_line(name, folder, tmp_path_factory):
    """A limit of file sizes stands in for the disk; compiled programs are not kept, or JAX would warn of it."""
    arguments, output, _, prelude = COMMANDS[name]
    (folder / output).parent.mkdir(exist_ok=True)
    (folder / output).write_bytes(b"old")
    nowhere = (
        "import os; del os.environ['JAX_COMPILATION_CACHE_DIR']; os.environ['JAX_ENABLE_COMPILATION_CACHE'] = '0'\n"
    )
    process = start(folder, tmp_path_factory.mktemp("none"), arguments, nowhere + prelude + LIMITED + COMMAND)
    _, err = finish(process)
    assert process.returncode == 2, err
    assert "cannot be written (File too large)" in err
    assert err.count("\n") == 1
    assert contents(folder) == {"p.toml": PROBLEM.encode(), output: b"old"}


def mount(folder: Path) -> bool:
    """A disk of 512 kB, where the test may mount one."""
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


def test_a_disk_that_is_full(tmp_path, problem, fake_result):
    """The old result stays, nothing else is left, and the next write is as good as any when there is room again."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mount(disk):
        pytest.skip("may not mount a small disk; a limit of file sizes stands in for it in test_files.py")
    try:
        small, large = fake_result(problem, runs=2), fake_result(problem, runs=300)
        small.save(disk / "out.nc")
        before = contents(disk)
        with pytest.raises(ResultFileError, match=r"out\.nc cannot be written \(No space left on device\)"):
            large.save(disk / "out.nc")
        with pytest.raises(ResultFileError, match=r"new\.nc cannot be written \(No space left on device\)"):
            large.save(disk / "new.nc")
        assert contents(disk) == before
        small.save(disk / "out.nc")
        assert wf.load(disk / "out.nc").problem == problem
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# Two processes, one file


SAVE_OFTEN = """
import sys, numpy as np, widefield as wf

result = wf.Result.from_arrays(wf.Problem.from_toml("p.toml"), {"f": np.full((4, 3), 1.0)})
print("ready", flush=True)
for number in range(40):
    result.save("out.nc")
"""


def test_two_processes_write_one_result(folder):
    """A reader sees one or the other, whole, at any moment."""
    other = start(folder, folder, "", SAVE_OFTEN)
    own = wf.Result.from_arrays(wf.Problem.from_toml(folder / "p.toml"), {"f": np.full((4, 3), 2.0)})
    own.save(folder / "out.nc")
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    seen = set()
    while other.poll() is None:
        own.save(folder / "out.nc")
        for _ in range(3):
            (value,) = {float(number) for number in wf.load(folder / "out.nc")["f"].values.flat}
            seen.add(value)
    _, err = finish(other)
    assert other.returncode == 0, err
    assert seen <= {1.0, 2.0}
    assert seen
    assert sorted(os.listdir(folder)) == ["out.nc", "p.toml"]


@pytest.mark.slow
def test_two_commands_write_one_result(folder, programs):
    arguments = "simulate p.toml --width 8 --seeds 1 --engine dense -o out.nc --seed"
    processes = [start(folder, programs, f"{arguments} {seed}") for seed in (1, 2)]
    for process in processes:
        _, err = finish(process)
        assert process.returncode == 0, err
    assert wf.load(folder / "out.nc").info["seeds"] == 1
    assert sorted(os.listdir(folder)) == ["out.nc", "p.toml"]
