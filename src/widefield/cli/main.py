"""The entry point of the `widefield` command."""

from __future__ import annotations

import sys

from ..errors import MissingExtraError
from ..extras import require_extra


def main() -> None:
    try:
        require_extra("cli", "the command line")
    except MissingExtraError as error:
        print(f"widefield: {error}", file=sys.stderr)
        sys.exit(2)
    from .app import app

    app(prog_name="widefield")


if __name__ == "__main__":
    main()
