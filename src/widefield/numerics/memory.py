"""How much memory a run takes, and an error before the machine swaps."""

from __future__ import annotations

import os

import jax

from ..errors import MemoryBudgetError


def available_bytes() -> int:
    """Memory that can be had without swapping."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def bytes_of(tree: object) -> int:
    """Size of all arrays, or shapes, of a tree; random keys count for nothing."""
    sized = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf.dtype, "itemsize")]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in sized)


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse work that needs more than what is free."""
    free = available_bytes()
    if needed > free:
        raise MemoryBudgetError(
            f"{what} needs about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free; {remedy}"
        )
