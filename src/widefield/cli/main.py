"""The entry point of the `widefield` command."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from typing import Any

from ..errors import MissingExtraError
from ..extras import require_extra


def main() -> None:
    try:
        require_extra("cli", "the command line")
    except MissingExtraError as error:
        print(f"widefield: {error}", file=sys.stderr)
        sys.exit(2)
    keep_compiled_programs()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no Greek shows "?" in its place
    sys.unraisablehook = press_again
    from .app import app

    app(prog_name="widefield")


def press_again(lost: Any) -> None:
    """Python prints and forgets a Ctrl-C that comes where it cannot raise, such as while it collects garbage.

    A moment later it comes again; at once, it would be lost again in here.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


def keep_compiled_programs() -> None:
    """Let JAX keep compiled programs between commands, unless the user has said where or that it should not.

    By environment variables, as JAX is not loaded yet, and a command that needs none of it should start at once.
    """
    from ..compilation import default_folder

    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(default_folder()))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


if __name__ == "__main__":
    main()
