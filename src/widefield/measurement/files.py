"""Observations on disk."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError, ResultFileError, one_line
from ..results.files import load_result
from ..results.netcdf import ROOT, read_groups, write_groups
from .observation import KINDS, Observation, check_layers, check_steps
from .observing import observe

_WHAT = "widefield observation"


def save_observation(observed: Observation, path: str | os.PathLike[str]) -> None:
    variables: dict[str, Any] = {"values": (("layer", "stage", "pair"), observed.values)}
    if observed.neurons is not None:
        variables["neurons"] = (("layer",), np.array(observed.neurons))
    for index, one in enumerate(observed.activity or ()):
        dims = ("stage", "stimulus", f"neuron_{index}", "trial")[: one.ndim]
        variables[f"activity_{index}"] = (dims, one)
    coordinates = {"layer": list(observed.layers), "step": ("stage", observed.steps)}
    attributes = {"content": _WHAT, "kind": observed.kind, "stimuli": observed.stimuli}
    write_groups(path, {ROOT: xr.Dataset(variables, coordinates, attributes)})


def load_observation(path: str | os.PathLike[str]) -> Observation:
    found = read_groups(path)[ROOT]
    if found.attrs.get("content") != _WHAT:
        return Observation.from_result(load_result(path))
    try:
        steps, layers = found["step"].values, [int(label) for label in found["layer"].values]
        names = [f"activity_{index}" for index in range(len(layers))]
        if names[0] in found:
            return observe({label: found[name].values for label, name in zip(layers, names, strict=True)}, steps)
        kind, stimuli, values = str(found.attrs["kind"]), int(found.attrs["stimuli"]), found["values"].values
        pairs = stimuli * (stimuli + 1) // 2 if kind == "kernel" else stimuli * (stimuli - 1) // 2
        if kind not in KINDS or values.shape != (len(layers), len(steps), pairs) or not np.isfinite(values).all():
            raise InputError("its values are not those of an observation")
        neurons = tuple(int(count) for count in found["neurons"].values) if "neurons" in found else None
        return Observation(
            values, kind, check_steps(steps, len(steps)), check_layers(layers, len(layers)), stimuli, neurons
        )
    except (InputError, KeyError, ValueError, TypeError) as error:
        raise ResultFileError(f"{path} is damaged: {one_line(error)}") from error
