"""`module:name` references to a user's own rules, activations and losses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ..errors import InputError, one_line

_trusted: ContextVar[bool] = ContextVar("trusted", default=True)


@contextmanager
def references_trusted(trust: bool) -> Iterator[None]:
    """Without trust, nothing is imported: a reference is an error."""
    token = _trusted.set(trust)
    try:
        yield
    finally:
        _trusted.reset(token)


def load_reference(argument: str, reference: str) -> Any:
    """Import `module:name`; a module next to the working directory is found as well."""
    if not _trusted.get():
        raise InputError(
            f"{argument} is {reference!r}, and importing it would run code that the file names; "
            "if you trust the file, wf.load(path, trust=True) allows it"
        )
    module_name, _, attribute = reference.partition(":")
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may fail in any way while it is imported
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(
            f"{argument} is {reference!r}, but module {module_name!r} cannot be imported ({reason}); "
            "allowed: module:name with a module that Python can import from here"
        ) from error
    finally:
        if added:
            sys.path.remove(here)
    target: Any = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise InputError(f"{argument} is {reference!r}, but module {module_name!r} has no {attribute!r}")
        target = getattr(target, part)
    return target
