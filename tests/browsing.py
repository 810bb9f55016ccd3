"""A tab of a real browser, for tests of pages."""

from __future__ import annotations

import shutil
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell")
BROWSER = next((found for name in NAMES if (found := shutil.which(name))), None)


class Tab:
    """A browser tab that remembers what it asked for and what went wrong."""

    def __init__(self, browser: Any, url: str, width: int = 1280):
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)

    def close(self) -> None:
        self.page.close()
        assert self.errors == []
