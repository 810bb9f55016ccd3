"""The entry point of the `widefield` command."""

from __future__ import annotations

import io
import sys

from ..errors import MissingExtraError
from ..extras import require_extra


def main() -> None:
    try:
        require_extra("cli", "the command line")
    except MissingExtraError as error:
        print(f"widefield: {error}", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no Greek shows "?" in its place
    from .app import app

    app(prog_name="widefield")


if __name__ == "__main__":
    main()
