"""`widefield identify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import SEED_HELP


def identify(
    observed: Annotated[
        Path, typer.Argument(metavar="OBSERVED.nc", help="What `Observation.save` wrote, or one network's result.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="A problem with [candidates.NAME] or [vary].")],
    width: Annotated[int | None, typer.Option(help="Neurons per layer of the observed network, if known.")] = None,
    gain: Annotated[float | None, typer.Option(help="Fix the gain of kernels. Default: fitted.")] = None,
    time_scale: Annotated[float | None, typer.Option(help="Fix the speed of learning. Default: fitted.")] = None,
    rdm: Annotated[bool, typer.Option("--rdm", help="Use dissimilarities only.")] = False,
    none: Annotated[float, typer.Option(help="Prior probability that no candidate is right.")] = 0.05,
    networks: Annotated[int, typer.Option(help="Networks per candidate, where a width is given.")] = 16,
    others: Annotated[
        bool, typer.Option(help="Predict the usual rules that are not candidates, too, to tell none of these.")
    ] = True,
    samples: Annotated[int | None, typer.Option(help="Particles that stand for the infinite population.")] = None,
    seed: Annotated[int, typer.Option(help=SEED_HELP)] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="PAGE.png", help="Draw the answer.")] = None,
) -> None:
    """Which learning rule did this?

    The file is a problem (see `widefield solve --help`) and its variants, by name:

        [candidates.gd]
        rule = {name = "gd"}

        [candidates.fa]
        rule = {name = "fa", rho = 0.0}
        richness = 2.0

    or values of its fields:

        [vary]
        "rule.rho" = [0.0, 0.5, 1.0]
        richness = [0.5, 1.0, 2.0]

    Example:

        widefield identify observed.nc candidates.toml --width 1000 -o which.png
    """
    import widefield as wf
    from widefield.problem.toml import read_variants

    if output is not None:
        from ..extras import require_extra

        require_extra("plot", "the picture")
        from widefield.results.panels import check_picture

        check_picture(output)
    seen = wf.Observation.load(observed)
    problems, vary = read_variants(file)
    options: dict[str, Any] = {} if samples is None else {"samples": samples}
    found = wf.identify(
        seen, problems, vary=vary, width=width, gain=gain, kind="rdm" if rdm else None, none=none, networks=networks,
        others=others, seed=seed, time_scale=time_scale, **options,
    )  # fmt: skip
    typer.echo(found.summary())
    if output is not None:
        from widefield.results.panels import save_picture

        save_picture(found.plot(), output)
        typer.echo(f"written to {output}")
