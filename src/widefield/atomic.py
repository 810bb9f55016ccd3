"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import ResultFileError, require

_PREFIX, _SUFFIX = ".widefield-", ".tmp"
# A temporary file that nobody has written to for so long was left behind by a process that was killed.
_STALE_SECONDS = 3600
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]
# Errors of file systems, kernels and containers without nameless files.
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.EISDIR, errno.ENOENT, errno.ENOSYS)


def write_file(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Write `content` to `path`: an existing file is replaced whole or stays as it is, also if the process is killed.

    A process that ends by SIGTERM, SIGINT or SIGHUP leaves nothing else. One that is killed (−9) may leave a file under
    a temporary name, which a later call removes; on Linux only within the microsecond between naming and renaming.
    Raises a `ResultFileError` where that cannot be, e.g. on a full disk.
    """
    check_writable(path)
    target = _target(path)
    temporary = _temporary_in(target.parent)
    try:
        if not _write_nameless(target, temporary, content):
            _write_named(target, temporary, content)
    except OSError as error:
        raise ResultFileError(f"{path} cannot be written ({_reason(error)})") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise a `ResultFileError` if `path` cannot be written; meant to be called before long work."""
    target = _target(path)
    _check_target(path, target)
    folder = target.parent
    if not folder.is_dir():
        raise ResultFileError(f"{path} cannot be written (there is no folder {folder}); allowed: an existing folder")
    try:
        _try_to_write(folder)
    except OSError as error:
        raise ResultFileError(
            f"{path} cannot be written ({_reason(error)}); allowed: a folder you may write to"
        ) from error


def require_path(argument: str, value: object) -> None:
    """Check that `value` can be the path of a file."""
    allowed = "the path of a file, a str or a pathlib.Path"
    require(isinstance(value, (str, os.PathLike)), argument, value, allowed)
    text = os.fspath(value)  # type: ignore[arg-type]
    require(isinstance(text, str) and text != "" and "\0" not in text, argument, value, allowed)


def _target(path: str | os.PathLike[str]) -> Path:
    """The file itself: a link keeps pointing to the file that is replaced."""
    require_path("path", path)
    return Path(os.path.realpath(path))


def _check_target(path: str | os.PathLike[str], target: Path) -> None:
    """Nothing but a regular file that may be written to is replaced."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ResultFileError(f"{path} cannot be written ({_reason(error)})") from error
    if stat.S_ISDIR(mode):
        raise ResultFileError(f"{path} cannot be written (it is a folder); allowed: the name of a file")
    if not stat.S_ISREG(mode):
        raise ResultFileError(f"{path} cannot be written (it is a device, a pipe or a socket); allowed: a regular file")
    # The mode itself is looked at, too: a superuser may write to any file.
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise ResultFileError(f"{path} cannot be written (it is read-only); allowed: another name, or make it writable")


def _try_to_write(folder: Path) -> None:
    """Trying is the only test that also sees read-only disks and access lists."""
    descriptor = _open_nameless(folder)
    if descriptor is not None:
        os.close(descriptor)
        return
    probe = _temporary_in(folder)
    try:
        probe.touch(exist_ok=False)
    finally:
        probe.unlink(missing_ok=True)


def _temporary_in(folder: Path) -> Path:
    return folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"


def _open_nameless(folder: Path) -> int | None:
    """A file without a name, which is gone when it is closed or the process dies; None where there is no such thing."""
    nameless = getattr(os, "O_TMPFILE", None)  # Linux only
    if nameless is None:
        return None
    try:
        return os.open(folder, nameless | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            return None
        raise


def _write_nameless(target: Path, temporary: Path, content: bytes | memoryview) -> bool:
    """By way of a file that has no name before it is whole; False where that is not possible.

    No call gives a file the name of another one, so that it has a temporary name for a moment where it replaces one.
    """
    descriptor = _open_nameless(target.parent)
    if descriptor is None:
        return False
    with open(descriptor, "wb") as file:
        _write_through(file, content)
        try:
            try:
                _give_name(descriptor, target)
            except FileExistsError:
                _remove_stale(target.parent)
                with _signals_held_back():
                    _give_name(descriptor, temporary)
                    os.replace(temporary, target)
        except OSError as error:
            if error.errno in _NOT_SUPPORTED:
                return False
            raise
    return True


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Deliver signals that end the process after the block, so that none leaves a temporary name behind.

    In the main thread, the only one that may set handlers; elsewhere a later write removes what was left.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        for number, handler in before.items():
            if handler is not None:  # one that was not set by Python cannot be set again
                signal.signal(number, lambda number, frame: held.append(number))
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        for number in held:
            signal.raise_signal(number)


def _give_name(descriptor: int, path: Path) -> None:
    # With a descriptor Python follows the link in /proc; the path is absolute, so nothing else comes of it.
    os.link(f"/proc/self/fd/{descriptor}", path, dst_dir_fd=descriptor)


def _write_named(target: Path, temporary: Path, content: bytes | memoryview) -> None:
    """By way of a temporary file."""
    _remove_stale(target.parent)
    with _signals_held_back():
        with open(temporary, "xb") as file:
            _write_through(file, content)
        os.replace(temporary, target)


def _write_through(file: BinaryIO, content: bytes | memoryview) -> None:
    """To the disk itself: a full one is noticed here, and a crash after the renaming finds the content there."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _remove_stale(folder: Path) -> None:
    """Remove what killed processes left."""
    for left in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                left.unlink()


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
