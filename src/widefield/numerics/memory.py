"""How much memory a run takes, and an error before the machine swaps."""

from __future__ import annotations

import jax
import psutil

from ..errors import MemoryBudgetError
from .address_space import address_space


def available_bytes() -> int | None:
    """Memory that can be had without swapping and within the process's limit, or None where the system does not say."""
    try:
        free = int(psutil.virtual_memory().available)
        limit = address_space()
        return free if limit is None else max(0, min(free, limit - int(psutil.Process().memory_info().vms)))
    except Exception:  # as many kinds of error as there are systems
        return None


def bytes_of(tree: object) -> int:
    """Size of all arrays, or shapes, of a tree; random keys count for nothing."""
    sized = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf.dtype, "itemsize")]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in sized)


def check_memory(needed: int, what: str, remedy: str, free: int | None = None) -> None:
    """Refuse work that needs more than what is `free`, by default in this process; where that is not known, nothing."""
    free = available_bytes() if free is None else free
    if free is not None and needed > free:
        raise MemoryBudgetError(
            f"{what} needs about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free; {remedy}"
        )
