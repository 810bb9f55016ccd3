"""The address space that this process may have (`ulimit -v`); no JAX, so that it can be asked before JAX is loaded."""

from __future__ import annotations


def address_space() -> int | None:
    """In bytes; None where there is no limit or the system has none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
