"""Theory held against networks: side by side, in standard errors, as squared errors, as power laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


class Distance(NamedTuple):
    """How far networks are from theory, in standard errors."""

    largest: float
    rms: float


def side_by_side(theory: xr.Dataset, networks: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Variables of both in one data set: `x` and `x_se` of the networks, `x_theory` and `x_theory_se`."""
    out: dict[str, xr.DataArray] = {}
    for name in names:
        exact = xr.zeros_like(theory[name])
        out[name], out[f"{name}_se"] = networks[name], networks[f"{name}_se"]
        out[f"{name}_theory"], out[f"{name}_theory_se"] = theory[name], theory.get(f"{name}_se", exact)
    return xr.Dataset(out)


def stack(parts: Mapping[Any, xr.Dataset], dim: str) -> xr.Dataset:
    """Data sets of equal shape along a new, labelled dimension."""
    return xr.concat(list(parts.values()), dim=xr.DataArray(list(parts), dims=dim, name=dim), combine_attrs="drop")


def distance(data: xr.Dataset, name: str) -> Distance:
    """Largest and rms deviation of `name` from its theory, over all entries that are numbers.

    Standard errors below 1e-9 of the variable's size, e.g. of an output at time 0, count as that; where the deviation
    is smaller still, the entry says nothing and is left out.
    """
    gap = np.abs((data[name] - data[f"{name}_theory"]).values)
    error = np.sqrt((data[f"{name}_se"] ** 2 + data[f"{name}_theory_se"] ** 2).values)
    floor = 1e-9 * max(float(np.abs(data[name]).max()), 1e-300)
    telling = (error > floor) | (gap > floor)
    if not telling.any():
        return Distance(0.0, 0.0)
    units = (gap / np.maximum(error, floor))[telling]
    return Distance(float(units.max()), float(np.sqrt(np.mean(units**2))))


def squared_error(
    networks: xr.Dataset, theory: xr.Dataset, name: str, *, seeds: int, dims: Sequence[str]
) -> xr.DataArray:
    """⟨|K_N − K_∞|²⟩/|K_∞|² of single networks, summed over `dims`, from mean and standard error of `seeds` of them.

    The mean square distance from a point is (mean − point)² + (n−1)·se². The noise of the theory itself is taken off.
    """
    gap = (networks[name] - theory[name]) ** 2 + (seeds - 1) * networks[f"{name}_se"] ** 2
    if f"{name}_se" in theory:
        gap = gap - theory[f"{name}_se"] ** 2
    return gap.sum(dims) / (theory[name] ** 2).sum(dims)


def power_law(x: np.ndarray, y: np.ndarray, y_se: np.ndarray | None = None) -> Estimate:
    """Exponent of y ∝ x^exponent by weighted least squares of the logarithms.

    The error follows from `y_se`, and is widened where the points scatter by more than that.
    """
    logs, values = np.log(x), np.log(y)
    sigma = np.ones_like(values) if y_se is None else np.maximum(y_se / y, 1e-12)
    weights = 1 / sigma**2
    centre = np.average(logs, weights=weights)
    spread = np.sum(weights * (logs - centre) ** 2)
    slope = np.sum(weights * (logs - centre) * values) / spread
    rest = values - np.average(values, weights=weights) - slope * (logs - centre)
    excess = np.sum(weights * rest**2) / max(len(x) - 2, 1)
    scale = np.sqrt(excess) if y_se is None else np.sqrt(max(1.0, excess))
    return Estimate(float(slope), float(scale / np.sqrt(spread)))
