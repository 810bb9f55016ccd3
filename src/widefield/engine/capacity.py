"""Room for questions and Gaussian directions: static shapes that grow in buckets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from .interpretation import Interpretation, reserved_rows
from .low_rank import LowRank
from .sources import AHEAD, Matched, batch
from .state import Spec, State


@dataclass(frozen=True)
class Demand:
    """The most rows that one step can ask, per matrix and population."""

    forward: int
    backward: int
    gaussians: int


def demand_of(spec: Spec, samples: int) -> Demand:
    """Of one pass with `samples` points, the training points among them."""
    wiring = spec.wiring
    block = spec.points * wiring.layout.positions * spec.sweeps
    forward = asks = tilde = 0
    for matrix in range(wiring.matrices):
        times, uses = len(wiring.asks(matrix)), spec.uses(matrix)
        forward = max(forward, times * samples * wiring.layout.positions)
        asks = max(asks, times * block * (int(spec.track_gradient) + int(bool(uses - {"fresh"}))))
        tilde = max(tilde, times * block * int("fresh" in uses))
    offsets = wiring.layout.offsets
    forward = max(forward, samples * wiring.layout.positions)
    gaussians = batch(forward) + batch(asks * offsets) + batch(tilde * offsets)
    return Demand(forward, max(asks, tilde), gaussians)


def _rounded(rows: int) -> int:
    return -(-rows // 32) * 32


def first_capacity(kind: Interpretation, spec: Spec, demand: Demand, columns: int) -> Interpretation:
    """Room for the first steps; depends on nothing that comes later, so that runs of any length agree."""
    if kind.kind == "dense":
        return kind
    rank = _rounded(4 * max(demand.forward, demand.backward) + 64)
    directions = 0
    if kind.kind == "mean_field":
        gates = columns if any(shape.gated for shape in spec.form.shapes) else 0
        fixed = max(reserved_rows(spec, layer) for layer in range(spec.populations))
        directions = _rounded(1 + 4 * AHEAD + columns + gates + fixed + 2 * demand.gaussians)
    return dataclasses.replace(kind, rank=rank, directions=directions)


def has_room(state: State, demand: Demand) -> Array:
    """Whether one more step surely fits."""
    room = jnp.asarray(True)
    for matrix in [*state.matrices, *state.feedbacks]:
        if isinstance(matrix, LowRank):
            for side, rows in ((matrix.forward_side, demand.forward), (matrix.backward_side, demand.backward)):
                if len(side.asked):  # W̃ is asked backward only
                    room &= side.rank + rows <= len(side.asked)
    for source in state.sources:
        if isinstance(source, Matched):
            room &= source.prepared + demand.gaussians <= source.basis.shape[0]
    return room


def ranks(state: State) -> tuple[Array, Array, Array]:
    """Largest rank of a matrix, largest numbers of Gaussian directions prepared and drawn in a population."""
    sides = [s.rank for m in [*state.matrices, *state.feedbacks] if isinstance(m, LowRank)
             for s in (m.forward_side, m.backward_side)]  # fmt: skip
    matched = [s for s in state.sources if isinstance(s, Matched)]
    none = jnp.zeros_like(state.step)
    prepared, drawn = [s.prepared for s in matched], [s.count for s in matched]
    return _largest(sides, none), _largest(prepared, none), _largest(drawn, none)


def _largest(values: list[Array], none: Array) -> Array:
    return jnp.max(jnp.stack([none, *values]), axis=0)


def grown(kind: Interpretation, rank: int, prepared: int, demand: Demand) -> Interpretation:
    """The next bucket, for the `ranks` that a run has: a quarter more. Each bucket is compiled anew, and room that is
    not used costs time."""
    larger = {"rank": kind.rank, "directions": kind.directions}
    if rank + max(demand.forward, demand.backward) > kind.rank:
        larger["rank"] = _rounded(kind.rank + max(kind.rank // 4, demand.forward, demand.backward))
    if kind.kind == "mean_field" and prepared + demand.gaussians > kind.directions:
        larger["directions"] = _rounded(kind.directions + max(kind.directions // 2, demand.gaussians))
    return dataclasses.replace(kind, **larger)


@partial(jax.jit, static_argnames="kind")
def enlarge(state: State, kind: Interpretation) -> State:
    """`state` in the shapes of the larger `kind`; old and new are held together while it copies."""

    def larger(part):
        if isinstance(part, LowRank):
            return part.grown(kind.rank)
        return part.grown(kind.directions) if isinstance(part, Matched) else part

    previous = state.previous
    if previous is not None:
        teaching, records, readout = previous
        wider = [jnp.pad(r, ((0, 0), (0, kind.rank - r.shape[1]))) for r in records[1:]]
        previous = (teaching, [records[0], *wider], readout)
    return dataclasses.replace(
        state,
        matrices=[larger(m) for m in state.matrices],
        feedbacks=[larger(m) for m in state.feedbacks],
        sources=[larger(s) for s in state.sources],
        previous=previous,
    )
