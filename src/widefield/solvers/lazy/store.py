"""Kernels on disk: a Zarr store that is filled tile by tile and can be resumed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...errors import MOST_SHOWN, ResultFileError, cut
from .prepare import Prepared
from .tiles import Kernels, Tile, output_shapes, place

FORMAT = "widefield lazy kernels 1"


@dataclass(frozen=True)
class KernelStore:
    """An open store; `finished` are the tiles that it had when it was opened."""

    group: Any
    prepared: Prepared
    tile: int
    finished: frozenset[Tile]

    def write(self, start: Tile, tile: Kernels) -> None:
        place(self.prepared, {name: self.group[name] for name in tile}, start, tile)
        # Only after its data: a tile that was cut short is made again.
        self.group["finished"][start[0] // self.tile, start[1] // self.tile] = True

    def arrays(self) -> dict[str, Any]:
        return {name: self.group[name] for name in sorted(self.prepared.outputs)}


def fingerprint(prepared: Prepared, numbers: tuple[object, ...]) -> str:
    """A hash of everything that the numbers depend on."""
    digest = hashlib.sha256()
    probe = jnp.linspace(-3.0, 3.0, 61)
    activation = prepared.network.activation
    for array in (*prepared.rows, np.asarray(activation.phi(probe)), np.asarray(activation.phi_dot(probe))):
        digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    rule = f"{type(prepared.rule).__module__}:{prepared.rule!r}"
    words = (prepared.network, rule, sorted(prepared.outputs), prepared.one_set)
    digest.update(repr(words).encode())
    for number in numbers:
        digest.update(b"none" if number is None else np.asarray(number, float).tobytes())
    return digest.hexdigest()


def open_store(path: str | Path, prepared: Prepared, tile: int, numbers: tuple[object, ...]) -> KernelStore:
    """Open `path` for the kernels of `prepared`: a new store, or an unfinished or finished one of the same settings."""
    import zarr  # here, because only runs that write to disk need it

    path = Path(path)
    settings = fingerprint(prepared, numbers)
    try:
        if path.exists():
            return _resume(path, prepared, settings)
        group = zarr.open_group(path, mode="w-")
        for name, shape in output_shapes(prepared).items():
            lead = () if name == "entk" else (1,)
            chunks = (*lead, *(min(tile, n) for n in prepared.counts), *shape[len(lead) + 2 :])
            group.create_array(name, shape=shape, chunks=chunks, dtype="float64")
        grid = tuple(-(-n // tile) for n in prepared.counts)
        group.create_array("finished", shape=grid, chunks=(1, 1), dtype="bool")
        # Written last: a store without it was never fully set up.
        group.attrs.update({"format": FORMAT, "settings": settings, "tile": tile})
    except ResultFileError:
        raise
    except OSError as error:
        raise ResultFileError(
            f"store {cut(str(path), MOST_SHOWN)} cannot be written ({error.strerror or error})"
        ) from error
    return KernelStore(group, prepared, tile, frozenset())


def _resume(path: Path, prepared: Prepared, settings: str) -> KernelStore:
    import zarr

    try:
        group = zarr.open_group(path, mode="r+")
        attributes = json.loads(json.dumps(dict(group.attrs)))
    except Exception as error:
        raise ResultFileError(f"store {path} exists and is no Zarr group; choose another path or remove it") from error
    if attributes.get("format") != FORMAT:
        raise ResultFileError(f"store {path} exists and holds no widefield kernels; choose another path or remove it")
    if attributes["settings"] != settings:
        raise ResultFileError(
            f"store {path} holds kernels of other points, another network, rule, outputs or accuracy; "
            "choose another path"
        )
    tile = int(attributes["tile"])
    marks: Any = group["finished"]
    finished = np.argwhere(np.asarray(marks[:]))
    return KernelStore(group, prepared, tile, frozenset((int(i) * tile, int(j) * tile) for i, j in finished))
