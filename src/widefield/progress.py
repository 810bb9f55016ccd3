"""Progress reporting for long runs."""

from __future__ import annotations

import html
import inspect
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from .errors import InputError, shown
from .extras import has_extra, require_extra

LOGGER = logging.getLogger("widefield")


@runtime_checkable
class Progress(Protocol):
    """Anything with `update`; a run calls it as often as it likes, `done` of `total` being its own unit of work."""

    def update(self, done: int, total: int, message: str = "") -> None:
        """Called as the run goes on; an exception raised here stops the run.

        Args:
            done: how much of the work is done, in units of the run's own.
            total: how much there is in all.
            message: what is being done.
        """
        ...


class Reporter:
    """Passes updates on and cleans up at the end: `with make_progress(progress) as bar: bar.update(1, 10)`."""

    def __init__(self, target: Progress | None = None, close: Callable[[], None] = lambda: None):
        self._target = target
        self._close = close

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def update(self, done: int, total: int, message: str = "") -> None:
        if self._target is not None:
            self._target.update(done, total, message)


class RichBar:
    """A bar on stderr that appears at the first update and is gone at the last."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def update(self, done: int, total: int, message: str = "") -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(message, total=total)
        self._bar.update(self._task, completed=done, total=total, description=message)
        if done >= total:
            self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _takes_three(update: Callable[..., None]) -> bool:
    """Whether it can be called with done, total and a message; a dictionary's `update` cannot."""
    try:
        inspect.signature(update).bind(0, 1, "")
    except (TypeError, ValueError):  # of other arguments, or of a builtin that does not say
        return False
    return True


class NotebookBar:
    """A bar below a notebook's cell, a plain HTML element that needs no widgets; gone at the end."""

    EVERY = 0.2  # seconds between updates: each is a message to the browser

    def __init__(self) -> None:
        self._shown: Any = None
        self._last = 0.0

    def update(self, done: int, total: int, message: str = "") -> None:
        now = time.monotonic()
        if self._shown is None or now - self._last >= self.EVERY:
            self._last = now
            self._show(f"<progress value='{done}' max='{total}'></progress> {done}/{total} {html.escape(message)}")

    def close(self) -> None:
        if self._shown is not None:
            self._show("")

    def _show(self, text: str) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found]

        if self._shown is None:
            self._shown = display(HTML(text), display_id=True)
        else:
            self._shown.update(HTML(text))


class LogLines:
    """Lines in the log `widefield`, at level INFO: the first update, then one every `EVERY` seconds."""

    EVERY = 10.0

    def __init__(self) -> None:
        self._last: float | None = None

    def update(self, done: int, total: int, message: str = "") -> None:
        now = time.monotonic()
        if self._last is None or now - self._last >= self.EVERY:
            self._last = now
            LOGGER.info("%d/%d %s", done, total, message)


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this code; imports nothing."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def make_progress(progress: bool | Progress | None) -> Reporter:
    """True: a bar; False: silence; or a `Progress`.

    None: a bar in a notebook, or on a terminal if Rich is there; else lines in the log, which nobody sees
    who has not set up logging.
    """
    notebook = in_notebook()
    if progress is None:
        progress = notebook or (sys.stderr.isatty() and has_extra("cli")) or LogLines()
    if progress is True and notebook:
        below = NotebookBar()
        return Reporter(below, below.close)
    if progress is True:
        require_extra("cli", "progress=True")
        bar = RichBar()
        return Reporter(bar, bar.close)
    if progress is False:
        return Reporter()
    if isinstance(progress, Progress) and not isinstance(progress, type) and _takes_three(progress.update):
        return Reporter(progress)
    raise InputError(
        f"progress is {shown(progress)}; allowed: True, False, None or an object with update(done, total, message)"
    )
