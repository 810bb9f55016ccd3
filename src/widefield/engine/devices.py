"""Which devices a run uses, and how its arrays lie on them.

Neurons are the last axis of every large array. Where several devices share a network, that axis is sharded over them:
XLA makes an all-reduce of a small matrix of every inner product over neurons, and small matrices are the same
everywhere. Random numbers are functions of a key and a position in an array, never of the device that computes them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from ..errors import DivergenceError, MemoryBudgetError, TooFewSamplesError, WidefieldError, require
from ..numerics.memory import available_bytes, bytes_of

Device = Any  # `jax.Device`, which type checkers take for a variable
AXIS = "neurons"
# Neurons per device below which sharing a network is not tried. Chosen, not measured: two devices on two cores lost
# nothing with shares of 8192 (benchmarks/scale_out.py).
LEAST_SHARE = 4096
_RAISED = {kind.__name__: kind for kind in (DivergenceError, MemoryBudgetError)}  # by runs on their way
_LONGEST = 4096  # bytes of an error that processes tell each other


@dataclass(frozen=True)
class Place:
    """Where a network is: on one device, or on several that share its neurons; () is JAX's default device."""

    devices: tuple[Device, ...] = ()

    @property
    def split(self) -> bool:
        return len(self.devices) > 1

    @property
    def across_processes(self) -> bool:
        return len({device.process_index for device in self.devices}) > 1

    def __str__(self) -> str:
        """What follows "a run of width 100" in a message."""
        return f" on each of {len(self.devices)} devices" if self.split else ""

    @property
    def writes(self) -> bool:
        """Whether this process is the one that writes files about networks here."""
        return not self.devices or self.devices[0].process_index == jax.process_index()

    def sharding(self, shape: Sequence[int], width: int) -> jax.sharding.Sharding:
        """Of an array whose last axis are neurons, if it is as long as `width` or a multiple; replicated else."""
        if not self.split:
            return SingleDeviceSharding(self.devices[0] if self.devices else jax.local_devices()[0])
        neurons = bool(shape) and shape[-1] > 0 and shape[-1] % width == 0
        axes = [None] * (len(shape) - 1) + [AXIS] if neurons else []
        return NamedSharding(_mesh(self.devices), PartitionSpec(*axes))

    def put(self, tree: Any, width: int) -> Any:
        """Arrays that every process has in whole, as arrays here."""

        def one(leaf: Any) -> Any:
            if not self.devices:
                return jax.device_put(leaf)
            if not self.across_processes:
                return jax.device_put(leaf, self.sharding(leaf.shape, width))
            if is_key(leaf):
                data = one(jax.random.key_data(leaf))
                return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
            value = np.asarray(leaf)
            sharding = self.sharding(value.shape, width)
            return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

        return jax.tree.map(one, tree)

    def constrain(self, tree: Any, width: int) -> Any:
        """The same inside a compiled function; what XLA would choose by itself may be to gather large arrays."""
        if not self.split:
            return tree
        return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, self.sharding(leaf.shape, width)), tree)

    def read(self, tree: Any) -> Any:
        """Arrays that this process can read in whole; all processes that share them must ask."""

        def one(leaf: Any) -> Any:
            if leaf.is_fully_addressable or leaf.is_fully_replicated:
                return leaf
            return multihost_utils.process_allgather(leaf, tiled=True)

        return jax.tree.map(one, tree) if self.across_processes else tree

    def agreed(self, number: int) -> int:
        """The first process's number: clocks differ, and all must take the same steps."""
        if not self.across_processes:
            return number
        return int(multihost_utils.broadcast_one_to_all(np.asarray(number, np.int32)))

    def bytes_per_device(self, tree: Any, width: int) -> int:
        """Size of arrays, or shapes, on each of the devices."""
        if not self.split:
            return bytes_of(tree)
        leaves = jax.tree.leaves(tree)
        shared = [leaf for leaf in leaves if not self.sharding(leaf.shape, width).is_fully_replicated]
        return bytes_of(leaves) - bytes_of(shared) + bytes_of(shared) // len(self.devices)

    def free_bytes(self, at_once: int = 1) -> int | None:
        """Memory for each device, if `at_once` of such places of this process are in use; None where it is unknown."""
        local = [device for device in self.devices if device.process_index == jax.process_index()]
        own = [found for device in local if (found := _own_memory(device)) is not None]
        if own:
            return min(own)
        free = available_bytes()  # devices without memory of their own share that of the machine
        return None if free is None else free // (max(1, len(local)) * at_once)


ANYWHERE = Place()


def is_key(leaf: Any) -> bool:
    """Whether an array holds random keys."""
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


@lru_cache(maxsize=16)
def _mesh(devices: tuple[Device, ...]) -> Mesh:
    return Mesh(np.array(devices), (AXIS,))


