"""Options that several commands share, and what they all do before and after their work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..results.result import Result

ProblemFile = Annotated[Path, typer.Argument(metavar="FILE.toml", help="The problem; see `widefield solve --help`.")]
SEED_HELP = "The random seed; the same seed gives the same numbers."
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="OUT.nc", help="Where to save the result. Default: named after FILE, here."),
]


def check_output(output: Path, file: Path) -> None:
    """Raise before any work if the result cannot be written, or would replace the problem that it is about."""
    from ..atomic import check_writable
    from ..errors import InputError

    check_writable(output)
    if output.exists() and file.exists() and output.samefile(file):
        raise InputError(f"output is {output}, the problem file itself; allowed: another name")
    if output.exists() and any(output.samefile(data) for data in data_files(file)):
        raise InputError(f"output is {output}, which holds the problem's data; allowed: another name")


def data_files(file: Path) -> list[Path]:
    """Files that a problem file reads; what is wrong with it is said when it is read as a problem."""
    import tomllib

    try:
        table = tomllib.loads(file.read_text(encoding="utf-8-sig")).get("data")
    except (OSError, ValueError, RecursionError):
        return []
    named = [table.get("path")] if isinstance(table, dict) else []
    found = [file.parent / name for name in named if isinstance(name, str) and "\0" not in name]
    return [path for path in found if path.exists()]


def report(result: Result, output: Path) -> None:
    """Save the result and print its summary."""
    result.save(output)
    typer.echo(result.summary())
    typer.echo(f"\nwritten to {output}")
