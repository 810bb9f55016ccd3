"""`widefield solve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import SEED_HELP, Output, ProblemFile, check_output, report


def solve(
    file: ProblemFile,
    method: Annotated[
        str, typer.Option(help="mean_field (any problem), fixed_point, linear, lazy, or auto to have one chosen.")
    ] = "mean_field",
    samples: Annotated[int | None, typer.Option(help="Particles that stand for the infinite population.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Independent runs; their spread gives the standard errors.")] = None,
    seed: Annotated[int | None, typer.Option(help=SEED_HELP)] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="Standard error to reach; samples and runs are then chosen for you.")
    ] = None,
    output: Output = None,
) -> None:
    """What an infinitely wide network learns.

    A problem file looks like this:

        richness = 1.0          # γ₀: near 0 lazy, large rich

        [data]                  # or x and y as arrays; see wf.datasets
        kind = "random_gaussian"
        points = 10
        dimension = 50

        [network]
        kind = "mlp"
        depth = 2
        activation = "tanh"

        [rule]
        name = "fa"             # gd, fa, dfa, gln, hebb, module:Name
        rho = 0.5

        [training]
        steps = 100
        dt = 0.05

    Examples:

        widefield solve problem.toml -o theory.nc

        widefield solve problem.toml --samples 4096 --seeds 8
    """
    import widefield as wf

    output = output or Path(f"{file.stem}-theory.nc")
    check_output(output, file)
    problem = wf.Problem.from_toml(file)
    # Each method knows its own options, so only what was given is passed on.
    optional: dict[str, Any] = {"samples": samples, "seeds": seeds, "seed": seed, "accuracy": accuracy}
    given = {name: value for name, value in optional.items() if value is not None}
    report(wf.solve(problem, method=method, **given), output)