def _own_memory(device: Device) -> int | None:
    """Free memory of a device that has its own, such as a GPU."""
    try:
        found = device.memory_stats() or {}
    except Exception:  # backends without such numbers raise errors of many kinds
        return None
    return found["bytes_limit"] - found.get("bytes_in_use", 0) if "bytes_limit" in found else None


def choose_devices(devices: Any = None) -> tuple[Device, ...]:
    """The devices that a call names; by default all there are, those of other processes included."""
    if devices is None:
        return tuple(jax.devices())
    found: tuple[Device, ...] = tuple(devices) if isinstance(devices, Sequence) else ()
    different = all(isinstance(one, jax.Device) for one in found) and 0 < len(set(found)) == len(found)
    require(different, "devices", devices, "a list of different JAX devices, e.g. jax.devices()[:2]")
    own = any(one.process_index == jax.process_index() for one in found)
    require(own, "devices", devices, "devices among which are some of this process")
    return found


def about_devices(devices: Sequence[Device]) -> dict[str, int]:
    """What a result says about them: nothing where there is one."""
    processes = len({device.process_index for device in devices})
    return {"devices": len(devices), "processes": processes} if len(devices) > 1 else {}


def announce(devices: Sequence[Device], progress: Any) -> None:
    """Say at the start, once, how many processes and devices are used, unless there is one or `progress` is False."""
    about = about_devices(devices)
    if about and (progress is None or progress is True) and Place(tuple(devices)).writes:
        counts = [f"{count} {name if count > 1 else one}" for (name, count), one in
                  zip(reversed(about.items()), ("process", "device"), strict=True)]  # fmt: skip
        print(f"widefield: {', '.join(counts)} ({devices[0].platform})", file=sys.stderr, flush=True)


def places(devices: tuple[Device, ...], networks: int, width: int, size: Callable[[Place], int]) -> tuple[Place, ...]:
    """Where networks are trained at the same time; network i belongs to place i modulo their number.

    One device each while there are networks for all, or where a share of one would be small: this takes no
    communication. Else, or where `size` bytes do not fit on one, all devices share the neurons of one network after
    another.
    """
    if len(devices) == 1:
        return (ANYWHERE,) if devices[0] == jax.local_devices()[0] else (Place(devices),)
    processes = {device.process_index for device in devices}
    alone = _interleaved(devices)[:networks]
    enough = networks >= len(processes) and (networks >= len(devices) or width < LEAST_SHARE * len(devices))
    local = [place for place in alone if place.writes]
    free = local[0].free_bytes(len(local)) if local else 0
    fits = free is None or (bool(local) and size(local[0]) <= free)
    if len(processes) > 1:  # all must decide alike
        fits = bool(np.all(multihost_utils.process_allgather(np.asarray(fits))))
    if enough and fits:
        return tuple(alone)
    most = max(count for count in range(1, len(devices) + 1) if width % count == 0)
    if len(processes) > 1:
        allowed = f"a multiple of the {len(devices)} devices that share them"
        require(most == len(devices), "number of neurons", width, allowed)
    return (Place(devices[:most]),)


def _interleaved(devices: tuple[Device, ...]) -> list[Place]:
    """Single devices, taken from processes in turn."""
    by_process: dict[int, list[Device]] = {}
    for device in devices:
        by_process.setdefault(device.process_index, []).append(device)
    turns = max(map(len, by_process.values()))
    return [Place((own[turn],)) for turn in range(turns) for own in by_process.values() if turn < len(own)]


def exchange(found: dict[int, dict[str, np.ndarray]], owners: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """All networks' arrays, from the processes `owners` that have them; every process has at least one."""
    one = next(iter(found.values()))
    out: list[dict[str, np.ndarray]] = [{} for _ in owners]
    for name in sorted(one):
        whole = np.zeros((len(owners), *one[name].shape), one[name].dtype)
        for number, arrays in found.items():
            whole[number] = arrays[name]
        gathered = np.asarray(multihost_utils.process_allgather(whole))
        for number, owner in enumerate(owners):
            out[number][name] = gathered[owner, number]
    return out


def raise_together(error: WidefieldError | None) -> None:
    """Raise on all processes what was raised on one of them."""
    said: dict[str, Any] = {}
    if error is not None:
        said = {"type": type(error).__name__, "message": str(error)[: _LONGEST // 8]}
    if isinstance(error, TooFewSamplesError):
        said["directions"] = error.directions
    text = np.zeros(_LONGEST, np.uint8)
    encoded = json.dumps(said).encode()
    text[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    for row in np.asarray(multihost_utils.process_allgather(text)):
        told = json.loads(bytes(row).rstrip(b"\0"))
        if told:
            if "directions" in told:
                raise TooFewSamplesError(told["message"], told["directions"]) from error
            raise _RAISED.get(told["type"], WidefieldError)(told["message"]) from error


def wait_for_all(devices: Sequence[Device], what: str) -> None:
    """Until every process of the devices has come here."""
    if len({device.process_index for device in devices}) > 1:
        multihost_utils.sync_global_devices(what)
