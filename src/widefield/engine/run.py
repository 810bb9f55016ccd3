"""Runs of the training program: compiled loops over steps that can be stopped and continued, with buffers that grow."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import DivergenceError, TooFewSamplesError
from ..numerics.memory import available_bytes, bytes_of, check_memory
from ..observables import Fields, Moment, Observable
from ..observables.kernels import whole_fields
from ..precision import enable_x64
from ..problem.training import recorded_steps
from .capacity import enlarge, first_room, larger, ranks, shortages
from .interpretation import Interpretation, Room, initialise
from .program import step
from .sources import Matched
from .state import Inputs, Spec, State

TIMES_BUCKET = 64
SMALLER = "lower width, samples or steps, or record less often (every=)"
SECONDS_PER_CALL = 0.5  # long enough to hide the call, short enough for progress and Ctrl-C

Report = Callable[[int, int, str], None]
Trainer = Callable[["Run", int, "Room | None", Callable[["Leg"], None]], tuple[dict[str, np.ndarray], "Leg"]]


@dataclass(frozen=True)
class Recording:
    """What is kept of a run: `wanted` observables every `every` steps, and some neurons."""

    wanted: tuple[Observable, ...]
    every: int
    neurons: int
    fields_every: int = 0  # whole fields φ, g, g̃ as well, every so many steps; 0 is never
    note: str = field(default="", compare=False)  # what a user should know about this choice

    def steps(self, last: int) -> np.ndarray:
        """The recorded ones of steps 0 … `last`."""
        return recorded_steps(last, self.every)

    def measure(self, spec: Spec, inputs: Inputs, fields: Fields) -> dict[str, Array]:
        """The values of one step, by name."""
        moment = self.moment(spec, inputs, fields)
        values = {one.name: one.measure(moment) for one in self.wanted if one.measure is not None}
        f = fields.f
        return {"f": f[:, 0] if f.shape[1] == 1 else f} | values

    def moment(self, spec: Spec, inputs: Inputs, fields: Fields) -> Moment:
        return Moment(fields, inputs.x, inputs.y, spec.points, spec.wiring, self.neurons)


@dataclass(frozen=True)
class Leg:
    """One network or replicate on its way: its state after `done` steps, in the buffers of `kind`, and its records."""

    kind: Interpretation
    state: State
    records: dict[str, Array]
    done: int = 0
    chunk: int = 1
    rank: int = 0
    directions: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came out: raw arrays with a leading axis over networks, how it went, and the room that it took."""

    arrays: dict[str, np.ndarray]
    info: dict[str, Any]
    room: Room

    def __add__(self, other: Outcome) -> Outcome:
        """Both together, as if they had been one run."""
        arrays = {name: np.concatenate([value, other.arrays[name]]) for name, value in self.arrays.items()}
        info = self.info | {"seeds": self.info["seeds"] + other.info["seeds"]}
        for name in {"rank", "directions"} & self.info.keys():
            info[name] = max(self.info[name], other.info[name])
        return Outcome(arrays, info, other.room)


