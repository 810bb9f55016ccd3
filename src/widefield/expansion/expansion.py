"""The answer of `wf.finite_width`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from ..errors import InputError, require_number, require_one_of
from ..extras import require_extra
from ..results.replicates import NEURON, SEED
from ..results.result import Result
from .fit import Line, fit_line
from .onset import Onset, find_onset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGNIFICANT = 0.01  # chance below which 1/N is said not to have set in


class FiniteWidth:
    """Mean m + b/N and covariance C/N of everything that was recorded, along training.

    Attributes:
        theory: infinite width.
        networks: results by width.
        dataset: for every variable `<name>` (m, infinite width), `<name>_shift` (b) and `<name>_variance` (C), each
            with its standard error `…_se`.
        onset: per variable and width, N·shift and N·variance relative to their means over widths, with errors, and
            the chance of so large differences between widths. Where 1/N has set in, all are 1 within errors.
    """

    def __init__(self, theory: Result, networks: Mapping[int, Result]):
        self.theory, self.networks = theory, dict(sorted(networks.items()))
        runs = {width: result.replicates for width, result in self.networks.items()}
        self._names = tuple(name for name in map(str, theory.runs.data_vars) if _expands(name, theory, runs))
        if not self._names:
            raise InputError("theory and networks have no variable along training in common; allowed: those of one run")
        self._runs = {
            name: {width: r[name].transpose(SEED, ...).values for width, r in runs.items()} for name in self._names
        }
        self._lines: dict[str, Line] = {
            name: fit_line(theory.moments(name), groups) for name, groups in self._runs.items()
        }
        self.dataset = self._label()
        self.onset = self._onset() if len(self.networks) > 1 else None

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(self.networks)

    def at(self, width: int, level: float = 0.9) -> xr.Dataset:
        """Prediction for networks of a width.

        Args:
            width: N, any number.
            level: of the interval, in which one network's value is with this probability.

        Returns:
            For every variable `<name>` (m + b/N), `<name>_se` (standard error of this prediction), `<name>_sd` (√(C/N),
            from network to network), `<name>_lower` and `<name>_upper`.
        """
        require_number("width", width, "a number, 2 or more", at_least=2)
        require_number("level", level, "a number between 0 and 1", above=0, at_most=1 - 1e-9)
        out: dict[str, Any] = {}
        for name, line in self._lines.items():
            found = line.at(width)
            half = stdtrit(found.degrees(network=True), (1 + level) / 2)
            half = half * np.sqrt(found.error_squared + found.variance)
            for suffix, value in (
                ("", found.mean), ("_se", np.sqrt(found.error_squared)), ("_sd", np.sqrt(found.variance)),
                ("_lower", found.mean - half), ("_upper", found.mean + half),
            ):  # fmt: skip
                out[name + suffix] = (self.theory[name].dims, value)
        return xr.Dataset(out, self.theory[self._names[0]].coords, {"width": width, "level": level})

    def shift(self, name: str, over: float) -> tuple[np.ndarray, np.ndarray]:
        """b·`over` and its standard error.

        Args:
            name: of a variable.
            over: 1/N, or a difference of two such.
        """
        require_one_of("name", name, self._names)
        line = self._lines[name]
        return line.shift * over, np.sqrt(line.spread[2]) * abs(over)

    def covariance(self, a: str, b: str | None = None) -> np.ndarray:
        """N·covariance between all entries of two variables, as a matrix.

        Entries are in the order of `dataset[a].values.ravel()`; the rank is at most the number of networks.

        Args:
            a, b: names of variables; b is a by default.
        """
        left, right = self.deviations(a), self.deviations(a if b is None else b)
        return left.T @ right

    def deviations(self, name: str) -> np.ndarray:
        """(networks, entries): scaled deviations D from the means of each width, with C = DᵀD.

        Args:
            name: of a variable.
        """
        require_one_of("name", name, self._names)
        groups = self._runs[name]
        freedom = sum(len(runs) - 1 for runs in groups.values())
        parts = [np.sqrt(width / freedom) * (runs - runs.mean(0)) for width, runs in groups.items()]
        return np.concatenate([part.reshape(len(part), -1) for part in parts])

    def summary(self) -> str:
        """What 1/N does to the loss and to kernels, and where it has not set in, in a few lines."""
        from .summary import summarise

        return summarise(self)

    def plot(self) -> Figure:
        """Loss and outputs at infinite width, with shift and fluctuations, and N·shift and N·variance by width."""
        require_extra("plot", "a picture")
        from .pictures import plot_expansion

        return plot_expansion(self)

    def __repr__(self) -> str:
        return self.summary()

    def _label(self) -> xr.Dataset:
        out: dict[str, Any] = {}
        for name, line in self._lines.items():
            dims = self.theory[name].dims
            errors = [np.sqrt(line.spread[0]), np.sqrt(line.spread[2]), line.variance_error]
            meanings = ("at infinite width", "coefficient b of 1/N in the mean", "coefficient C of 1/N in the variance")
            values = zip(("", "_shift", "_variance"), (line.mean, line.shift, line.variance), errors, meanings)  # noqa: B905
            for suffix, value, error, meaning in values:
                about = f"{self.theory[name].attrs.get('long_name', name)}, {meaning}"
                out[name + suffix] = (dims, value, {"long_name": about})
                out[f"{name}{suffix}_se"] = (dims, error, {"long_name": f"standard error of {about}"})
        coordinates = {k: v for k, v in self.theory.dataset.coords.items() if SEED not in v.dims}
        return xr.Dataset(out, coordinates, {"widths": list(self.widths)})

    def _onset(self) -> xr.Dataset:
        found: list[Onset] = []
        for name in self._names:
            anchor = self.theory.replicates[name].transpose(SEED, ...).values
            groups = {width: runs.reshape(len(runs), -1) for width, runs in self._runs[name].items()}
            found.append(find_onset(anchor.reshape(len(anchor), -1), groups, np.ravel(self._lines[name].variance)))
        table = {field: ("variable", [getattr(one, field) for one in found]) for field in Onset._fields[-2:]}
        wide = {
            field: (("variable", "width"), np.stack([getattr(one, field) for one in found]))
            for field in Onset._fields[:-2]
        }
        return xr.Dataset({**wide, **table}, {"variable": list(self._names), "width": list(self.widths)})

    def late(self) -> list[str]:
        """Variables for which 1/N has not set in at these widths, by a test at 1 % shared by all of them."""
        if self.onset is None:
            return []
        level = SIGNIFICANT / (2 * len(self._names))
        low = (self.onset["chance_shift"] < level) | (self.onset["chance_variance"] < level)
        return [str(name) for name in self.onset["variable"].values[low.values]]


def _expands(name: str, theory: Result, runs: Mapping[int, xr.Dataset]) -> bool:
    """Averages along training that all have; single neurons are draws."""
    dims = theory.runs[name].dims
    shared = all(name in r for r in runs.values())
    return shared and "time" in dims and NEURON not in dims and not name.endswith("_se")
