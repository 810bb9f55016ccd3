"""Representational dissimilarities from kernels: `Result.rdm`."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..errors import InputError, require
from .replicates import over_seeds

KERNELS = ("phi", "g", "g_tilde_tilde")  # of one field with itself, so that the dissimilarity is a squared distance


def dissimilarities(runs: xr.Dataset, name: str, layer: int | None) -> xr.Dataset:
    """d_ij = K_ii + K_jj − 2K_ij of every run, then mean and standard error over runs."""
    require(isinstance(name, str) and name in KERNELS, "name", name, f"a kernel of one field, {', '.join(KERNELS)}")
    if name not in runs:
        held = [other for other in KERNELS if other in runs]
        raise InputError(f"name is {name!r}, which this result does not hold; it has {', '.join(held) or 'none'}")
    kernel = runs[name]
    if layer is not None:
        layers = [int(label) for label in runs["layer"].values]
        whole = isinstance(layer, (int, np.integer)) and not isinstance(layer, bool)
        require(whole and layer in layers, "layer", layer, f"one of {', '.join(map(str, layers))}, or None for all")
        kernel = kernel.sel(layer=layer)
    kernel = kernel.transpose(..., "sample", "sample_")
    own = np.einsum("...ii->...i", kernel.values)
    # In place, as kernels may be large.
    values = -2 * kernel.values
    values += own[..., :, None]
    values += own[..., None, :]
    about = {"long_name": f"squared Euclidean distance per neuron, from {name}"}
    return over_seeds(xr.Dataset({"rdm": kernel.copy(data=values).assign_attrs(about)}))
