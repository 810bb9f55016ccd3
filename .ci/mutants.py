"""`make mutants`: break the code at random places, one at a time, and see which breaks the fast tests notice.

Cosmic Ray makes the mutants. Each one is a copy of the sources with one change, tested in a process that is forked
after everything else has been imported. The tests must pass without any change: run `make test` first.

`make covered` writes down which tests run which line. With that, a mutant meets these tests, the shortest first, and
then those of `TESTS`; without, those of `TESTS` alone, which takes longer and notices less.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
COVERED = ROOT / ".venv/covered"  # what `make covered` writes
SECONDS = 90  # for the tests of one mutant
MOST = 40  # seconds of tests that run a line, of which some hundreds may
# Changes of these change no behaviour, and are not made.
IDLE_ARGUMENTS = (
    "strict", "optimize",  # a check of what is equal anyway, and the order in which products are summed
    "alpha", "fontsize", "linewidth", "rotation", "shrink", "zorder",  # the look of pictures
)  # fmt: skip
IDLE_DECORATORS = ("@abc.abstractmethod", "@dataclass_transform", "@lru_cache", "@jax.jit", "@partial(jax.jit")
# The tests of every file, by the beginning of its path in src/widefield; the first that fits.
TESTS = {
    "engine/stability": "stability",
    "engine/checkpoint": "checkpoint",
    "engine/two_time": "options two_time",
    "engine/order": "program",
    "engine/prepare": "options stability program recurrent",
    "engine/run": "options stability contracts",
    "engine/dense": "program conditioned recurrent_structure",
    "engine/devices": "devices",
    "engine/crew": "options devices",
    "engine/interpretation": "program recurrent_structure conditioned",
    "engine/sources": "low_rank replicates options",
    "engine": "options low_rank conditioned program",
    "results/growth": "stability",
    "results/derived": "derived",
    "results/estimate": "results replicates derived",
    "results/files": "files",
    "results/netcdf": "files",
    "results/stored": "files",
    "results/validity": "files",
    "results/labels": "files replicates",
    "results/sweep_pictures": "sweep",
    "results": "pictures results replicates statistics",
    "solvers/fixed_point": "fixed_point_factor fixed_point",
    "solvers/lazy/digits": "lazy_digits",
    "solvers/lazy/frames": "recurrent_lazy",
    "solvers/lazy/kernels": "lazy_kernels lazy_predict recurrent_lazy",
    "solvers/lazy": "lazy_kernels lazy_predict lazy_tiles lazy_finite",
    "solvers/linear/recurrent": "recurrent_linear",
    "solvers/linear": "linear",
    "solvers/mean_field": "options derived aim mean_field",
    "solvers": "options bad_input",
    "rules": "problem rules contracts bad_input program",
    "problem/losses": "problem derived bad_input",
    "problem/training": "problem options toml bad_input",
    "problem/problem": "problem toml bad_input pickle recurrent_structure",
    "problem/activations": "problem bad_input lazy_kernels",
    "problem/networks/layout": "problem lazy_kernels lazy_finite program",
    "problem/networks": "problem bad_input program recurrent",
    "problem": "problem toml bad_input pickle",
}
PARTS = ("engine", "results", "solvers", "rules", "problem")


@dataclass(frozen=True)
class Mutant:
    path: Path
    operator: str
    occurrence: int
    line: int


@lru_cache
def places(path: Path) -> dict[int, list[Mutant]]:
    """All mutants of a file, by the place that they change."""
    tree = get_ast_from_path(path)
    found: dict[int, list[Mutant]] = {}
    for name in operator_names():
        # Cosmic Ray's ExceptionReplacer fails on exceptions that are named by an attribute.
        if get_operator(name).arguments() or name.endswith("/ExceptionReplacer"):
            continue
        operator = get_operator(name)()
        positions = [(node, at) for node in ast_nodes(tree) for at, _ in operator.mutation_positions(node)]
        for occurrence, (node, (line, column)) in enumerate(positions):
            if not is_annotation(node) and not is_idle(node):
                found.setdefault(1000 * line + column, []).append(Mutant(path, name, occurrence, line))
    return found


def is_annotation(node) -> bool:
    """Whether a place is part of a type, which nothing reads when the program runs."""
    while node.parent is not None:
        before, node = node, node.parent
        if node.type == "annassign" and before is node.children[1]:
            return True
        if node.type == "tfpdef" or (node.type == "funcdef" and before is node.annotation):
            return True
        if node.type in ("classdef", "suite"):
            return False
    return False


def is_idle(node) -> bool:
    """Whether a place is a decorator or the value of an argument that changes no behaviour."""
    if node.type == "decorator":
        return node.get_code().strip().startswith(IDLE_DECORATORS)
    while node.parent is not None and node.parent.type != "arglist":
        node = node.parent
        if node.type == "argument" and node.children[0].type == "name":
            return node.children[0].value in IDLE_ARGUMENTS
    return False


def choose(count: int, seed: int) -> list[Mutant]:
    """A random sample: files by their length, then any place in one, then any change of it."""
    rng = random.Random(seed)
    files = sorted(file for part in PARTS for file in (ROOT / "src/widefield" / part).rglob("*.py"))
    lengths = [file.stat().st_size for file in files]
    chosen: dict[tuple[Path, int], Mutant] = {}
    while len(chosen) < count:
        file = rng.choices(files, lengths)[0]
        found = places(file)
        if found:
            place = rng.choice(sorted(found))
            chosen.setdefault((file, place), rng.choice(found[place]))
    return list(chosen.values())


def tests_of(path: Path) -> list[str]:
    name = str(path.relative_to(ROOT / "src/widefield"))
    return [f"tests/test_{test}.py" for test in next(v for k, v in TESTS.items() if name.startswith(k)).split()]


class Covered:
    """Which fast tests run a line, and for how long."""

    def __init__(self, folder: Path):
        from coverage import CoverageData

        self._data = CoverageData(str(folder / "coverage"))
        self._data.read()
        cases = ElementTree.parse(folder / "tests.xml").iter("testcase")
        self._seconds = {(case.get("classname"), case.get("name")): float(case.get("time", 0)) for case in cases}

    def seconds(self, test: str) -> float:
        file, name = test.split("::", 1)
        return self._seconds.get((file.removesuffix(".py").replace("/", "."), name), 0.0)

    def tests_of(self, path: Path, line: int) -> list[str]:
        """The shortest first, as many as fit into `MOST` seconds; none for lines that run when a module is imported."""
        found = {test.rsplit("|", 1)[0] for test in self._data.contexts_by_lineno(str(path)).get(line, []) if test}
        kept, total = [], 0.0
        for test in sorted(found, key=lambda test: (self.seconds(test), test)):
            total += self.seconds(test)
            if kept and total > MOST:
                break
            kept.append(test)
        return kept


def caught(tree: Path, tests: list[str]) -> str:
    """`caught`, `survived` or `out of time`, from a process of its own."""
    child = os.fork()
    if child == 0:
        os.setsid()
        sink = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(sink, stream)
        os.chdir(tree)
        sys.path[:0] = [str(tree / "src")]
        os.environ["PYTHONPATH"] = str(tree / "src")
        import pytest

        code = 1
        try:
            code = int(pytest.main(["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
        finally:
            os._exit(code)
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "caught"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "out of time"


def difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(f"    {line}" for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def load_everything_else() -> None:
    """What all mutants share; no computation, so that a fork is safe."""
    import equinox  # noqa: F401
    import h5netcdf  # noqa: F401
    import hypothesis  # noqa: F401
    import jax.numpy  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import typer.testing  # noqa: F401
    import xarray  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    covered = Covered(COVERED) if (COVERED / "tests.xml").exists() else None
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        # Programs that a mutant does not change are compiled once; the key is the program itself.
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", f"{folder}/programs")
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "1",
                       "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05"}  # fmt: skip
        sys.dont_write_bytecode = True
        load_everything_else()
        for mutant in choose(arguments.sample, arguments.seed):
            before = mutant.path.read_text(encoding="utf-8")
            after = mutate_code(before, get_operator(mutant.operator)(), mutant.occurrence)
            if after is None or after == before:
                continue
            target = tree / mutant.path.relative_to(ROOT)
            target.write_text(after, encoding="utf-8")
            rounds = [covered.tests_of(mutant.path, mutant.line)] if covered else []
            outcome = "survived"
            for tests in (*rounds, tests_of(mutant.path)):
                outcome = caught(tree, tests) if tests and outcome == "survived" else outcome
            target.write_text(before, encoding="utf-8")
            counts[outcome] += 1
            print(f"{outcome}: {mutant.path.relative_to(ROOT)}:{mutant.line}", flush=True)
            if outcome != "caught":
                print(difference(before, after), flush=True)
    total = sum(counts.values())
    print(f"{counts['caught']} of {total} caught ({100 * counts['caught'] / max(total, 1):.0f} %), "
          f"{counts['survived']} survived, {counts['out of time']} out of time")  # fmt: skip


if __name__ == "__main__":
    main()
