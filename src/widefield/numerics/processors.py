"""How many processors a process may use."""

from __future__ import annotations

import os


def processors() -> int:
    """Those that the process may run on: fewer than the machine has where a batch system or `taskset` binds it."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
