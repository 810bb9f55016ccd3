"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import ResultFileError


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Give a temporary name in the folder of `path`; what was written there becomes `path` if all went well.

    An existing file is untouched until then, and nothing is left behind after a failure.
    """
    target = Path(os.path.realpath(path))  # a link keeps pointing to the file that is replaced
    check_writable(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise ResultFileError(f"{path} cannot be written ({_reason(error)})") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Raise a `ResultFileError` if `path` cannot be written; meant to be called before long work."""
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise ResultFileError(f"{target} cannot be written (it is a folder); allowed: the name of a file")
    if not folder.is_dir():
        raise ResultFileError(f"{target} cannot be written (there is no folder {folder}); allowed: an existing folder")
    # Trying is the only test that also sees read-only disks and access lists.
    probe = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        with open(probe, "xb"):
            pass
        probe.unlink()
    except OSError as error:
        raise ResultFileError(
            f"{target} cannot be written ({_reason(error)}); allowed: a folder you may write to"
        ) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
