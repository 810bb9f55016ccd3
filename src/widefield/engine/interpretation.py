"""The three kinds of width, and how a network of each is initialised (design §3)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from ..rules.feedback import Direct
from .backward import needs_initial, needs_tilde
from .dense import make_dense
from .low_rank import make_low_rank
from .sources import Plain, Source, make_matched
from .state import Inputs, Spec, State
from .wide_matrix import WideMatrix


@dataclass(frozen=True)
class Interpretation:
    """One kind of width.

    Attributes:
        kind: "dense", "conditioned" or "mean_field".
        width: N, or the number of particles S.
        rank: capacity for questions per side of a matrix.
        directions: capacity for Gaussian directions per population (mean field).
        tolerance: share of a question below which a direction is dropped.
    """

    kind: str
    width: int
    rank: int = 0
    directions: int = 0
    tolerance: float = 0.0
    dtype: str = "float64"

    def matrix(
        self, key: Array, spec: Spec, *, keep_initial: bool = False, velocity: bool = False, backward_only: bool = False
    ) -> WideMatrix:
        inside = spec.layout.offsets * self.width
        if self.kind == "dense":
            return make_dense(key, self.width, inside, self.width, self.dtype, keep_initial, velocity)
        return make_low_rank(
            self.width, inside, self.width, self.rank, self.dtype, self.tolerance, velocity, backward_only
        )

    def source(self, quasi: Array) -> Source:
        return make_matched(self.directions, self.width, quasi) if self.kind == "mean_field" else Plain(self.width)


def initialise(spec: Spec, kind: Interpretation, inputs: Inputs, key: Array, quasi: Array) -> State:
    """A network before its first step; `quasi` (L, d, S) are quasi-random normals, d = 0 for none."""
    dtype, width, depth, layout = kind.dtype, kind.width, spec.depth, spec.layout
    rules = [spec.rule_at(layer) for layer in range(1, depth + 1)]
    keys = iter(jax.random.split(jax.random.fold_in(key, 1), 6 * depth + 4))
    sources = [kind.source(quasi[layer]) for layer in range(depth)]
    nothing = jnp.zeros((1, width), dtype)

    def gaussians(layer: int, rows: int) -> Array:
        source = sources[layer].ready(next(keys), rows, nothing)
        sources[layer] = source.take(jnp.asarray(rows, jnp.int32))
        return source.draw(next(keys), rows, nothing)

    # What stays fixed comes first: it gets the best quasi-random dimensions.
    shape = (spec.outputs, layout.readout_positions, width)
    readout = gaussians(depth - 1, shape[0] * shape[1]).reshape(shape)
    readout_feedback = None
    if needs_tilde(rules[-1].feedback):
        readout_feedback = gaussians(depth - 1, shape[0] * shape[1]).reshape(shape)
    direct: list[Array | None] = [None] * depth
    for layer, rule in enumerate(rules):
        if isinstance(rule.feedback, Direct):
            rows = spec.outputs * layout.positions
            direct[layer] = gaussians(layer, rows).reshape(spec.outputs, layout.positions, width)
    columns = inputs.x.shape[1]
    gates = [
        (inputs.x @ gaussians(layer, columns)).reshape(-1, layout.positions, width) if rule.gated else None
        for layer, rule in enumerate(rules)
    ]
    weights = gaussians(0, columns)
    matrices = [
        kind.matrix(next(keys), spec, keep_initial=needs_initial(rules[layer].feedback), velocity=spec.momentum)
        for layer in range(depth - 1)
    ]
    feedbacks = [
        kind.matrix(next(keys), spec, keep_initial=True, backward_only=True)
        if needs_tilde(rules[layer].feedback)
        else None
        for layer in range(depth - 1)
    ]
    previous = None
    if spec.integrator == "ab2":
        rows = spec.points * layout.positions
        record = layout.offsets * width if kind.kind == "dense" else kind.rank
        teaching = [jnp.zeros((rows, width), dtype)] * depth
        records = [jnp.zeros((rows, columns), dtype), *[jnp.zeros((rows, record), dtype)] * (depth - 1)]
        previous = (teaching, records, jnp.zeros(shape, dtype))
    return State(
        step=jnp.zeros((), jnp.int32),
        key=jax.random.fold_in(key, 2),
        scale=jnp.ones((), dtype),
        inputs=weights,
        matrices=matrices,
        feedbacks=feedbacks,
        readout=readout,
        readout_initial=readout,
        readout_feedback=readout_feedback,
        direct=direct,
        gates=gates,
        sources=sources,
        velocity=(jnp.zeros_like(weights), jnp.zeros(shape, dtype)) if spec.momentum else None,
        previous=previous,
        f_initial=jnp.zeros((inputs.x.shape[0] // layout.positions, spec.outputs), dtype),
    )


def reserved_rows(spec: Spec, layer: int) -> int:
    """How many fixed Gaussian vectors population `layer` (0-based) has: w, w̃ and z̃."""
    feedback = spec.rule_at(layer + 1).feedback
    rows = 0
    if layer + 1 == spec.depth:
        rows += spec.outputs * spec.layout.readout_positions * (2 if needs_tilde(feedback) else 1)
    if isinstance(feedback, Direct):
        rows += spec.outputs * spec.layout.positions
    return rows
