"""Theory for the settings of a page, kept for the next time the same is asked."""

from __future__ import annotations

import threading

import widefield as wf

from ..errors import WidefieldError
from ..progress import Progress
from ..results.result import Result
from .settings import OPTIONS, Settings

_MOST = 64  # results of the explorer's sizes take some 100 kB each


class Solutions:
    """Results by settings, shared by all pages of a process.

    The first picture would wait for JAX to be loaded and for a program to be traced; `begin` does this while the
    page is still being loaded.
    """

    def __init__(self) -> None:
        self._kept: dict[Settings, Result] = {}
        self._lock = threading.Lock()
        self._begun: Settings | None = None
        self._ready = threading.Event()

    def begin(self, settings: Settings) -> None:
        """Solve for these settings in the background, once in a process."""
        self._begun = settings
        threading.Thread(target=self._begin, args=(settings,), daemon=True).start()

    def _begin(self, settings: Settings) -> None:
        try:
            self._keep(settings, wf.solve(settings.problem(), **OPTIONS, progress=False))
        except WidefieldError:
            pass  # the page that asks for it solves again and shows the error
        finally:
            self._ready.set()

    def solve(self, settings: Settings, watch: Progress) -> Result:
        """What `wf.solve` gives; `watch` may raise to end the work."""
        while settings == self._begun and not self._ready.wait(0.1):
            watch.update(0, 1, "starting")
        found = self._kept.get(settings)
        return found or self._keep(settings, wf.solve(settings.problem(), **OPTIONS, progress=watch))

    def _keep(self, settings: Settings, result: Result) -> Result:
        with self._lock:
            self._kept[settings] = result
            while len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]
        return result


SOLUTIONS = Solutions()
