"""A hash of what a run computes: its problem, its options, and the code of everything that is not a library.

Equal digests mean equal numbers. The other way round a digest may change without need (an edited comment in
widefield's sources, another version of Python), which only costs a run.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

PACKAGE = Path(__file__).resolve().parent
# Parts that compute no numbers, and functions of figures, which are digested one by one where they are used.
_APART = ("cli", "reproduce", "sweeps")
_LIBRARIES = ("jax", "jaxlib", "numpy", "scipy")
_OURS = __name__.partition(".")[0]
# What Python itself puts into a class; some of it differs from process to process.
_OF_EVERY_CLASS = ("__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl",
                   "__dataclass_fields__", "__dataclass_params__", "__annotations__", "__firstlineno__",
                   "__static_attributes__")  # fmt: skip


@cache
def code_version(package: Path = PACKAGE) -> str:
    """Hash of widefield's sources and data, without those of `_APART`, and of the libraries' versions."""
    files = [*package.rglob("*.py"), *package.rglob("*.npy")]
    sources = sorted(path for path in files if path.relative_to(package).parts[0] not in _APART)
    whole = hashlib.sha256(repr([version(name) for name in _LIBRARIES]).encode())
    for path in sources:
        whole.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]


def digest(*values: Any) -> str:
    """24 hexadecimal digits that stand for plain values, arrays, dataclasses, functions and classes."""
    whole = hashlib.sha256()
    for piece in _Walk().pieces(values):
        whole.update(len(piece).to_bytes(8, "little") + piece)
    return whole.hexdigest()[:24]


class _Walk:
    """Goes through a value and what it is made of; functions and classes that refer to each other are met once."""

    def __init__(self) -> None:
        self._code: dict[int, tuple[int, Any]] = {}  # with the object itself, so that its id is not given away
        self._open: list[Any] = []  # what the present value is part of

    def pieces(self, value: Any) -> Iterator[bytes]:
        """`value` as a sequence of byte strings."""
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            yield f"{type(value).__name__} {value!r}".encode()
        elif isinstance(value, (type, FunctionType, ModuleType, CodeType)) and id(value) in self._code:
            yield f"code {self._code[id(value)][0]}".encode()
        elif any(value is outer for outer in self._open):
            yield b"part of itself"
        else:
            self._open.append(value)
            yield from self._inside(value)
            self._open.pop()

    def _inside(self, value: Any) -> Iterator[bytes]:
        if isinstance(value, (list, tuple)):
            yield f"{type(value).__name__} {len(value)}".encode()
            for entry in value:
                yield from self.pieces(entry)
        elif isinstance(value, (set, frozenset)):
            yield f"set {len(value)}".encode()
            yield from sorted(digest(entry).encode() for entry in value)
        elif isinstance(value, Mapping):
            yield f"mapping {len(value)}".encode()
            for key in sorted(value, key=str):
                yield from self.pieces((key, value[key]))
        elif isinstance(value, type):
            yield from self._of_class(value)
        elif dataclasses.is_dataclass(value):
            yield from self.pieces((type(value), [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]))
        elif hasattr(value, "__array__"):
            array = np.asarray(value)
            yield f"array {array.dtype.str} {array.shape}".encode()
            yield np.ascontiguousarray(array).tobytes()
        elif isinstance(value, CodeType):
            yield from self._of_code(value)
        elif isinstance(value, (FunctionType, MethodType, functools.partial)) or hasattr(value, "__wrapped__"):
            yield from self._of_function(value)
        else:
            yield from self._of_object(value)

    def _of_class(self, value: type) -> Iterator[bytes]:
        """A library's by name, others by what they hold."""
        self._code[id(value)] = len(self._code), value
        yield _name(value)
        if not _is_library(value.__module__):
            own = {name: _plain(entry) for name, entry in vars(value).items() if name not in _OF_EVERY_CLASS}
            yield from self.pieces((value.__bases__, own))

    def _of_function(self, value: Any) -> Iterator[bytes]:
        """A library's by name, others by their code and all that it uses."""
        yield _name(value)
        if isinstance(value, functools.partial):
            yield from self.pieces((value.func, value.args, value.keywords))
        elif isinstance(value, MethodType):
            yield from self.pieces((value.__func__, value.__self__))
        elif not isinstance(value, FunctionType):  # e.g. a function that JAX compiles
            if not _is_library(_module_of(value)):
                yield from self.pieces(value.__wrapped__)
        else:
            self._code[id(value)] = len(self._code), value
            library = _is_library(value.__module__)
            if not library:
                used = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
                yield from self.pieces((value.__code__, used, value.__defaults__, value.__kwdefaults__))
            if not library or _is_ours(value.__module__):  # our functions may hold a user's
                yield from self.pieces([_content(cell) for cell in value.__closure__ or ()])

    def _of_code(self, code: CodeType) -> Iterator[bytes]:
        """Without names of files and line numbers."""
        self._code[id(code)] = len(self._code), code
        yield code.co_code
        yield from self.pieces((code.co_consts, code.co_names, code.co_varnames, code.co_freevars))

    def _of_object(self, value: Any) -> Iterator[bytes]:
        yield _name(value)
        if isinstance(value, ModuleType) or (callable(value) and _is_library(type(value).__module__)):
            return
        yield from self.pieces(type(value))
        yield from self.pieces(repr(value) if _is_library(type(value).__module__) else getattr(value, "__dict__", None))


def _name(value: Any) -> bytes:
    return f"{_module_of(value)}:{getattr(value, '__qualname__', type(value).__qualname__)}".encode()


def _names(code: CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None


def _plain(entry: Any) -> Any:
    """What a class holds under a name: the function behind a property, a class method or a static method."""
    return getattr(entry, "fget", None) or getattr(entry, "__func__", entry)


def _module_of(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or type(value).__module__)


@cache
def _library_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _is_ours(module_name: str) -> bool:
    return module_name.partition(".")[0] == _OURS


@cache
def _is_library(module_name: str) -> bool:
    """Built-in, installed, or ours, whose version is part of a digest already; not a user's own code or a figure's."""
    if module_name == "__main__" or module_name.startswith(f"{_OURS}.reproduce."):
        return False
    if _is_ours(module_name):
        return True
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return file is None or any(folder in Path(file).resolve().parents for folder in _library_folders())
