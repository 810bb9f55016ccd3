"""The variables a result can hold, with their labels."""

from __future__ import annotations

from ..observables import OBSERVABLES

DIMS: dict[str, tuple[str, ...]] = {
    name: tuple(d for d in entry.dims or () if not d.startswith("frame")) for name, entry in OBSERVABLES.items()
}
DESCRIPTIONS: dict[str, str] = {name: entry.meaning for name, entry in OBSERVABLES.items()}
DRAWS = frozenset(name for name, entry in OBSERVABLES.items() if entry.draws)
