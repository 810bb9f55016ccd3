"""Is a dataset from a file what a result holds?"""

from __future__ import annotations

import xarray as xr

from ..errors import InputError, require
from ..observables import OBSERVABLES
from .replicates import SEED
from .stored import check_attributes, read_header

# Dimensions that a result leaves out where they have a single entry.
_OPTIONAL = {"output", "output_", "frame", "frame_", "read", "read_"}


def check_runs(runs: xr.Dataset) -> None:
    """Raise an `InputError` that names what is wrong."""
    check_attributes(runs.attrs)
    for name, array in runs.variables.items():
        names = [name, *array.dims]
        require(all(isinstance(n, str) and n.isidentifier() for n in names), "a name", names, "letters, digits and _")
        require(array.dtype.kind in "fiu", str(name), f"of type {array.dtype}", "numbers")
    for name, array in runs.data_vars.items():
        _check_dims(str(name), tuple(map(str, array.dims)), runs)
    for name in ("time", "layer"):
        require(name in runs.coords, "coordinates", f"without {name}", "time and layer")
    depth = read_header(runs.attrs)["network"].get("depth", runs.sizes["layer"])
    require(depth == runs.sizes["layer"], "layer", runs["layer"].values.tolist(), f"one entry per layer, {depth}")


def _check_dims(name: str, dims: tuple[str, ...], runs: xr.Dataset) -> None:
    """Those of the table of observables, in its order; a user's own observable may have any."""
    known = name.removesuffix("_se") if name.endswith("_se") else name
    if known != name and known not in runs:
        raise InputError(f"{name} has no {known}")
    wanted = OBSERVABLES[known].dims if known in OBSERVABLES else None
    if wanted is None:
        return
    found = [dim for dim in dims if dim != SEED]
    good = found == [dim for dim in wanted if dim in found] and set(wanted) - set(found) <= _OPTIONAL
    require(good, name, f"along {', '.join(dims)}", ", ".join(wanted))
