"""How far two results are apart, in numbers, in standard errors and in probability: `wf.compare`."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Protocol

import numpy as np
import xarray as xr

from ..errors import InputError, require
from ..extras import require_extra
from .replicates import NEURON
from .result import Result
from .statistics import Agreement, Moments, in_errors, rms, welch

if TYPE_CHECKING:
    from .panels import Picture

# Times that differ by less than this, relative to the last, are the same.
_SAME_TIME = 1e-9
# A deviation that is less probable than this by chance is a disagreement.
SIGNIFICANT = 0.01


class Shifts(Protocol):
    """What `wf.finite_width` knows about means at finite width."""

    @property
    def dataset(self) -> xr.Dataset: ...

    def shift(self, name: str, over: float) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class Deviation:
    """How far one variable of `a` is from that of `b`, over all times and indices they share.

    Attributes:
        largest, rms: of |a − b|.
        relative: rms of a − b over rms of b.
        largest_in_errors, rms_in_errors: of (a − b)/√(se_a² + se_b²); NaN where nothing is sampled, or where a result
            of a single run has no standard error.
        chance: bound on the probability that entries of equal mean deviate as much, by Student's t test of every
            entry times the number of entries; NaN as above.
        after_shift: the same with the shift of finite width, b/N, taken off a − b; NaN where it is not known.
    """

    variable: str
    largest: float
    rms: float
    relative: float
    largest_in_errors: float
    rms_in_errors: float
    chance: float
    after_shift: float = float("nan")

    @property
    def verdict(self) -> str:
        """In words: "agree", "finite-width shift" (they agree once it is taken off), "differ", or "–" (not known)."""
        if np.isnan(self.chance):
            return "–"
        if self.chance >= SIGNIFICANT:
            return "agree"
        return "finite-width shift" if self.after_shift >= SIGNIFICANT else "differ"


HEADINGS = ("variable", "largest", "rms", "relative", "largest/s.e.", "rms/s.e.", "chance")
SHIFT_HEADINGS = ("after shift", "verdict")


class Comparison:
    """The differences a − b of two results, in every variable that both have.

    Attributes:
        a, b: the two results.
        finite_width: expansion in 1/N, where a shift of that order is to be told from a disagreement.
        deviations: one `Deviation` per variable.
        chance: bound on the probability of the least likely of all deviations, if both had the same means.
    """

    def __init__(self, a: Result, b: Result, finite_width: Shifts | None = None):
        for name, result in (("a", a), ("b", b)):
            require(isinstance(result, Result), name, type(result).__name__, "a widefield.Result")
        self.a, self.b = a, b
        names = [str(name) for name in a.dataset.data_vars if str(name) in b and not _left_out(str(name), a)]
        if not names:
            raise InputError("a and b have no variable in common; allowed: results of the same kind of problem")
        _check_sizes(a.dataset[names], b.dataset[names])
        over = _inverse_widths(a, b, finite_width)
        self.shifted = finite_width is not None
        found = [_deviation(a, b, name, finite_width, over) for name in names]
        self.deviations = tuple(deviation for deviation, _ in found)
        tests = [agreement for _, agreement in found if not np.isnan(agreement.smallest)]
        entries = sum(agreement.entries for agreement in tests)
        smallest = min((agreement.smallest for agreement in tests), default=float("nan"))
        self.chance = Agreement(smallest, entries).chance if entries else float("nan")

    @property
    def table(self) -> xr.Dataset:
        """The deviations, labelled: one entry along `variable` each."""
        columns = [field.name for field in fields(Deviation)][1:]
        return xr.Dataset(
            {name: ("variable", np.array([getattr(d, name) for d in self.deviations])) for name in columns},
            coords={"variable": [d.variable for d in self.deviations]},
            attrs={"chance": self.chance},
        )

    def rows(self) -> list[tuple[str, ...]]:
        """The deviations as text, in the order of `headings`."""
        last = len(HEADINGS) + self.shifted
        more = [(d.verdict,) if self.shifted else () for d in self.deviations]
        return [
            (d.variable, *(format_number(number) for number in astuple(d)[1:last]), *word)
            for d, word in zip(self.deviations, more, strict=True)
        ]

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns of `rows`."""
        return HEADINGS + (SHIFT_HEADINGS if self.shifted else ())

    def plot(self) -> Picture:
        """Curves of both in one, final kernels side by side with their difference, and the table."""
        require_extra("plot", "a picture")
        from .pictures import plot_comparison

        return plot_comparison(self)

    def __repr__(self) -> str:
        rows = [self.headings, *self.rows()]
        return "\n".join(
            f"{row[0]:<24}" + "".join(f"{cell:>14}" for cell in row[1:7]) + "".join(f"{cell:>20}" for cell in row[7:])
            for row in rows
        )


