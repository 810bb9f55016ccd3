"""A server for this machine only, behind a random token."""

from __future__ import annotations

import re
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any

import panel as pn
from tornado.web import HTTPError, RequestHandler

from ..errors import InputError
from .page import make_page

ADDRESS = "127.0.0.1"


class Forbidden(RequestHandler):
    def prepare(self) -> None:
        raise HTTPError(403)


@dataclass(frozen=True)
class Explorer:
    """A running explorer: its address, token included, and how to end it."""

    url: str
    server: Any

    def stop(self) -> None:
        self.server.stop()


def start(port: int = 0, threaded: bool = True) -> Explorer:
    """Serve the page; port 0 takes a free one. Without `threaded` the server is made and not started yet."""
    port = port or _free_port()
    if _taken(port):
        raise InputError(f"port is {port}, which is taken; allowed: a free port, or 0 to have one found")
    token = secrets.token_urlsafe(16)
    # Scripts and styles of the libraries are no secret; every other address needs the token.
    others = rf"/(?!{re.escape(token)}(/|$)|static/).*"
    server: Any = pn.serve(
        {token: make_page}, address=ADDRESS, port=port, websocket_origin=f"{ADDRESS}:{port}", show=False,
        start=threaded, threaded=threaded, extra_patterns=[(others, Forbidden)], verbose=False, title="widefield",
    )  # fmt: skip
    while threaded and server.is_alive() and not _taken(port):
        time.sleep(0.01)  # until the thread listens
    return Explorer(f"http://{ADDRESS}:{port}/{token}", server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0
