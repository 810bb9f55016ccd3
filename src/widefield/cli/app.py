"""The Typer application: its commands, and what a user sees when something goes wrong."""

from __future__ import annotations

import errno
import logging
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import MemoryBudgetError, WidefieldError, one_line
from ..numerics.address_space import address_space
from ..progress import LOGGER
from .compare import compare
from .demo import demo
from .explore import explore
from .identify import identify
from .lazy import lazy_app
from .reproduce import reproduce
from .simulate import simulate
from .solve import solve
from .sweep import sweep

LEAST_ADDRESS_SPACE = 2 * 2**30  # with less, JAX aborts when it is loaded or compiles


class GuardedGroup(TyperGroup):
    """Turns every error of every command into one line on stderr; nobody is shown a traceback unasked."""

    debug = False

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        self.debug = bool(ctx.params.get("debug"))
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            typer.echo("widefield: stopped; files that were there before are as they were", err=True)
            raise typer.Exit(130) from error

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Typer answers wrong usage and a closed pipe; what it lets through is answered here."""
        try:
            return super().main(*args, **kwargs)
        except WidefieldError as error:
            typer.echo(f"widefield: {one_line(error)}", err=True)
            sys.exit(2)
        except MemoryError:
            typer.echo("widefield: there is not enough memory; lower width, samples, seeds or steps", err=True)
            sys.exit(2)
        except Exception as error:
            if self.debug:
                raise
            typer.echo(f"widefield: {_unexpected(error)}", err=True)
            sys.exit(1)


def _unexpected(error: Exception) -> str:
    # Errors of our own files are WidefieldErrors; what is left is what is printed.
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return f"standard output cannot be written: {error.strerror}"
    return f"{type(error).__name__}: {one_line(error)} (this should not happen; `widefield --debug …` shows where)"


def _show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning as one line, without the place in our code that it comes from."""
    typer.echo(f"widefield: warning: {' '.join(str(message).split())}", err=True)


def _version(asked: bool) -> None:
    if asked:
        from widefield import __version__

        typer.echo(f"widefield {__version__}")
        raise typer.Exit()


app = typer.Typer(cls=GuardedGroup, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown")


@app.callback()
def widefield(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Where stderr is no terminal: write progress to it, a line now and then.")
    ] = False,
) -> None:
    """What very wide neural networks learn under any learning rule.

    A TOML file describes the problem; `solve` gives the infinite-width answer, `simulate` trains
    networks of a finite width, `compare` holds one against the other. Start with:

        widefield demo
    """
    limit = address_space()
    if limit is not None and limit < LEAST_ADDRESS_SPACE:
        raise MemoryBudgetError(
            f"the limit of this process (ulimit -v) is {limit / 2**30:.1f} GiB; "
            f"allowed: {LEAST_ADDRESS_SPACE / 2**30:g} GiB or more, which JAX needs to start"
        )
    if log:
        lines = logging.StreamHandler()
        lines.setFormatter(logging.Formatter("%(asctime)s widefield: %(message)s"))
        LOGGER.addHandler(lines)
        LOGGER.setLevel(logging.INFO)
        context.call_on_close(lambda: LOGGER.removeHandler(lines))


for command in (demo, explore, solve, simulate, sweep, compare, identify, reproduce):
    app.command()(command)
app.add_typer(lazy_app, name="lazy")
