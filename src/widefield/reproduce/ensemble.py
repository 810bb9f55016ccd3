"""Networks one by one, for statistics that a mean and its standard error do not give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

import widefield as wf

from ..progress import Progress, make_progress


def train_each(
    problem: wf.Problem,
    *,
    width: int,
    networks: int,
    seed: int = 0,
    keep: tuple[str, ...],
    progress: bool | Progress | None = None,
    **options: Any,
) -> xr.Dataset:
    """`networks` runs of `wf.simulate` with one seed each, their variables `keep` stacked along `network`."""
    runs: list[xr.Dataset] = []
    with make_progress(progress) as bar:
        for number in range(networks):
            result = wf.simulate(problem, width, seeds=1, seed=seed + number, progress=False, **options)
            runs.append(result.dataset[list(keep)])
            bar.update(number + 1, networks, f"{networks} networks of width {width}, one by one")
    return xr.concat(runs, dim="network", combine_attrs="override")


def over_networks(runs: xr.Dataset, **functions: Callable[[xr.Dataset], xr.DataArray]) -> xr.Dataset:
    """Mean and standard error (`_se`) over networks of functions of single networks."""
    out: dict[str, xr.DataArray] = {}
    for name, function in functions.items():
        values = function(runs)
        out[name] = values.mean("network")
        out[f"{name}_se"] = values.std("network", ddof=1) / np.sqrt(values.sizes["network"])
    return xr.Dataset(out)
