"""Long work beside a page: one thread per page, the latest order wins, and any order can be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import WidefieldError, one_line

Later = Callable[[Callable[[], None]], Any]


class Cancelled(Exception):
    """Ends a run from inside its progress report."""


class Watch:
    """The progress of one order: passes it on as long as the order is the latest."""

    def __init__(self, jobs: Jobs, order: int):
        self._jobs, self._order = jobs, order

    def update(self, done: int, total: int, message: str = "") -> None:
        if self._jobs.latest != self._order:
            raise Cancelled
        self._jobs.later(lambda: self._jobs.on_progress(done / max(total, 1), message))


class Jobs:
    """Runs functions of a `Watch` one at a time.

    Args:
        later: runs a function in the page's own thread.
        on_progress: gets the share that is done and a message.
        on_end: gets an empty text, or why it ended.
    """

    def __init__(self, later: Later, on_progress: Callable[[float, str], None], on_end: Callable[[str], None]):
        self.later, self.on_progress, self.on_end = later, on_progress, on_end
        self.latest = 0
        self._pool = ThreadPoolExecutor(max_workers=1)

    def start(self, work: Callable[[Watch], Callable[[], None]]) -> None:
        """Do `work`, then what it returns in the page's own thread; whatever was under way is cancelled."""
        self.latest += 1
        self._pool.submit(self._do, self.latest, work)

    def cancel(self) -> None:
        self.latest += 1
        self.on_end("cancelled")

    def close(self) -> None:
        self.latest += 1
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _do(self, order: int, work: Callable[[Watch], Callable[[], None]]) -> None:
        watch = Watch(self, order)
        try:
            watch.update(0, 1, "starting; the first run of a kind is compiled")
            show = work(watch)
            watch.update(1, 1)
        except Cancelled:
            return
        except WidefieldError as error:
            reason = one_line(error)
            self.later(lambda: self.on_end(reason))
            return
        except Exception as error:
            reason = f"{type(error).__name__}: {one_line(error)}"
            self.later(lambda: self.on_end(reason))
            return
        self.later(lambda: self._finish(order, show))

    def _finish(self, order: int, show: Callable[[], None]) -> None:
        if order == self.latest:
            show()
            self.on_end("")
