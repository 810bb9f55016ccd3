"""`module:name` references to a user's own rules, activations and losses."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from ..errors import InputError, one_line

T = TypeVar("T")

_folder: ContextVar[Path | None] = ContextVar("folder", default=None)
_trusted: ContextVar[bool] = ContextVar("trusted", default=True)
_search_path = RLock()  # sys.path belongs to the whole process


@contextmanager
def modules_beside(folder: Path | None) -> Iterator[None]:
    """References are looked up in `folder` first, the folder of the file that holds them."""
    token = _folder.set(None if folder is None else folder.resolve())
    try:
        yield
    finally:
        _folder.reset(token)


@contextmanager
def references_trusted(trust: bool) -> Iterator[None]:
    """Without trust, nothing is imported: a reference is an error."""
    token = _trusted.set(trust)
    try:
        yield
    finally:
        _trusted.reset(token)


def load_reference(argument: str, reference: str) -> Any:
    """Import `module:name`; modules beside the file that is read and in the working directory are found as well."""
    if not _trusted.get():
        raise InputError(
            f"{argument} is {reference!r}, and importing it would run code that the file names; "
            "if you trust the file, wf.load(path, trust=True) allows it"
        )
    module_name, _, attribute = reference.partition(":")
    folder = _folder.get()
    try:
        with _search_path:
            module = _import_from([folder, Path.cwd()] if folder else [Path.cwd()], module_name)
    except Exception as error:  # a user's module may fail in any way while it is imported
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(
            f"{argument} is {reference!r}, but module {module_name!r} cannot be imported ({reason}); "
            "allowed: module:name with a module beside the file, in the working directory or installed"
        ) from error
    if folder is not None:
        _check_origin(argument, module_name, module, folder)
    target: Any = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise InputError(f"{argument} is {reference!r}, but module {module_name!r} has no {attribute!r}")
        target = getattr(target, part)
    return target


def _import_from(folders: list[Path], module_name: str) -> Any:
    """Import with `folders` in front of the search path for the moment."""
    added = [str(folder) for folder in folders]
    sys.path[:0] = added
    importlib.invalidate_caches()  # the module may be younger than the last look into its folder
    try:
        return importlib.import_module(module_name)
    finally:
        for entry in added:
            if entry in sys.path:
                sys.path.remove(entry)


def _check_origin(argument: str, module_name: str, module: Any, folder: Path) -> None:
    """Two folders may hold modules of one name, of which a process can have one."""
    stem = folder.joinpath(*module_name.split("."))
    beside = next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)
    origin = getattr(module, "__file__", None)
    if beside is not None and (origin is None or Path(origin).resolve() != beside.resolve()):
        raise InputError(
            f"{argument} is in {beside}, but another module {module_name!r} has been imported already, from "
            f"{origin or 'elsewhere'}; allowed: a module with a name of its own"
        )


def find_imported(reference: str) -> Any:
    """What `module:name` stands for if its module has been imported and can be in another process; else None."""
    module_name, _, attribute = reference.partition(":")
    if module_name == "__main__" or module_name not in sys.modules:
        return None
    target: Any = sys.modules[module_name]
    for part in attribute.split("."):
        target = getattr(target, part, None)
    return target


def reduce_by_name(value: Any, found: Any, read: Callable[[str], Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How a frozen dataclass with a `name` is pickled: by name where `found`, what the name stands for, equals it.

    JAX's compiled functions (`jnp.sin`) cannot be pickled themselves. Everything else is left to the pickler, so
    that one that can pickle lambdas does.
    """
    if found == value:
        return read, (value.name,)
    return type(value), tuple(getattr(value, field.name) for field in dataclasses.fields(value))
