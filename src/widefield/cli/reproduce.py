"""`widefield reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..extras import require_extra


def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="[FIG]...", help="fig1 … fig7; all of them if none is named.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller runs: some 3 minutes on 2 cores in place of 35.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Where all goes. Default: reproduction, or reproduction-quick."
        ),
    ] = None,
) -> None:
    """The figures and claims of Bordelon & Pehlevan (ICLR 2023): theory, networks and a page of verdicts.

    Writes pictures (PNG, PDF), the data behind them (netCDF) and `index.html`. Finished runs are kept, so an
    interrupted command goes on where it stopped.

    Examples:

        widefield reproduce --quick

        widefield reproduce fig1 fig4 -o figures
    """
    require_extra("plot", "reproducing figures")
    require_extra("digits", "reproducing figures")
    from widefield.reproduce import reproduce as compute

    size = "quick" if quick else "full"
    made = compute(figures or (), size=size, folder=folder or Path("reproduction-quick" if quick else "reproduction"))
    failed = [(claim, verdict) for claim, verdict in made.claims if not verdict.holds]
    typer.echo(f"{', '.join(made.data)}: {len(made.claims) - len(failed)} of {len(made.claims)} claims hold")
    for claim, verdict in failed:
        typer.echo(f"  does not hold: {claim.text} ({claim.where}): {verdict.what} {verdict.number}")
    typer.echo(f"written to {made.page}")
