"""Runs of the training program: compiled loops over steps that can be stopped and continued, with buffers that grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import DivergenceError, TooFewSamplesError
from ..numerics.compiled import compiled
from ..numerics.memory import check_memory
from ..numerics.processors import processors
from ..observables import Fields, Moment, Observable, measured
from ..observables.kernels import whole_fields
from ..problem.training import recorded_steps
from .capacity import (
    enlarge,
    first_room,
    fitted,
    larger,
    most_gaussians,
    most_taken,
    packed,
    ranks,
    rows_of,
    shortages,
    unpacked,
)
from .crew import Crew
from .devices import ANYWHERE, Device, Place, places
from .interpretation import NO_ROOM, Interpretation, Room, initialise
from .pilot import pilot
from .program import recorded_step, step_of_batch
from .sources import Matched, Pool
from .stability import LOST, growth
from .state import Inputs, Spec, State

TIMES_BUCKET = 64
SMALLER = "lower width, samples or steps, or record less often (every=)"
COMPILATION = 4.0  # seconds that a training step takes to compile
SHORT = 20.0  # seconds of one network on a slow processor
SECONDS_PER_CALL = 0.5  # long enough to hide the call, short enough for progress and Ctrl-C
# A step on a slow processor, before the first ones tell: seconds besides its products, and flops a second of those.
SLOW_STEP, SLOW_PRODUCTS = 1e-3, 1e10

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
        values = {one.name: measured(one, moment) for one in self.wanted if one.measure is not None}
        f = fields.f
        return {"f": f[:, 0] if f.shape[1] == 1 else f} | values

    def moment(self, spec: Spec, inputs: Inputs, fields: Fields) -> Moment:
        return Moment(fields, inputs.x, inputs.y, spec.points, spec.wiring, self.neurons)


@dataclass(frozen=True)
class Leg:
    """Network or replicate `number` on its way: its state after `done` steps, in buffers of `kind`, and its records."""

    number: int
    kind: Interpretation
    state: State
    records: dict[str, Array]
    done: int = 0
    chunk: int = 1
    rank: int = 0
    directions: int = 0
    used: Room = field(default=NO_ROOM, compare=False)
    pace: float = field(default=0.0, compare=False)  # seconds per step


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
        pools: per network and population, what matched Gaussians are made of; none at finite width.
        report: called with steps done, steps in all and a message.
        finish: turns a network's last state and records into what is kept of it.
        trainer: takes a network to its end in place of `train`, e.g. with checkpoints on the way.
        devices: what networks may be spread over; () is JAX's default device.
        place: where the networks of this run are.
    """

    spec: Spec
    inputs: Inputs
    kind: Interpretation
    recording: Recording
    steps: int
    keys: Sequence[Array] | Array
    pools: Sequence[Sequence[Pool]] = ()
    report: Report = lambda done, total, message: None
    finish: Callable[[State, dict[str, np.ndarray]], dict[str, np.ndarray]] = lambda state, records: records
    trainer: Trainer | None = None
    devices: tuple[Device, ...] = ()
    place: Place = ANYWHERE

    def at(self, place: Place) -> Run:
        """The same run at a place."""
        if place == self.place:
            return self
        return replace(self, place=place, inputs=place.put(self.inputs, self.kind.width))

    @property
    def total(self) -> int:
        """Steps of one network; the last one only measures."""
        return self.steps + 1

    def start(self, number: int, room: Room | None = None) -> Leg:
        """Network `number` before its first step, in buffers of `room` where one before it has shown what is needed."""
        if room is None:
            room = self.first_room()
        kind, place = replace(self.kind, room=room), self.place
        records, size = self._sizes(kind, place)
        check_memory(size, f"a run of width {kind.width}{place}", SMALLER, place.free_bytes())
        bases = [pool.basis(rows) for pool, rows in self._pools(number, room)]
        key, bases = place.put((self.keys[number], bases), kind.width)
        state = _start(self.spec, kind, place, self.inputs, key, bases)
        zeros = {name: np.zeros(s.shape, s.dtype) for name, s in records.items()}
        return Leg(number, kind, state, place.put(zeros, kind.width), chunk=self._first_chunk(kind))

    @property
    def short(self) -> bool:
        """Whether buffers of a better size would not be worth a compilation, on any processor."""
        return self.kind.has_entries or self.total * self._slow_step(replace(self.kind, room=self.first_room())) < SHORT

    def _first_chunk(self, kind: Interpretation) -> int:
        """Steps of the first call. Every call copies the buffers, which takes as long as some steps of few rows."""
        return max(1, int(SECONDS_PER_CALL / self._slow_step(kind)))

    def _slow_step(self, kind: Interpretation) -> float:
        """Seconds that a step takes on a slow processor."""
        wiring = self.spec.wiring
        frames = max([1, *(len(wiring.asks(matrix)) for matrix in range(wiring.matrices))])
        rows = self._samples * wiring.layout.positions * self.spec.sweeps * frames
        columns = 2 * self.inputs.x.shape[-1] + 4 * self._samples * wiring.populations  # 4: kernels
        columns += 3 * kind.width * wiring.matrices if kind.has_entries else 5 * rows_of(kind.room)
        return SLOW_STEP + 2 * rows * columns * kind.width / SLOW_PRODUCTS

    def first_room(self) -> Room:
        spec, inputs = self.spec, self.inputs
        tolerances = float(inputs.tolerance), float(inputs.tolerance_back)
        first = None
        if not self.kind.has_entries:
            points = len(inputs.y)
            if inputs.batches is not None:
                points = min(points, self.steps * inputs.batches.shape[1])
            first = pilot(spec, inputs, max(points, 1))
        return first_room(self.kind, spec, self._samples, inputs.x.shape[-1], tolerances, first)

    @property
    def _samples(self) -> int:
        return samples_of(self.spec, self.inputs)

    def expected_directions(self) -> int:
        """Gaussian directions that a population is likely to need, for all points that ever pass."""
        spec, inputs = self.spec, self.inputs
        points = len(inputs.y)
        if spec.online and inputs.batches is not None:
            points = min(points, self.steps * inputs.batches.shape[1])
        whole = replace(self, spec=replace(spec, points=points, online=False))
        return max(whole.first_room().sources, default=0)

    def next_room(self, leg: Leg, others: int) -> Room:
        """The buffers for `others` networks after one that has come to its end: smaller ones than it had, where that
        saves more than it takes to compile."""
        if leg.used == NO_ROOM:  # it was read from a checkpoint
            return leg.kind.room
        room = fitted(leg.kind.room, leg.used, most_taken(self.spec, self._samples), self.spec.wiring.layout.offsets)
        saved = 1 - rows_of(room) / max(rows_of(leg.kind.room), 1)
        seconds = saved * leg.pace * self.total * others / self.workers(leg.kind.room, others)
        return room if seconds > COMPILATION else leg.kind.room

    def _sizes(self, kind: Interpretation, place: Place) -> tuple[dict[str, jax.ShapeDtypeStruct], int]:
        """Shapes of what is recorded, and bytes of that and of a network on each device."""
        given = (self.inputs, self.keys[0])
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), given)
        bases = [jax.ShapeDtypeStruct((1 + size, kind.width), kind.dtype) for size in kind.room.sources]
        leaves, tree = jax.tree.flatten((*shapes, bases))
        kept, state = _shapes(self.spec, kind, self.recording, self.steps, tuple(leaves), tree)
        return kept, place.bytes_per_device((kept, state), kind.width)

    def _pools(self, number: int, room: Room) -> list[tuple[Pool, int]]:
        return list(zip(self.pools[number], room.sources, strict=True)) if self.pools else []

    def advance(self, leg: Leg) -> Leg:
        """One chunk of steps, shorter where a step found no room: buffers grow, and the next chunk takes it again."""
        until, began = min(leg.done + leg.chunk, self.total), time.perf_counter()
        ends = self.place.put((np.asarray(until), np.asarray(self.steps)), self.kind.width)
        state, records, status = _advance(
            self.spec, self.recording, self.place, self.inputs, leg.state, leg.records, *ends
        )
        reached, (grown, broken), used, short = jax.device_get(status)
        kind, reached = leg.kind, int(reached)
        directions = max([0, *map(int, used.sources)])
        rank = max([0, *(int(r) for pair in used.matrices for r in pair), *map(int, used.feedbacks)])
        offsets = self.spec.wiring.layout.offsets
        taken = most_taken(self.spec, self._samples)
        most = most_gaussians(kind.width, taken * offsets)
        if any(out and size >= most for size, out in zip(kind.room.sources, short.sources, strict=True)):
            directions = max(directions, most)
        self._check_particles(directions)
        self._check_growth(reached, float(grown), int(broken))
        if any(jax.tree.leaves(short)):
            ahead = self.total / max(reached, 1)
            kind = replace(kind, room=larger(kind.room, used, short, kind.width, taken, offsets, ahead))
            what = f"a run of width {kind.width} at rank {rank}{self.place}"
            size = 2 * self.place.bytes_per_device(state, kind.width)
            check_memory(size, what, SMALLER + ", or raise tolerance", self.place.free_bytes())
            state = self._with_gaussians(leg.number, enlarge(state, kind.room), kind.room)
        seconds, steps = max(time.perf_counter() - began, 1e-9), max(reached - leg.done, 1)
        chunk = self.place.agreed(max(1, min(4 * leg.chunk, int(SECONDS_PER_CALL * steps / seconds))))
        return replace(
            leg, kind=kind, state=state, records=records, done=reached, chunk=chunk, rank=rank, directions=directions,
            used=used, pace=seconds / steps,
        )  # fmt: skip

    def _with_gaussians(self, number: int, state: State, room: Room) -> State:
        """`state` with as many Gaussians as there is room for."""
        sources = list(state.sources)
        for layer, (pool, size) in enumerate(self._pools(number, room)):
            source = sources[layer]
            assert isinstance(source, Matched)
            if len(source.basis) < 1 + size:
                have = np.asarray(self.place.read(source.basis))
                sources[layer] = source.moved(self.place.put(pool.basis(size, have), self.kind.width))
        return replace(state, sources=sources)

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
        arrays = {name: np.asarray(value) for name, value in self.place.read(leg.records).items()}
        state = self.place.read(leg.state) if self.recording.fields_every else leg.state
        return self.finish(state, {n: a if n in untimed else a[:times] for n, a in arrays.items()})

    def to_the_end(self, room: Room | None = None) -> Outcome:
        """Train every network, on all devices."""
        found = Crew(self).train_all(self._places(room), room)
        kept, legs = zip(*found, strict=True)
        arrays = {name: np.stack([records[name] for records in kept]) for name in kept[0]}
        info: dict[str, Any] = {"width": self.kind.width, "seeds": len(self.keys), "engine": self.kind.kind}
        if not self.kind.has_entries:
            tolerances = {name: float(getattr(self.inputs, name)) for name in ("tolerance", "tolerance_back")}
            info |= {"rank": max(leg.rank for leg in legs)} | tolerances
        if self.kind.kind == "mean_field":
            info |= {"directions": max(leg.directions for leg in legs)}
        # The first network's buffers were a guess, where others have come after it.
        largest = jax.tree.map(lambda *sizes: max(sizes), *(leg.kind.room for leg in legs[-max(1, len(legs) - 1) :]))
        return Outcome(arrays, info, largest)

    def _places(self, room: Room | None) -> tuple[Place, ...]:
        if not self.devices:
            return (self.place,)
        kind = replace(self.kind, room=room or self.first_room())
        return places(self.devices, len(self.keys), kind.width, lambda place: self._sizes(kind, place)[1])

    def workers(self, room: Room, count: int) -> int:
        """How many of `count` networks run at once: as many as there are processors, within half of the free memory.

        One where devices share a network, since their sums must come in one order.
        """
        if self.place.split:
            return 1
        _, size = self._sizes(replace(self.kind, room=room), self.place)
        free = self.place.free_bytes()
        fitting = count if free is None else int(free / 2 / max(size, 1))
        return max(1, min(processors(), fitting, count))

    def _check_growth(self, reached: int, grown: float, broken: int) -> None:
        if grown <= LOST:
            return
        numbers = f"dt {float(self.inputs.dt):g}, richness {float(self.inputs.richness):g}"
        place, remedy, stages = f"step {reached - 1}", "lower dt, or lower richness", len(self.spec.wiring.stages)
        if not self.spec.wiring.feed_forward:
            place += f", frame {min(broken + 1, stages)} of {stages}" if broken >= 0 else ""
            remedy = "lower dt, richness, or the network's gain or structure"
        how = f", where the loss is {grown:.1g} times that of the start" if np.isfinite(grown) else ""
        raise DivergenceError(f"the run diverged at {place}{how} ({numbers}); {remedy}")

    def _check_particles(self, directions: int) -> None:
        if self.kind.kind == "mean_field" and directions > self.kind.width // 2:
            raise TooFewSamplesError(
                f"a layer has {directions} Gaussian directions for {self.kind.width} particles; raise samples to "
                f"{4 * directions} or more, or raise tolerance (now {float(self.inputs.tolerance):g})",
                directions,
            )


