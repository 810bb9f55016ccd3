"""`widefield compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..extras import require_extra

if TYPE_CHECKING:
    from ..results.comparison import Comparison


def compare(
    a: Annotated[Path, typer.Argument(metavar="A.nc", help="A result of `solve` or `simulate`.")],
    b: Annotated[Path, typer.Argument(metavar="B.nc", help="The result to hold it against.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PAGE.png", help="The picture: png, pdf, svg, …")
    ] = Path("compare.png"),
) -> None:
    """Hold two results against each other: a page of pictures, and the numbers.

    Example:

        widefield compare theory.nc networks.nc -o page.png
    """
    require_extra("plot", "the picture")
    import widefield as wf
    from widefield.results.panels import check_picture, save_picture

    check_picture(output)
    found = wf.compare(wf.load(a), wf.load(b))
    save_picture(found.plot(), output)
    print_comparison(f"{a.name} − {b.name}", found)
    typer.echo(f"written to {output}")


def print_comparison(title: str, found: Comparison) -> None:
    """The table of deviations; "relative" is the rms over that of the second result."""
    from rich.console import Console
    from rich.table import Table

    caption = "s.e.: in combined standard errors; chance: probability of so large a deviation by chance, at most"
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column(found.headings[0], no_wrap=True)
    for heading in found.headings[1:]:
        table.add_column(heading, justify="right")
    for row in found.rows():
        table.add_row(*row)
    Console().print(table)