@dataclass(frozen=True)
class Run:
    """Everything that describes a run.

    Attributes:
        spec, inputs: what is trained.
        kind: at which width.
        recording: what is kept.
        steps: how long.
        keys: random keys, one per network.
        quasi: (networks, populations, d, N) quasi-random normals, or None.
        report: called with steps done, steps in all and a message.
        finish: turns a network's last state and records into what is kept of it.
        trainer: takes a network to its end in place of `train`, e.g. with checkpoints on the way.
    """

    spec: Spec
    inputs: Inputs
    kind: Interpretation
    recording: Recording
    steps: int
    keys: Sequence[Array] | Array
    quasi: np.ndarray | None = None
    report: Report = lambda done, total, message: None
    finish: Callable[[State, dict[str, np.ndarray]], dict[str, np.ndarray]] = lambda state, records: records
    trainer: Trainer | None = None

    @property
    def total(self) -> int:
        """Steps of one network; the last one only measures."""
        return self.steps + 1

    def start(self, number: int, room: Room | None = None) -> Leg:
        """Network `number` before its first step, in buffers of `room` where one before it has shown what is needed."""
        if room is None:
            samples = self.inputs.x.shape[1] // self.spec.wiring.layout.positions
            room = first_room(self.kind, self.spec, samples, self.inputs.x.shape[-1])
        kind = replace(self.kind, room=room)
        records, size = self._sizes(kind, number)
        check_memory(size, f"a run of width {kind.width}", SMALLER)
        state = _start(self.spec, kind, self.inputs, self.keys[number], self._quasi(number))
        return Leg(kind, state, {name: jax.device_put(np.zeros(s.shape, s.dtype)) for name, s in records.items()})

    def _sizes(self, kind: Interpretation, number: int) -> tuple[dict[str, jax.ShapeDtypeStruct], int]:
        """Shapes of what is recorded, and bytes of that and of a network."""
        given = (self.inputs, self.keys[number], self._quasi(number))
        leaves, tree = jax.tree.flatten(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), given))
        return _room(self.spec, kind, self.recording, self.steps, tuple(leaves), tree)

    def _quasi(self, number: int) -> Array:
        if self.quasi is None:
            return jax.device_put(np.zeros((self.spec.populations, 0, self.kind.width), self.kind.dtype))
        return jax.device_put(self.quasi[number])

    def advance(self, leg: Leg) -> Leg:
        """One chunk of steps, shorter where a step found no room: buffers grow, and the next chunk takes it again."""
        until, began = min(leg.done + leg.chunk, self.total), time.perf_counter()
        state, records, status = _advance(
            self.spec, self.recording, self.inputs, leg.state, leg.records, jnp.asarray(until), jnp.asarray(self.steps)
        )
        reached, broken, used, short = jax.device_get(status)
        kind, reached, finite = leg.kind, int(reached), int(broken) < 0
        directions = max([0, *map(int, used.sources)])
        rank = max([0, *(int(r) for pair in used.matrices for r in pair), *map(int, used.feedbacks)])
        if not finite:
            # Where Gaussians are prepared beyond S dimensions, numbers stop being finite for that reason.
            directions = max([directions, *(int(s.prepared) for s in state.sources if isinstance(s, Matched))])
        self._check_particles(directions)
        self._check_finite(reached, int(broken))
        if any(jax.tree.leaves(short)):
            kind = replace(kind, room=larger(kind.room, used, short))
            what = f"a run of width {kind.width} at rank {rank}"
            check_memory(2 * bytes_of(state), what, SMALLER + ", or raise tolerance")
            state = enlarge(state, kind.room)
        seconds, steps = max(time.perf_counter() - began, 1e-9), max(reached - leg.done, 1)
        chunk = max(1, min(4 * leg.chunk, int(SECONDS_PER_CALL * steps / seconds)))
        return replace(
            leg, kind=kind, state=state, records=records, done=reached, chunk=chunk, rank=rank, directions=directions
        )

    def legs(self, number: int, room: Room | None = None) -> Iterator[Leg]:
        """Network `number`, chunk by chunk, from its start to its end."""
        leg = self.start(number, room)
        while leg.done < self.total:
            leg = self.advance(leg)
            yield leg

    def train(self, number: int, room: Room | None, watch: Callable[[Leg], None]) -> tuple[dict[str, np.ndarray], Leg]:
        """What is kept of network `number` at its end, and its last leg without arrays; `watch` sees every leg."""
        leg = None
        for leg in self.legs(number, room):
            watch(leg)
        assert leg is not None
        return self.records_of(leg), replace(leg, state=None, records={})  # type: ignore[arg-type]

    def records_of(self, leg: Leg) -> dict[str, np.ndarray]:
        """What is kept of a network that has come to its end."""
        times, untimed = len(self.recording.steps(self.steps)), {"h_final", "fields"}
        arrays = {name: np.asarray(value) for name, value in leg.records.items()}
        return self.finish(leg.state, {n: a if n in untimed else a[:times] for n, a in arrays.items()})

    def to_the_end(self, room: Room | None = None) -> Outcome:
        """Train every network. The first one finds the buffers' sizes, so that one compilation serves all others, which
        then run side by side as far as memory allows."""
        done, stop = Counter(self), threading.Event()

        def train(number: int, room: Room | None) -> tuple[dict[str, np.ndarray], Leg]:
            with enable_x64(True):  # a setting of the thread
                return (self.trainer or Run.train)(self, number, room, partial(watch, number))

        def watch(number: int, leg: Leg) -> None:
            done.set(number, leg.done)
            if stop.is_set():
                raise KeyboardInterrupt

        first = train(0, room)
        room, others = first[1].kind.room, range(1, len(self.keys))
        found = [first]
        if others:
            with ThreadPoolExecutor(self._workers(room)) as pool:
                futures = [pool.submit(train, number, room) for number in others]
                try:
                    found += [future.result() for future in futures]
                except BaseException:
                    stop.set()
                    pool.shutdown(cancel_futures=True)
                    raise
        kept, legs = zip(*found, strict=True)
        arrays = {name: np.stack([records[name] for records in kept]) for name in kept[0]}
        info: dict[str, Any] = {"width": self.kind.width, "seeds": len(self.keys), "engine": self.kind.kind}
        if not self.kind.has_entries:
            info |= {"rank": max(leg.rank for leg in legs), "tolerance": float(self.inputs.tolerance)}
        if self.kind.kind == "mean_field":
            info |= {"directions": max(leg.directions for leg in legs)}
        return Outcome(arrays, info, legs[-1].kind.room)

    def _workers(self, room: Room) -> int:
        """How many networks run at once: as many as there are processors, within half of the free memory."""
        _, size = self._sizes(replace(self.kind, room=room), 0)
        free = available_bytes()
        fitting = len(self.keys) if free is None else int(free / 2 / max(size, 1))
        return max(1, min(os.cpu_count() or 1, fitting, len(self.keys) - 1))

    def _check_finite(self, reached: int, broken: int) -> None:
        if broken < 0:
            return
        numbers = f"dt {float(self.inputs.dt):g}, richness {float(self.inputs.richness):g}"
        place, remedy, stages = f"step {reached - 1}", "lower dt, or lower richness", len(self.spec.wiring.stages)
        if not self.spec.wiring.feed_forward:
            place += f", frame {min(broken + 1, stages)} of {stages}"
            remedy = "lower dt, richness, or the network's gain or structure"
        raise DivergenceError(f"the run diverged at {place} ({numbers}); {remedy}")

    def _check_particles(self, directions: int) -> None:
        if self.kind.kind == "mean_field" and directions > self.kind.width // 2:
            raise TooFewSamplesError(
                f"a layer has {directions} Gaussian directions for {self.kind.width} particles; raise samples to "
                f"{4 * directions} or more, or raise tolerance (now {float(self.inputs.tolerance):g})",
                directions,
            )