@compiled(static_argnames=("spec", "kind", "place"))
def _start(spec: Spec, kind: Interpretation, place: Place, inputs: Inputs, key: Array, bases: list[Array]) -> State:
    return place.constrain(initialise(spec, kind, inputs, key, bases), kind.width)


@compiled(static_argnames=("spec", "recording", "place"), donate_argnums=(4, 5))
def _advance(
    spec: Spec, recording: Recording, place: Place, inputs: Inputs, state: State, records: dict[str, Array],
    until: Array, last: Array,
) -> tuple[State, dict[str, Array], tuple[Array, tuple[Array, Array], Room, Room]]:  # fmt: skip
    """As far as `until`, or to where buffers are full or the run has exploded; with what `advance` reads.

    Of the last step: how much the loss has grown, and the first stage with numbers that are not finite, −1 for none.
    """

    def go_on(carry) -> Array:
        state, _, (grown, _) = carry
        short = jnp.any(jnp.stack([jnp.asarray(False), *jax.tree.leaves(shortages(state))]))
        return (state.step < until) & (grown <= LOST) & ~short

    def one(carry):
        state, kept, _ = carry
        now = state.step
        recorded = (now % recording.every == 0) | (now == last)
        more = samples_of(spec, inputs) > spec.points or not spec.online
        if inputs.batches is not None and recording.every > 1 and more and not recording.fields_every:
            # Two programs; a step between recorded ones passes its batch only.
            return jax.lax.cond(recorded, whole, part, state, kept)
        return whole(state, kept, recorded)

    def whole(state: State, kept: dict[str, Array], recorded: Array | None = None):
        now = state.step
        state, fields, passed = recorded_step(spec, inputs, state)

        def write(kept: dict[str, Array]) -> dict[str, Array]:
            values = recording.measure(spec, passed, fields)
            slot = -(-now // recording.every)  # the last step has one of its own
            return kept | {name: kept[name].at[slot].set(value) for name, value in values.items()}

        if recorded is None or recording.every == 1:
            kept = write(kept)
        else:
            kept = jax.lax.cond(recorded, write, lambda k: k, kept)
        if recording.fields_every:
            outside = len(kept["fields"])  # a slot that does not exist is not written
            slot = jnp.where(now % recording.fields_every == 0, now // recording.fields_every, outside)
            all_fields = whole_fields(recording.moment(spec, inputs, fields))
            kept = kept | {"fields": kept["fields"].at[slot].set(all_fields, mode="drop")}
        broken = _broken(fields)
        grown = jnp.where(broken < 0, growth(spec, passed, fields.f), jnp.nan)
        kept = kept | {"h_final": _last(spec, recording, fields)}
        return (*place.constrain((state, kept), state.inputs.shape[-1]), (grown, broken))

    def part(state: State, kept: dict[str, Array]):
        state, fields, _ = step_of_batch(spec, inputs, state)
        broken = _broken(fields)
        grown = jnp.where(broken < 0, 0.0, jnp.nan).astype(inputs.y.dtype)
        return (*place.constrain((state, kept), state.inputs.shape[-1]), (grown, broken))

    start = (jnp.zeros((), inputs.y.dtype), jnp.asarray(-1, jnp.int32))
    if not place.split:  # only rows are sharded
        state = unpacked(spec, samples_of(spec, inputs), state)
    state, records, health = jax.lax.while_loop(go_on, one, (state, records, start))
    state = packed(state)
    return state, records, (state.step, health, ranks(state), shortages(state))


def samples_of(spec: Spec, inputs: Inputs) -> int:
    """Points and test points that pass at a recorded step."""
    return inputs.x.shape[1] // spec.wiring.layout.positions - len(inputs.y) + spec.points


def _broken(fields: Fields) -> Array:
    """The first stage with numbers that are not finite, −1 where there is none."""
    finite = jnp.isfinite(jnp.stack([*(jnp.sum(phi**2) for phi in fields.phi), jnp.sum(fields.f)]))
    return jnp.where(jnp.all(finite), -1, jnp.argmin(finite)).astype(jnp.int32)


def _last(spec: Spec, recording: Recording, fields: Fields) -> Array:
    """Preactivations of some neurons at the last stage of every population, (L, P, neurons)."""
    last = {stage.population: h for stage, h in zip(spec.wiring.stages, fields.h, strict=True)}
    return jnp.stack([last[p][: spec.points, 0, : recording.neurons] for p in range(spec.populations)])


@lru_cache(maxsize=64)
def _shapes(
    spec: Spec, kind: Interpretation, recording: Recording, steps: int, leaves: tuple[jax.ShapeDtypeStruct, ...],
    tree: Any,
) -> tuple[dict[str, jax.ShapeDtypeStruct], State]:  # fmt: skip
    """Shapes of everything that will be recorded, and those of a network, from shapes of `_start`'s arrays.

    Remembered, because the program is traced for it, which takes longer than a short run.
    """
    inputs, key, bases = jax.tree.unflatten(tree, leaves)
    state = jax.eval_shape(partial(initialise, spec, kind), inputs, key, bases)
    _, fields, passed = jax.eval_shape(partial(recorded_step, spec), inputs, state)
    shapes = jax.eval_shape(partial(recording.measure, spec), passed, fields)
    # In buckets, so that runs of other lengths need no other compilation.
    times = -(-len(recording.steps(steps)) // TIMES_BUCKET) * TIMES_BUCKET
    kept = {name: jax.ShapeDtypeStruct((times, *s.shape), s.dtype) for name, s in shapes.items()}
    if recording.fields_every:
        whole = jax.eval_shape(lambda i, f: whole_fields(recording.moment(spec, i, f)), inputs, fields)
        kept["fields"] = jax.ShapeDtypeStruct((steps // recording.fields_every + 1, *whole.shape), whole.dtype)
    kept["h_final"] = jax.eval_shape(partial(_last, spec, recording), fields)
    return kept, state
