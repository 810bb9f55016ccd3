"""Answers: labelled, with their errors, as files and as pictures.

What other programs may use of it, besides `widefield.Result`, stands here; each is loaded when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .estimate import Estimate
    from .netcdf import read_groups, write_groups
    from .panels import COLOURS, save_picture
    from .replicates import over_seeds
    from .statistics import Moments, in_errors, rms

__all__ = [
    "COLOURS",
    "Estimate",
    "Moments",
    "in_errors",
    "over_seeds",
    "read_groups",
    "rms",
    "save_picture",
    "write_groups",
]

_PLACES = {
    "COLOURS": "panels",
    "Estimate": "estimate",
    "Moments": "statistics",
    "in_errors": "statistics",
    "over_seeds": "replicates",
    "read_groups": "netcdf",
    "rms": "statistics",
    "save_picture": "panels",
    "write_groups": "netcdf",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_PLACES[name]}", __name__), name)
