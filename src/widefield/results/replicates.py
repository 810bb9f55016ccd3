"""From independent runs, along the dimension `seed`, to means, standard errors and pooled neurons."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..errors import InputError
from .statistics import Moments, exactly, moments_of

SEED = "seed"
NEURON = "neuron"  # variables along it are single neurons: draws, not estimates


def over_seeds(runs: xr.Dataset) -> xr.Dataset:
    """Mean and standard error `<name>_se` (two or more runs) of variables along `seed`; others stay as they are.

    Single neurons are pooled along `neuron`.
    """
    variables: dict[str, xr.Variable] = {}
    for name, array in runs.data_vars.items():
        own = array.variable
        if SEED not in own.dims:
            variables[str(name)] = own
        elif NEURON in own.dims:
            ordered = own.transpose(..., SEED, NEURON)
            pooled = ordered.values.reshape(*ordered.shape[:-2], -1)
            variables[str(name)] = xr.Variable((*ordered.dims[:-2], NEURON), pooled, own.attrs)
        else:
            first = own.transpose(SEED, ...)
            found = moments_of(first.values)
            variables[str(name)] = xr.Variable(first.dims[1:], found.mean, own.attrs)
            if found.freedom:
                about = {"long_name": f"standard error of {own.attrs.get('long_name', name)}"}
                variables[f"{name}_se"] = xr.Variable(first.dims[1:], found.error, about)
    kept = {name: coordinate for name, coordinate in runs.coords.items() if SEED not in coordinate.dims}
    return xr.Dataset(variables, kept, runs.attrs)


def with_seeds(runs: xr.Dataset) -> xr.Dataset:
    """Every variable along `seed`: what has no sampling error is the same in every run (a view, not a copy)."""
    if any(name.endswith("_se") for name in map(str, runs.data_vars)):
        raise InputError(
            "this result holds means and standard errors only, not its replicates; "
            "allowed: results of this version of widefield, or Result(dataset) with a dimension 'seed'"
        )
    seeds = {SEED: runs.sizes.get(SEED, 1)}
    exact = {name: array.expand_dims(seeds) for name, array in runs.data_vars.items() if SEED not in array.dims}
    return runs.assign(exact)


def moments_in(runs: xr.Dataset, dataset: xr.Dataset, name: str, count: int | None) -> Moments:
    """What is known of a variable: from its runs, or where only a mean was kept, from its error over `count` runs."""
    mean = dataset[name].values
    if SEED in runs[name].dims:
        count = runs.sizes[SEED]
    elif f"{name}_se" not in dataset and count != 1:
        return exactly(mean)
    error = dataset[f"{name}_se"].values if f"{name}_se" in dataset else np.full_like(mean, np.nan)
    return Moments(mean, error, np.nan if count is None else count - 1)
