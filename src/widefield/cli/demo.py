"""`widefield demo`: theory against networks for five learning rules."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ResultFileError
from ..extras import require_extra

if TYPE_CHECKING:
    from ..problem.problem import Problem


def demo(
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the pictures go.")] = Path(
        "demo"
    ),
    width: Annotated[int, typer.Option(help="Neurons in the hidden layer of the networks.")] = 2000,
    seeds: Annotated[int, typer.Option(help="Networks per learning rule.")] = 4,
) -> None:
    """Five learning rules: what infinite width predicts, and what wide networks do.

    One hidden ReLU layer learns ±1 targets of 10 random points in 50 dimensions at richness 2
    (the setting of Figure 1 of Bordelon & Pehlevan), under gradient descent, feedback alignment, direct
    feedback alignment, a gated linear network and error-modulated Hebb. Pictures and results go to a folder.

    Example:

        widefield demo -o pictures
    """
    require_extra("plot", "the demonstration")
    import widefield as wf
    from widefield.results.files import check_writable
    from widefield.results.overview import Pair, overview_curves, overview_kernels
    from widefield.results.panels import save_picture
    from widefield.results.summary import final_value

    _make(folder)
    check_writable(folder / "curves.png")
    pairs: dict[str, Pair] = {}
    typer.echo(f"{'rule':<6}{'final loss, theory':<24}{'final loss, networks':<24}seconds")
    for name, problem in demo_problems().items():
        started = time.perf_counter()
        theory = wf.solve(problem)
        solved = time.perf_counter()
        networks = wf.simulate(problem, width=width, seeds=seeds)
        trained = time.perf_counter()
        pairs[name] = Pair(theory, networks)
        for kind, result in pairs[name]._asdict().items():
            result.save(folder / f"{name.lower()}-{kind}.nc")
        losses = "".join(f"{final_value(result, 'loss'):<24}" for result in pairs[name])
        typer.echo(f"{name:<6}{losses}{solved - started:.1f} + {trained - solved:.1f}")
    save_picture(overview_curves(pairs), folder / "curves.png")
    save_picture(overview_kernels(pairs), folder / "kernels.png")
    typer.echo(f"\nin {folder}: curves.png (networks in colour, theory dashed), kernels.png and the results as .nc")


def demo_problems() -> dict[str, Problem]:
    """The problems of the demo by the name of their rule."""
    import widefield as wf

    rules = {
        "GD": wf.rules.GD(),
        "FA": wf.rules.FA(rho=0.0),
        "DFA": wf.rules.DFA(),
        "GLN": wf.rules.GLN(),
        "Hebb": wf.rules.Hebb(),
    }
    drawn = wf.datasets.random_gaussian(points=10, dimension=50, seed=0)
    order = drawn.y.argsort(kind="stable")  # one class after the other, so that kernels show blocks
    data = wf.Dataset(drawn.x[order], drawn.y[order])
    training = wf.Training(steps=60, dt=0.025)
    return {
        name: wf.Problem(data, wf.MLP(depth=1, activation="relu"), rule, richness=2.0, training=training)
        for name, rule in rules.items()
    }


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultFileError(
            f"the folder {folder} cannot be made ({error.strerror}); allowed: a folder you may write to"
        ) from error
