"""The three kinds of width, and how a network of each is initialised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..problem.networks import RankOne
from ..rules.rule import Rule
from .dense import make_dense
from .low_rank import make_low_rank
from .sources import Plain, Source, make_matched
from .state import Inputs, Spec, State
from .wide_matrix import WideMatrix


class Room(NamedTuple):
    """Something about every buffer, e.g. how many directions it holds.

    Per hidden matrix that of questions forward and backward, then one per W̃ and one per population's Gaussians.
    """

    matrices: tuple[tuple[Any, Any], ...] = ()
    feedbacks: tuple[Any, ...] = ()
    sources: tuple[Any, ...] = ()


NO_ROOM = Room()


@dataclass(frozen=True)
class Interpretation:
    """One kind of width.

    Attributes:
        kind: "dense", "conditioned" or "mean_field".
        width: N, or the number of particles S.
        room: of networks that are kept as questions and answers.
    """

    kind: str
    width: int
    room: Room = NO_ROOM
    dtype: str = "float64"

    @property
    def has_entries(self) -> bool:
        """Whether weights are there one by one."""
        return self.kind == "dense"

    def matrix(
        self, key: Array, spec: Spec, inputs: Inputs, room: tuple[int, int], parts: frozenset[str], rho: Array,
        velocity: bool = False, start: float = 1.0, slots: int = 0,
    ) -> WideMatrix:  # fmt: skip
        """A matrix start·N(0, 1) that `slots` rows teach."""
        inside = spec.wiring.layout.offsets * self.width
        if self.has_entries:
            return make_dense(key, self.width, inside, self.width, self.dtype, parts, rho, velocity, start)
        made = make_low_rank(
            self.width,
            inside,
            self.width,
            room,
            self.dtype,
            (inputs.tolerance, inputs.tolerance_back),
            parts,
            rho,
            velocity,
            slots,
            spec.decays,
        )
        return replace(made, scale=start * made.scale, mirror_scale=start * made.mirror_scale)


def initialise(spec: Spec, kind: Interpretation, inputs: Inputs, key: Array, bases: Sequence[Array]) -> State:
    """A network before its first step; `bases` are the matched Gaussians of every population, none at finite width."""
    dtype, width, wiring = kind.dtype, kind.width, spec.wiring
    layout, populations = wiring.layout, spec.populations
    rules = spec.form.filled(inputs.rule)
    keys = iter(jax.random.split(jax.random.fold_in(key, 1), 6 * populations + 4))
    room = kind.room if not kind.has_entries else Room(((0, 0),) * wiring.matrices, (0,) * wiring.matrices)
    sources: list[Source] = [make_matched(basis) for basis in bases] or [Plain(width)] * populations
    nothing = jnp.zeros((1, width), dtype)

    def gaussians(layer: int, rows: int, keys: Iterator[Array] = keys) -> Array:
        source, _ = sources[layer], next(keys)  # every second key: a seed stands for the networks it always stood for
        sources[layer] = source.take(jnp.asarray(rows, jnp.int32), rows)
        return source.draw(next(keys), rows, nothing)

    # What stays fixed comes first: it gets the best quasi-random dimensions.
    shape = (spec.outputs, layout.readout_positions, width)
    readout = gaussians(populations - 1, shape[0] * shape[1]).reshape(shape)
    readout_feedback = None
    if needs_tilde(spec, kind, populations - 1):
        readout_feedback = gaussians(populations - 1, shape[0] * shape[1]).reshape(shape)
    mirrored = "mirror" in spec.form.shapes[-1].uses
    direct: list[Array | None] = [None] * populations
    for layer, rule in enumerate(rules):
        if rule.feedback.direct:
            rows = spec.outputs * layout.positions
            direct[layer] = gaussians(layer, rows).reshape(spec.outputs, layout.positions, width)
    columns = inputs.x.shape[-1]
    gates = [gaussians(layer, columns) if rule.gated else None for layer, rule in enumerate(rules)]
    weights = gaussians(wiring.stages[0].population, columns)

    def correlation(rule: Rule) -> Array:
        return jnp.asarray(rule.feedback.rho, dtype)

    ends = [wiring.ends(matrix)[0] for matrix in range(wiring.matrices)]
    matrices = [
        kind.matrix(next(keys), spec, inputs, room.matrices[matrix],
                    spec.form.shapes[below].uses | ({"initial"} if spec.initial else set()),
                    correlation(rules[below]), spec.momentum, wiring.start,
                    len(inputs.y) * layout.positions * len(wiring.asks(matrix)) if spec.returns else 0)
        for matrix, below in enumerate(ends)
    ]  # fmt: skip
    structure = None
    if wiring.structure and matrices:
        more = iter(jax.random.split(jax.random.fold_in(key, 3), 3))
        drawn = gaussians(0, 2 * len(wiring.structure), more)
        structure = _low_rank_parts(wiring.structure, inputs.along, readout[:, 0], weights, drawn)
        matrix, sources[0], _, record = matrices[0].forward(structure[1], sources[0], next(more))
        matrices[0] = matrix.structured(record, structure[0], correlation(rules[0]))
    feedbacks = [
        kind.matrix(next(keys), spec, inputs, (0, room.feedbacks[matrix]), frozenset({"initial"}), jnp.zeros((), dtype))
        if needs_tilde(spec, kind, below)
        else None
        for matrix, below in enumerate(ends)
    ]
    previous = None
    if spec.integrator == "ab2":
        record = [layout.offsets * width if kind.has_entries else forward for forward, _ in room.matrices]
        rows = spec.points * layout.positions
        driven = rows * sum(stage.input is not None for stage in wiring.stages)
        asking = [rows * len(wiring.asks(matrix)) for matrix in range(wiring.matrices)]
        teaching = [jnp.zeros((size, width), dtype) for size in (driven, *asking)]
        records = [
            jnp.zeros((driven, columns), dtype),
            *(jnp.zeros(shape, dtype) for shape in zip(asking, record, strict=True)),
        ]
        previous = (teaching, records, jnp.zeros_like(readout))
    return State(
        step=jnp.zeros((), jnp.int32),
        key=jax.random.fold_in(key, 2),
        scale=jnp.ones((), dtype),
        inputs=weights,
        inputs_initial=weights if spec.online else None,
        matrices=matrices,
        feedbacks=feedbacks,
        readout=readout,
        readout_initial=readout,
        readout_feedback=readout_feedback,
        readout_mirror=correlation(rules[-1]) * readout if mirrored else None,
        direct=direct,
        gates=gates,
        sources=sources,
        structure=structure,
        velocity=(jnp.zeros_like(weights), jnp.zeros(shape, dtype)) if spec.momentum else None,
        previous=previous,
        f_initial=jnp.zeros((inputs.x.shape[1] // layout.positions, wiring.reads, spec.outputs), dtype),
    )


def _low_rank_parts(
    parts: tuple[RankOne, ...], along: Array | None, readout: Array, inputs: Array, drawn: Array
) -> tuple[Array, Array]:
    """θm and n (parts, N) from w (C, N), U in input coordinates (r, N) and Gaussians (2·parts, N)."""
    assert along is not None
    m, n = [], []
    for k, part in enumerate(parts):
        left = jnp.asarray(part.readout or [0.0] * len(readout), readout.dtype)
        m.append(left @ readout + jnp.sqrt(jnp.maximum(1 - left @ left, 0.0)) * drawn[2 * k])
        rest = jnp.maximum(1 - part.overlap**2 - along[k] @ along[k], 0.0)
        n.append(part.overlap * m[k] + along[k] @ inputs + jnp.sqrt(rest) * drawn[2 * k + 1])
    return jnp.stack([part.strength * one for part, one in zip(parts, m, strict=True)]), jnp.stack(n)


def needs_tilde(spec: Spec, kind: Interpretation, population: int) -> bool:
    """Whether the feedback to a population has a W̃ or w̃ of its own; a function of entries needs none."""
    entries = kind.has_entries and spec.form.shapes[population].entrywise is not None
    return "fresh" in spec.form.shapes[population].uses and not entries


def reserved_rows(spec: Spec, layer: int) -> int:
    """How many fixed Gaussian vectors population `layer` (0-based) has at most: w, w̃, z̃, m and n."""
    layout, rows = spec.wiring.layout, 2 * len(spec.wiring.structure)
    if layer + 1 == spec.populations:
        rows += spec.outputs * layout.readout_positions * (2 if "fresh" in spec.form.shapes[layer].uses else 1)
    if spec.form.shapes[layer].direct:
        rows += spec.outputs * layout.positions
    return rows