class Counter:
    """Adds up the steps of networks that run side by side, for a report."""

    def __init__(self, run: Run):
        self._run, self._lock, self._done = run, threading.Lock(), {}

    def set(self, number: int, done: int) -> None:
        run = self._run
        with self._lock:
            self._done[number] = done
            what = f"{run.kind.kind}, width {run.kind.width}, {len(run.keys)} runs"
            run.report(sum(self._done.values()), len(run.keys) * run.total, what)


@partial(jax.jit, static_argnames=("spec", "kind"))
def _start(spec: Spec, kind: Interpretation, inputs: Inputs, key: Array, quasi: Array) -> State:
    return initialise(spec, kind, inputs, key, quasi)


@partial(jax.jit, static_argnames=("spec", "recording"), donate_argnums=(3, 4))
def _advance(
    spec: Spec, recording: Recording, inputs: Inputs, state: State, records: dict[str, Array], until: Array, last: Array
) -> tuple[State, dict[str, Array], tuple[Array, Array, Room, Room]]:
    """As far as `until`, or to where buffers are full or numbers are not finite; with what `advance` reads.

    `broken` is the first stage with numbers that are not finite, −1 where there is none.
    """

    def go_on(carry) -> Array:
        state, _, broken = carry
        short = jnp.any(jnp.stack([jnp.asarray(False), *jax.tree.leaves(shortages(state))]))
        return (state.step < until) & (broken < 0) & ~short

    def one(carry):
        state, kept, _ = carry
        now = state.step
        state, fields = step(spec, inputs, state)

        def write(kept: dict[str, Array]) -> dict[str, Array]:
            values = recording.measure(spec, inputs, fields)
            slot = -(-now // recording.every)  # the last step has one of its own
            return kept | {name: kept[name].at[slot].set(value) for name, value in values.items()}

        if recording.every == 1:
            kept = write(kept)
        else:
            kept = jax.lax.cond((now % recording.every == 0) | (now == last), write, lambda k: k, kept)
        if recording.fields_every:
            outside = len(kept["fields"])  # a slot that does not exist is not written
            slot = jnp.where(now % recording.fields_every == 0, now // recording.fields_every, outside)
            whole = whole_fields(recording.moment(spec, inputs, fields))
            kept = kept | {"fields": kept["fields"].at[slot].set(whole, mode="drop")}
        finite = jnp.isfinite(jnp.stack([*(jnp.sum(phi**2) for phi in fields.phi), jnp.sum(fields.f)]))
        broken = jnp.where(jnp.all(finite), -1, jnp.argmin(finite)).astype(jnp.int32)
        return state, kept | {"h_final": _last(spec, recording, fields)}, broken

    state, records, broken = jax.lax.while_loop(go_on, one, (state, records, jnp.asarray(-1, jnp.int32)))
    return state, records, (state.step, broken, ranks(state), shortages(state))


def _last(spec: Spec, recording: Recording, fields: Fields) -> Array:
    """Preactivations of some neurons at the last stage of every population, (L, P, neurons)."""
    last = {stage.population: h for stage, h in zip(spec.wiring.stages, fields.h, strict=True)}
    return jnp.stack([last[p][: spec.points, 0, : recording.neurons] for p in range(spec.populations)])


@lru_cache(maxsize=64)
def _room(
    spec: Spec, kind: Interpretation, recording: Recording, steps: int, leaves: tuple[jax.ShapeDtypeStruct, ...],
    tree: Any,
) -> tuple[dict[str, jax.ShapeDtypeStruct], int]:  # fmt: skip
    """Shapes of everything that will be recorded, and bytes of that and of a network, from shapes of `_start`'s arrays.

    Remembered, because the program is traced for it, which takes longer than a short run.
    """
    inputs, key, quasi = jax.tree.unflatten(tree, leaves)
    state = jax.eval_shape(partial(_start, spec, kind), inputs, key, quasi)
    _, fields = jax.eval_shape(partial(step, spec), inputs, state)
    shapes = jax.eval_shape(partial(recording.measure, spec), inputs, fields)
    # In buckets, so that runs of other lengths need no other compilation.
    times = -(-len(recording.steps(steps)) // TIMES_BUCKET) * TIMES_BUCKET
    kept = {name: jax.ShapeDtypeStruct((times, *s.shape), s.dtype) for name, s in shapes.items()}
    if recording.fields_every:
        whole = jax.eval_shape(lambda i, f: whole_fields(recording.moment(spec, i, f)), inputs, fields)
        kept["fields"] = jax.ShapeDtypeStruct((steps // recording.fields_every + 1, *whole.shape), whole.dtype)
    kept["h_final"] = jax.eval_shape(partial(_last, spec, recording), fields)
    return kept, bytes_of(state) + bytes_of(kept)
