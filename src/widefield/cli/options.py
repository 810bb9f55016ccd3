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


def report(result: Result, output: Path) -> None:
    """Save the result and print its summary."""
    result.save(output)
    typer.echo(result.summary())
    typer.echo(f"\nwritten to {output}")