def compare(a: Result, b: Result, finite_width: Shifts | None = None) -> Comparison:
    """Compare two results.

    Args:
        a, b: results on the same data, e.g. networks and theory; an experiment comes in by `Result.from_arrays`.
        finite_width: what `wf.finite_width` found for the same problem. Deviations that its shift b/N explains are then
            told from disagreements. A result that says no width is taken to be of infinite width.

    Returns:
        A `Comparison`: `.table` has the largest and rms deviation of every variable, also in standard errors, and how
        probable such a deviation is by chance; `.plot()` draws both.

    Raises:
        InputError: where the two have no variable, time or layer in common, or different data points.
    """
    return Comparison(a, b, finite_width)


def format_number(number: float) -> str:
    return "–" if np.isnan(number) else f"{number:.3g}"


def _left_out(name: str, result: Result) -> bool:
    """Standard errors come with their variable; single neurons are draws, of which no two need agree."""
    return (name.endswith("_se") and name.removesuffix("_se") in result) or NEURON in result[name].dims


def _check_sizes(a: xr.Dataset, b: xr.Dataset) -> None:
    for dim in sorted({str(d) for d in a.dims} & {str(d) for d in b.dims}):
        if dim in a.coords and dim in b.coords:
            if not len(_shared(a, b, dim)[0]):
                raise InputError(f"a and b share no {dim}; allowed: results with {dim}s in common")
        elif a.sizes[dim] != b.sizes[dim]:
            raise InputError(
                f"{dim} has {a.sizes[dim]} entries in a and {b.sizes[dim]} in b; allowed: the same data in both"
            )


def _shared(a: xr.Dataset, b: xr.Dataset, dim: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the labels that both have stand in a, and where in b; times may differ by rounding."""
    left, right = a[dim].values.astype(float), b[dim].values.astype(float)
    scale = max((abs(value) for value in (*left, *right) if np.isfinite(value)), default=0.0)
    with np.errstate(invalid="ignore"):
        same = np.abs(left[:, None] - right[None]) <= _SAME_TIME * scale
    in_a, in_b = np.nonzero(same | (left[:, None] == right[None]))
    return in_a, in_b


def _inverse_widths(a: Result, b: Result, finite_width: Shifts | None) -> float:
    """1/N_a − 1/N_b."""
    if finite_width is None:
        return 0.0
    wide = callable(getattr(finite_width, "shift", None)) and hasattr(finite_width, "dataset")
    require(wide, "finite_width", type(finite_width).__name__, "what wf.finite_width returns")
    found = [result.info.get("width") for result in (a, b)]
    require(found != [None, None], "finite_width", "given, but a and b say no width", "with networks of wf.simulate")
    one, other = (0.0 if width is None else 1 / width for width in found)
    return one - other


def _after_shift(
    left: Moments, right: Moments, name: str, labels: xr.Dataset, finite_width: Shifts | None, over: float
) -> float:
    """`chance` once the shift of finite width is taken off; `labels` are the times and layers that are compared."""
    if finite_width is None or name not in finite_width.dataset:
        return float("nan")
    value, error = finite_width.shift(name, over)
    for axis, dim in enumerate(map(str, finite_width.dataset[name].dims)):
        if dim in labels.coords and dim in finite_width.dataset.coords:
            wanted, places = _shared(labels, finite_width.dataset, dim)
            require(len(wanted) == labels.sizes[dim], "finite_width", f"without some {dim}", f"every {dim} of a and b")
            value, error = value.take(places, axis), error.take(places, axis)
    moved = Moments(left.mean - value, np.hypot(left.error, error), left.freedom)
    found = welch(moved, right)
    return found.chance if found.entries else float("nan")


def _deviation(
    a: Result, b: Result, name: str, finite_width: Shifts | None = None, over: float = 0.0
) -> tuple[Deviation, Agreement]:
    dims = a[name].dims
    if dims != b[name].dims:
        raise InputError(f"{name} has dims {dims} in a and {b[name].dims} in b; allowed: the same number of outputs")
    left, right = a.moments(name), b.moments(name)
    labels = a.dataset[[name]]
    for axis, dim in enumerate(map(str, dims)):
        if dim in a.dataset.coords and dim in b.dataset.coords:
            in_a, in_b = _shared(a.dataset, b.dataset, dim)
            left, right = _take(left, in_a, axis), _take(right, in_b, axis)
            labels = labels.isel({dim: in_a})
    gap, agreement, units = left.mean - right.mean, welch(left, right), in_errors(left, right)
    exact = np.isinf(left.freedom) and np.isinf(right.freedom)
    known = units.size and not exact and not np.isnan(left.error + right.error).any()
    scale = rms(right.mean)
    return Deviation(
        variable=name,
        largest=float(np.max(np.abs(gap))),
        rms=rms(gap),
        relative=rms(gap) / scale if scale else float("inf") if np.any(gap) else 0.0,
        largest_in_errors=float(np.max(units)) if known else float("nan"),
        rms_in_errors=rms(units) if known else float("nan"),
        chance=agreement.chance if agreement.entries else float("nan"),
        after_shift=_after_shift(left, right, name, labels, finite_width, over),
    ), agreement


def _take(value: Moments, places: np.ndarray, axis: int) -> Moments:
    if len(places) == value.mean.shape[axis]:
        return value
    return Moments(value.mean.take(places, axis), value.error.take(places, axis), value.freedom)
