"""`widefield simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import SEED_HELP, Output, ProblemFile, check_output, report


def simulate(
    file: ProblemFile,
    width: Annotated[int, typer.Option(help="Neurons in every hidden layer.")] = 1000,
    seeds: Annotated[int, typer.Option(help="Independent networks; their spread gives the standard errors.")] = 4,
    engine: Annotated[
        str, typer.Option(help="auto (the cheaper one), dense, or conditioned (the same law in less memory).")
    ] = "auto",
    seed: Annotated[int, typer.Option(help=SEED_HELP)] = 0,
    output: Output = None,
) -> None:
    """Train networks of a finite width on the problem in FILE.toml.

    Examples:

        widefield simulate problem.toml --width 2000 --seeds 8 -o networks.nc

        widefield simulate problem.toml --width 1000000 --seeds 1 --engine conditioned
    """
    import widefield as wf

    output = output or Path(f"{file.stem}-networks.nc")
    check_output(output, file)
    problem = wf.Problem.from_toml(file)
    report(wf.simulate(problem, width=width, seeds=seeds, engine=engine, seed=seed), output)
