"""`widefield sweep`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ClusterError, InputError, one_line
from .options import SEED_HELP, Output, ProblemFile, check_output


def sweep(
    file: ProblemFile,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="FIELD=VALUES", help="What to vary: values with commas, or FROM:TO:HOW_MANY. May be repeated."
        ),
    ],
    networks: Annotated[bool, typer.Option("--simulate", help="Train networks in place of solving.")] = False,
    width: Annotated[int | None, typer.Option(help="Neurons in every hidden layer, with --simulate.")] = None,
    method: Annotated[str | None, typer.Option(help="As in `widefield solve`.")] = None,
    samples: Annotated[int | None, typer.Option(help="Particles that stand for the infinite population.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Independent runs of every cell.")] = None,
    seed: Annotated[int | None, typer.Option(help=SEED_HELP)] = None,
    output: Output = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where finished cells are kept. Default: beside the output.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://…, whose workers run the cells.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="P.png", help="Draw the loss along one field, or heat maps over two.")
    ] = None,
) -> None:
    """Solve or simulate the problem for every combination of some values.

    Finished cells are kept in a folder, so that the same command goes on after an interruption.

    Examples:

        widefield sweep problem.toml --vary richness=0.1,0.3,1 --vary rule.rho=0:1:5 -o sweep.nc --picture sweep.png

        widefield sweep problem.toml --vary width=100,200,400 --simulate --scheduler tcp://login:8786
    """
    import warnings

    import widefield as wf
    from widefield.sweeps.files import save_sweep
    from widefield.sweeps.sweeping import SweepWarning

    output = output or Path(f"{file.stem}-sweep.nc")
    check_output(output, file)
    varied = parse_all(vary)
    if picture is not None:
        from widefield.results.panels import check_picture
        from widefield.results.sweep_pictures import check_fields

        check_picture(picture)
        check_fields(name for name, values in varied.items() if len(values) > 1)
    problem = wf.Problem.from_toml(file)
    optional = {"width": width, "method": method, "samples": samples, "seeds": seeds, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    cells = folder or output.with_name(f"{output.stem}-cells")
    with connect(scheduler) as client, warnings.catch_warnings():
        warnings.simplefilter("ignore", SweepWarning)  # said below, line by line
        found = wf.sweep(problem, varied, wf.simulate if networks else wf.solve, cells, client, **given)
    save_sweep(found, output)
    if picture is not None:
        from widefield.results.panels import save_picture
        from widefield.results.sweep_pictures import plot_sweep

        save_picture(plot_sweep(found), picture)
    _report(found, output, picture)


def _report(found: Any, output: Path, picture: Path | None) -> None:
    import json

    failures = json.loads(found.attrs["failures"])
    for cell, message in failures.items():
        typer.echo(f"failed: {cell}: {message}", err=True)
    typer.echo(f"{found['status'].size} cells, {len(failures)} failed")
    for path in (output, picture):
        if path is not None:
            typer.echo(f"written to {path}")
    if len(failures) == found["status"].size:
        raise typer.Exit(1)


def parse_all(texts: list[str]) -> dict[str, list[Any]]:
    """`FIELD=VALUES`, each field once."""
    varied: dict[str, list[Any]] = {}
    for text in texts:
        field, equals, values = text.partition("=")
        if not equals or not field.strip() or not values.strip():
            raise InputError(f"vary is {text!r}; allowed: FIELD=VALUES, e.g. richness=0.1,0.3,1 or rule.rho=0:1:5")
        if field.strip() in varied:
            raise InputError(f"vary names {field.strip()} twice; allowed: each field once")
        varied[field.strip()] = _values(text, values)
    return varied


def _values(text: str, values: str) -> list[Any]:
    if values.count(":") == 2 and "," not in values:
        import numpy as np

        try:
            first, last, count = (_scalar(part) for part in values.split(":"))
            if not isinstance(count, int) or count < 2 or isinstance(first, str) or isinstance(last, str):
                raise ValueError
        except ValueError as error:
            raise InputError(f"vary is {text!r}; allowed: FROM:TO:HOW_MANY with two numbers and 2 or more") from error
        spaced = np.linspace(first, last, count)
        whole = isinstance(first, int) and isinstance(last, int) and np.array_equal(spaced, np.round(spaced))
        return [int(value) if whole else float(value) for value in spaced]
    return [_scalar(part) for part in values.split(",")]


def _scalar(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def connect(scheduler: str | None) -> Any:
    """A client of the scheduler, or nothing to close."""
    if scheduler is None:
        return nullcontext()
    from ..extras import require_extra

    require_extra("dask", "--scheduler")
    import logging

    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # one clear line is ours to write
    try:
        return Client(scheduler, timeout="10s")
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(f"no Dask scheduler answers at {scheduler} ({one_line(error)})") from error
