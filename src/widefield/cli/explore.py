"""`widefield explore`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..extras import require_extra


def explore(
    port: Annotated[int, typer.Option(help="Port of this machine; 0 takes a free one.")] = 0,
    show: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """A page with sliders: what infinitely wide networks learn, while you move them.

    It is served on this machine only (127.0.0.1), under an address with a random token, and fetches nothing from
    elsewhere. Ctrl-C ends it.

    Example:

        widefield explore
    """
    require_extra("explore", "the explorer")
    require_extra("plot", "the explorer")
    from widefield.explore.settings import Settings
    from widefield.explore.solutions import SOLUTIONS

    SOLUTIONS.begin(Settings())  # while the libraries of the page are loaded
    from widefield.explore.serve import start

    running = start(port, threaded=False)
    typer.echo(f"the explorer is at {running.url} (Ctrl-C ends it)")
    if show:
        typer.launch(running.url)
    running.server.io_loop.start()
