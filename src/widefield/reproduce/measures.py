"""Theory held against networks: side by side, in standard errors, as squared errors, as power laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import widefield as wf
from widefield.results import Estimate, Moments, in_errors, over_seeds, rms


class Distance(NamedTuple):
    """How far networks are from theory, in standard errors."""

    largest: float
    rms: float


def measured(result: wf.Result, **functions: Callable[[xr.Dataset], xr.DataArray]) -> xr.Dataset:
    """Functions of single networks or replicates: their mean and standard error (`_se`; an exact result has none)."""
    runs = result.replicates
    return over_seeds(xr.Dataset({name: function(runs) for name, function in functions.items()}))


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
    """Largest and rms deviation of `name` from its theory, over all entries that are numbers."""
    networks, theory = (
        Moments(data[f"{name}{end}"].values, data[f"{name}{end}_se"].values, np.nan) for end in ("", "_theory")
    )
    units = in_errors(networks, theory)
    return Distance(float(units.max()), rms(units)) if units.size else Distance(0.0, 0.0)


def squared_error(networks: wf.Result, theory: xr.Dataset, name: str, dims: Sequence[str], **index: Any) -> xr.Dataset:
    """|K_N − K_∞|²/|K_∞|² of single networks, summed over `dims`: its mean `error` and standard error `error_se`.

    The sampling noise of the theory itself is taken off. A static theory need not have `time`.
    """
    exact = theory[name].isel(index, missing_dims="ignore")
    noise = theory[f"{name}_se"].isel(index, missing_dims="ignore") ** 2 if f"{name}_se" in theory else 0.0
    size = (exact**2).sum(dims)
    return measured(networks, error=lambda n: ((n[name].isel(index) - exact) ** 2 - noise).sum(dims) / size)


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
