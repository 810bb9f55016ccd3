"""What the paper says, and what the figures' data say to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import xarray as xr

from widefield.results import Estimate

from .measures import Distance, distance

# How many standard errors make a difference.
SIGNIFICANT = 2.0


class Verdict(NamedTuple):
    """A measured number (what it is: `what`), its standard error and whether the claim holds."""

    value: float
    error: float
    holds: bool
    what: str
    note: str = ""

    @property
    def number(self) -> str:
        return str(Estimate(self.value, self.error))


@dataclass(frozen=True)
class Claim:
    """A statement of the paper.

    Attributes:
        where: the place in the paper.
        figure: the figure whose data decide.
        why: said where the claim does not hold.
    """

    text: str
    where: str
    figure: str
    measure: Callable[[xr.Dataset], Verdict]
    why: str = ""


def all_claims() -> tuple[Claim, ...]:
    from . import claims_lazy, claims_linear, claims_rich

    return (*claims_rich.CLAIMS, *claims_lazy.CLAIMS, *claims_linear.CLAIMS)


def evaluate(data: Mapping[str, xr.Dataset]) -> list[tuple[Claim, Verdict]]:
    """Every claim whose figure is there."""
    return [(claim, claim.measure(data[claim.figure])) for claim in all_claims() if claim.figure in data]


def number(data: xr.Dataset, name: str, **where: object) -> Estimate:
    """A single variable with its standard error; `where` are positions (whole numbers) or labels."""
    for dim, at in where.items():
        whole = isinstance(at, (int, np.integer)) and not isinstance(at, bool)
        data = data.isel({dim: at}) if whole else data.sel({dim: at})
    return Estimate(float(data[name]), float(data[f"{name}_se"]))


def above_zero(found: Estimate, what: str, note: str = "") -> Verdict:
    """Holds where a difference is positive by more than `SIGNIFICANT` standard errors."""
    return Verdict(*found, found.value > SIGNIFICANT * found.error, what, note)


def increasing(values: list[Estimate], what: str, note: str = "") -> Verdict:
    """Holds where every step up a list is significant; the number is the step with the least significance."""
    steps = [b - a for a, b in pairwise(values)]
    weakest = min(steps, key=lambda step: step.value / max(step.error, 1e-300))
    return above_zero(weakest, what, note)


def smallest(differences: dict[str, Estimate], what: str) -> Verdict:
    """Holds where all differences are positive; the number is the least significant of them, which is named."""
    name, found = min(differences.items(), key=lambda item: item[1].value / max(item[1].error, 1e-300))
    return above_zero(found, f"{what} ({name})")


def close_to(found: Estimate, target: float, what: str, allowed: float, note: str = "") -> Verdict:
    """Holds within `allowed` of the target, or within three standard errors."""
    off = abs(found.value - target)
    return Verdict(*found, off <= max(allowed, 3 * found.error), what, note)


def agreement(data: xr.Dataset, names: tuple[str, ...], what: str) -> Verdict:
    """Holds where the rms deviation of networks from theory is below 2 standard errors."""
    found: list[Distance] = [distance(data, name) for name in names]
    rms = float(np.sqrt(np.mean([d.rms**2 for d in found])))
    return Verdict(rms, float("nan"), rms < 2.0, what, f"largest {max(d.largest for d in found):.1f}")
