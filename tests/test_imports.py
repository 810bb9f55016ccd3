"""Imports in src/widefield go along the arrows of the map in CONTRIBUTING.md, and nowhere else."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "widefield"


class Arrows(NamedTuple):
    """Rooms that a room may import: anywhere, or only inside a function."""

    anywhere: frozenset[str]
    deferred: frozenset[str]


class Import(NamedTuple):
    line: int
    module: str  # below widefield, e.g. "problem.networks"; "" is the public interface
    deferred: bool  # inside a function or for type checkers only


def read_map() -> dict[str, Arrows]:
    """The block of CONTRIBUTING.md that starts with ```map; a word in parentheses is a deferred import."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```map\n(.*?)```", text, flags=re.DOTALL)
    arrows: dict[str, Arrows] = {}
    shared: frozenset[str] = frozenset()
    for line in filter(None, block.splitlines()):
        rooms, _, targets = line.partition("→")
        named = frozenset(re.findall(r"[\w.]+", re.sub(r"\(.*?\)", "", targets)))
        deferred = frozenset(word for group in re.findall(r"\((.*?)\)", targets) for word in group.split())
        for room in rooms.split():
            assert room not in arrows, f"{room} is on the map twice"
            arrows[room] = Arrows(named | shared, named | shared | deferred)
        if not arrows.keys() - set(rooms.split()):
            shared = frozenset(arrows)  # the first line: what every room may import
    return arrows


def room_of(module: str, rooms: dict[str, Arrows]) -> str | None:
    """The longest entry of the map that `module` is in."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in rooms), None)


def imports_of(path: Path) -> list[Import]:
    package = ("widefield", *path.relative_to(PACKAGE).parent.parts)
    found: list[Import] = []

    def visit(node: ast.AST, deferred: bool) -> None:
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            # `from . import name` may name modules of a package.
            names = [(*module, alias.name) for alias in node.names]
            targets = names if not node.module or len(module) == 1 else [module]
            found.extend(Import(node.lineno, ".".join(t[1:]), deferred) for t in targets if t[0] == "widefield")
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found.extend(Import(node.lineno, ".".join(n[1:]), deferred) for n in names if n[0] == "widefield")
        later = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
            isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        )
        for child in ast.iter_child_nodes(node):
            visit(child, deferred or later)

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


def test_every_part_is_on_the_map():
    rooms = read_map()
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    on_the_map = {room.partition(".")[0] for room in rooms}
    assert parts - {"__init__"} == on_the_map - {"widefield"}
    for room in rooms.keys() - {"widefield"}:
        place = PACKAGE.joinpath(*room.split("."))
        assert place.is_dir() or place.with_suffix(".py").exists(), f"{room} does not exist"
    for room, arrows in rooms.items():
        assert arrows.deferred <= rooms.keys(), f"{room} → {sorted(arrows.deferred - rooms.keys())}, not on the map"


def test_arrows_have_no_cycle():
    rooms = read_map()
    TopologicalSorter({room: arrows.anywhere - {room} for room, arrows in rooms.items()}).prepare()


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_map(path):
    rooms = read_map()
    own = "widefield" if path == PACKAGE / "__init__.py" else None
    own = own or room_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts), rooms)
    assert own is not None
    for found in imports_of(path):
        target = room_of(found.module, rooms) or "widefield"
        allowed = rooms[own].deferred if found.deferred else rooms[own].anywhere
        where = "inside a function" if found.deferred else "at the top"
        assert target == own or target in allowed, (
            f"{path.name}:{found.line} imports {found.module or 'widefield'} {where}; "
            f"the map lets {own} import {', '.join(sorted(allowed))}"
        )
