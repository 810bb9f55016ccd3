"""`widefield compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..extras import require_extra

if TYPE_CHECKING:
    from ..results.comparison import Deviation


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
    from widefield.results.comparison import compare_numbers
    from widefield.results.panels import check_picture, save_picture
    from widefield.results.pictures import compare_results

    check_picture(output)
    first, second = wf.load(a), wf.load(b)
    deviations = compare_numbers(first, second)
    save_picture(compare_results(first, second), output)
    print_deviations(f"{a.name} − {b.name}", deviations)
    typer.echo(f"written to {output}")


def print_deviations(title: str, deviations: list[Deviation]) -> None:
    """The table of deviations; "relative" is the rms over that of the second result."""
    from rich.console import Console
    from rich.table import Table

    from ..results.comparison import format_number

    caption = "s.e.: in combined standard errors, which few runs give only roughly"
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("variable", no_wrap=True)
    for heading in ("largest", "rms", "relative", "largest/s.e.", "rms/s.e."):
        table.add_column(heading, justify="right")
    for row in deviations:
        table.add_row(row.variable, *(format_number(number) for number in row.numbers))
    Console().print(table)
