"""How far two results are apart, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from ..errors import InputError
from .result import Result
from .variables import DIMS, DRAWS

# A standard error this far below the variable's own scale is rounding, not sampling.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Deviation:
    """How far one variable of `a` is from that of `b`, over all times and indices they share.

    Attributes:
        largest, rms: of |a − b|.
        relative: rms of a − b over rms of b.
        largest_in_errors, rms_in_errors: of (a − b)/√(se_a² + se_b²); NaN where neither has standard errors.
    """

    variable: str
    largest: float
    rms: float
    relative: float
    largest_in_errors: float
    rms_in_errors: float

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.largest, self.rms, self.relative, self.largest_in_errors, self.rms_in_errors)


def compare_numbers(a: Result, b: Result) -> list[Deviation]:
    """One `Deviation` for every variable that both results hold; single neurons are draws and are left out."""
    names = [name for name in DIMS if name in a and name in b and name not in DRAWS]
    if not names:
        raise InputError("a and b have no variable in common; allowed: results of the same kind of problem")
    _check_sizes(a.dataset[names], b.dataset[names])
    return [_deviation(a.dataset, b.dataset, name) for name in names]


def as_text(deviations: list[Deviation]) -> str:
    """The deviations as a plain table, one row each."""
    headings = ("variable", "largest", "rms", "relative", "largest/s.e.", "rms/s.e.")
    rows = [headings, *((d.variable, *(format_number(n) for n in d.numbers)) for d in deviations)]
    return "\n".join(f"{row[0]:<24}" + "".join(f"{cell:>14}" for cell in row[1:]) for row in rows)


def format_number(number: float) -> str:
    return "–" if np.isnan(number) else f"{number:.3g}"


def _check_sizes(a: xr.Dataset, b: xr.Dataset) -> None:
    for dim in sorted({str(d) for d in a.dims} & {str(d) for d in b.dims}):
        if dim in a.coords and dim in b.coords:
            if not np.intersect1d(a[dim], b[dim]).size:
                raise InputError(f"a and b share no {dim}; allowed: results with {dim}s in common")
        elif a.sizes[dim] != b.sizes[dim]:
            raise InputError(
                f"{dim} has {a.sizes[dim]} entries in a and {b.sizes[dim]} in b; allowed: the same data in both"
            )


def _deviation(a: xr.Dataset, b: xr.Dataset, name: str) -> Deviation:
    if a[name].dims != b[name].dims:
        raise InputError(
            f"{name} has dims {a[name].dims} in a and {b[name].dims} in b; allowed: the same number of outputs"
        )
    wanted = [xr.DataArray(0.0) if f"{name}_se" not in d else d[f"{name}_se"] for d in (a, b)]
    first, second, se_a, se_b = xr.align(a[name], b[name], *wanted, join="inner")
    gap = first.values - second.values
    error = np.broadcast_to(np.hypot(se_a.values, se_b.values), gap.shape)
    scale = _rms(second.values)
    sampled = error > _ROUNDING * max(scale, _rms(first.values))
    in_errors = gap[sampled] / error[sampled]
    return Deviation(
        variable=name,
        largest=float(np.max(np.abs(gap))),
        rms=_rms(gap),
        relative=_rms(gap) / scale if scale else float("inf") if np.any(gap) else 0.0,
        largest_in_errors=float(np.max(np.abs(in_errors))) if in_errors.size else float("nan"),
        rms_in_errors=_rms(in_errors) if in_errors.size else float("nan"),
    )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
