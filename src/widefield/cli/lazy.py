"""`widefield lazy …`: lazy limits from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..extras import require_extra

if TYPE_CHECKING:
    from ..solvers.lazy.digits import DigitsTable

lazy_app = typer.Typer(no_args_is_help=True, help="Static kernels of every rule as the richness goes to 0.")


@lazy_app.callback()
def lazy() -> None:
    """Static kernels of every rule as the richness goes to 0."""


@lazy_app.command()
def digits(
    depths: Annotated[str, typer.Option(help="Numbers of hidden layers, with commas.")] = "1,3,5",
    activation: Annotated[str, typer.Option(help="Activation of the networks.")] = "relu",
    train: Annotated[int, typer.Option(help="Training digits.")] = 1000,
    test: Annotated[int, typer.Option(help="Test digits; there are 1797 in all.")] = 797,
    ridge: Annotated[float, typer.Option(help="Added to the diagonal of the kernel, whose mean diagonal is 1.")] = 1e-3,
    seed: Annotated[int, typer.Option(help="Which digits train and which test.")] = 0,
    picture: Annotated[
        Path, typer.Option("--output", "-o", metavar="PICTURE.png", help="Where the picture of the kernels goes.")
    ] = Path("lazy-digits.png"),
) -> None:
    """Kernel regression on handwritten digits with the lazy kernel of every learning rule.

    Prints test accuracy and log-likelihood per rule and depth, and draws the kernels. GD and FA with aligned
    feedback (ρ=1) coincide; FA with ρ=0, DFA and Hebb coincide with the NNGP.

    Example:

        widefield lazy digits --depths 1,2,4 -o kernels.png
    """
    require_extra("plot", "the picture")
    from ..errors import InputError
    from ..results.panels import check_picture
    from ..solvers.lazy.digits import digits_table

    check_picture(picture)
    try:
        layers = tuple(int(part) for part in depths.split(","))
    except ValueError as error:
        raise InputError(f"depths is {depths!r}; allowed: whole numbers with commas, such as 1,3,5") from error
    table = digits_table(layers, activation, train, test, ridge, seed, progress=None)
    _print(table, layers, train, test)
    _draw(table, picture)
    typer.echo(f"\nkernels at depth {table.depth}, digits in order: {picture}")


def _print(table: DigitsTable, depths: tuple[int, ...], train: int, test: int) -> None:
    from rich.console import Console
    from rich.table import Table

    grid = Table(title=f"digits, {train} train, {test} test: accuracy, log-likelihood per target")
    grid.add_column("rule")
    for depth in depths:
        grid.add_column(f"depth {depth}", justify="right")
    by = {(score.rule, score.depth): score for score in table.scores}
    for rule in dict.fromkeys(score.rule for score in table.scores):
        cells = (f"{by[rule, d].accuracy:.4f}  {by[rule, d].log_likelihood:+.4f}" for d in depths)
        grid.add_row(rule, *cells)
    Console().print(grid)


def _draw(table: DigitsTable, path: Path) -> None:
    from matplotlib.figure import Figure

    from ..results.panels import save_picture

    columns = 4
    rows = -(-len(table.pictures) // columns)
    figure = Figure(figsize=(3 * columns, 3.2 * rows), dpi=120, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, (name, kernel) in zip(axes, table.pictures.items(), strict=False):
        axis.imshow(kernel / kernel.diagonal().mean(), vmin=-1, vmax=1, cmap="RdBu_r", interpolation="nearest")
        axis.set_title(name)
    figure.suptitle(f"eNTK of the training digits, sorted by class, depth {table.depth}; mean diagonal 1")
    save_picture(figure, path)
