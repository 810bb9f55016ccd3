"""Dissimilarity matrices to and from rsatoolbox; needs the extra `rsa`.

rsatoolbox's squared Euclidean dissimilarities, `calc_rdm(…, method="euclidean")`, are per channel, as `Result.rdm` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, require
from ..extras import require_extra
from ..results.result import Result
from ..results.stored import read_header
from .observation import Observation

if TYPE_CHECKING:
    from rsatoolbox.rdm.rdms import RDMs

__all__ = ["from_rdms", "to_rdms"]

MEASURE = "squared euclidean"


def to_rdms(source: Result | Observation, name: str = "phi") -> RDMs:
    """Dissimilarities as rsatoolbox `RDMs`, one per layer and stage (of a result: layer, time and replicate).

    Descriptors of each: layer; time and step; of a result also rule and seed.

    Args:
        source: a result or an observation.
        name: the kernel of a result, as in `Result.rdm`.
    """
    require_extra("rsa", "wf.rsa")
    from rsatoolbox.rdm.rdms import RDMs

    if isinstance(source, Observation):
        values = source.features("rdm")
        rows = {
            "layer": np.repeat(source.layers, source.stages).tolist(),
            "step": np.tile(source.steps, len(source.layers)).tolist(),
        }
        flat, count = values.reshape(-1, values.shape[-1]), source.stimuli
        about: dict[str, Any] = {}
    else:
        require(isinstance(source, Result), "source", type(source).__name__, "a Result or an Observation")
        flat, rows, count = _of_result(source, name)
        rule = dict(read_header(source.runs.attrs)["rule"])
        about = {"method": source.method, "kernel": name, "rule": str(rule.pop("name")), **rule}
        rows["rule"] = [about["rule"]] * len(flat)
    return RDMs(
        flat, dissimilarity_measure=MEASURE, descriptors=about, rdm_descriptors=rows,
        pattern_descriptors={"sample": list(range(count))},
    )  # fmt: skip


def _of_result(result: Result, name: str) -> tuple[np.ndarray, dict[str, list[Any]], int]:
    from ..results.dissimilarity import dissimilarities

    runs = result.replicates
    count = runs.sizes["seed"]
    single = [
        dissimilarities(runs.isel(seed=[k]), name, None)["rdm"].transpose("time", "layer", ...) for k in range(count)
    ]
    values = np.stack([one.values for one in single])  # (seed, time, layer, P, P)
    first, second = np.triu_indices(values.shape[-1], 1)
    flat = values[..., first, second]
    seeds, times, layers, _ = flat.shape
    dt = result.problem.training.dt if result.data is not None else 1.0
    time = np.tile(np.repeat(single[0]["time"].values, layers), seeds)
    rows: dict[str, list[Any]] = {
        "layer": np.tile(single[0]["layer"].values, seeds * times).tolist(),
        "time": time.tolist(),
        "step": (time / dt).tolist(),
        "seed": np.repeat(np.arange(seeds), times * layers).tolist(),
    }
    return flat.reshape(-1, flat.shape[-1]), rows, values.shape[-1]


def from_rdms(
    rdms: RDMs, steps: Sequence[float] | None = None, layers: Sequence[int] | None = None, *,
    neurons: int | Sequence[int] | None = None,
) -> Observation:  # fmt: skip
    """An observation from rsatoolbox `RDMs` of squared Euclidean (or crossvalidated, "crossnobis" without noise
    normalisation) dissimilarities per channel.

    Args:
        rdms: one per layer and stage.
        steps, layers: of each of them; default its descriptors `step` and `layer`.
        neurons: how many neurons (channels) were recorded, in all or per layer; default all that the network has.
    """
    require_extra("rsa", "wf.rsa")
    values = np.asarray(rdms.get_vectors(), float)
    require(bool(np.isfinite(values).all()), "rdms", "not finite everywhere", "dissimilarities that are numbers")
    known = rdms.rdm_descriptors
    found: dict[str, list[Any]] = {}
    for label, given in (("step", steps), ("layer", layers)):
        if given is None and label not in known:
            raise InputError(f"rdms have no descriptor {label}; allowed: with it, or {label}s= with one entry per RDM")
        found[label] = list(known[label] if given is None else given)
        require(len(found[label]) == len(values), f"{label}s", found[label], f"one per RDM, {len(values)} of them")
    places = sorted({int(layer) for layer in found["layer"]}), sorted({float(step) for step in found["step"]})
    keys = [(int(layer), float(step)) for layer, step in zip(found["layer"], found["step"], strict=True)]
    whole = len(set(keys)) == len(keys) == len(places[0]) * len(places[1])
    require(whole, "rdms", f"of {len(keys)} (layer, step)", "one RDM for every layer at every step")
    order = {key: index for index, key in enumerate(keys)}
    stacked = np.stack([[values[order[layer, step]] for step in places[1]] for layer in places[0]])
    return Observation.from_dissimilarities(stacked, places[1], int(rdms.n_cond), neurons=neurons, layers=places[0])
