"""The three kinds of width, and how a network of each is initialised (design §3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array

from ..rules.feedback import Direct
from .dense import make_dense
from .low_rank import make_low_rank
from .program import Inputs, Spec, State, forward, needs_initial, needs_tilde, read_out
from .sources import Matched, Plain, Source
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

    def matrix(self, key: Array, spec: Spec, keep_initial: bool, velocity: bool) -> WideMatrix:
        inside = spec.layout.offsets * self.width
        if self.kind == "dense":
            return make_dense(key, self.width, inside, self.width, self.dtype, keep_initial, velocity)
        return make_low_rank(self.width, inside, self.width, self.rank, self.dtype, self.tolerance, velocity)

    def source(self, quasi: Array, reserved: int) -> Source:
        if self.kind != "mean_field":
            return Plain(self.width)
        # The constant is the first row, so that every Gaussian is mean-free.
        basis = jnp.zeros((self.directions, self.width), self.dtype).at[0].set(1.0)
        one = jnp.ones((), jnp.int32)
        return Matched(basis, one, quasi, one * reserved, reserved)


def initialise(spec: Spec, kind: Interpretation, inputs: Inputs, key: Array, quasi: Array) -> State:
    """A network before its first step; `quasi` (L, d, S) are quasi-random normals, d = 0 for none."""
    dtype, width, depth, layout = kind.dtype, kind.width, spec.depth, spec.layout
    rules = [spec.rule_at(layer) for layer in range(1, depth + 1)]
    keys = iter(jax.random.split(jax.random.fold_in(key, 1), 6 * depth + 4))
    top = rules[-1].feedback
    reserved = [reserved_rows(spec, layer) for layer in range(depth)]
    sources = [kind.source(quasi[layer], reserved[layer]) for layer in range(depth)]
    nothing = jnp.zeros((1, width), dtype)

    def gaussians(layer: int, rows: int) -> Array:
        drawn = sources[layer].draw(next(keys), rows, width, nothing)
        sources[layer] = sources[layer].take(drawn, jnp.asarray(rows, jnp.int32))
        return drawn

    columns = inputs.x.shape[1]
    gates = [
        (inputs.x @ gaussians(layer, columns)).reshape(-1, layout.positions, width) if rule.gated else None
        for layer, rule in enumerate(rules)
    ]
    weights = gaussians(0, columns)
    matrices = [
        kind.matrix(next(keys), spec, needs_initial(rules[layer].feedback), spec.momentum) for layer in range(depth - 1)
    ]
    feedbacks = [
        kind.matrix(next(keys), spec, True, False) if needs_tilde(rules[layer].feedback) else None
        for layer in range(depth - 1)
    ]
    shape = (spec.outputs, layout.readout_positions, width)
    state = State(
        step=jnp.zeros((), jnp.int32),
        key=jax.random.fold_in(key, 2),
        scale=jnp.ones((), dtype),
        inputs=weights,
        matrices=matrices,
        feedbacks=feedbacks,
        readout=jnp.zeros(shape, dtype),
        readout_initial=jnp.zeros(shape, dtype),
        readout_feedback=None,
        direct=[None] * depth,
        gates=gates,
        sources=sources,
        velocity=None,
        previous=None,
        f_initial=jnp.zeros((inputs.x.shape[0] // layout.positions, spec.outputs), dtype),
    )
    state, _, phi, asked = forward(spec, inputs, state, jax.random.fold_in(key, 3))

    # Vectors that stay fixed are drawn after the first forward pass, so that matched ones can be made
    # orthogonal to it: f then starts at 0 by itself.
    sources = list(state.sources)
    fixed_keys = jax.random.split(jax.random.fold_in(key, 4), depth)

    def fixed(layer: int) -> Array:
        fields = _orthonormal_rows(phi[layer].reshape(-1, width))
        drawn = sources[layer].fixed(fixed_keys[layer], reserved[layer], width, fields)
        count = jnp.asarray(reserved[layer], jnp.int32)
        taken = sources[layer].take(drawn, count)
        if isinstance(taken, Matched):
            taken = replace(taken, used=taken.used - count)
        sources[layer] = taken
        return drawn

    drawn = {layer: fixed(layer) for layer in range(depth) if reserved[layer]}
    direct: list[Array | None] = [None] * depth
    start = dict.fromkeys(drawn, 0)

    def next_rows(layer: int, shape: tuple[int, ...]) -> Array:
        rows = shape[0] * shape[1]
        part = drawn[layer][start[layer] : start[layer] + rows].reshape(shape)
        start[layer] += rows
        return part

    readout = next_rows(depth - 1, shape)
    readout_feedback = next_rows(depth - 1, shape) if needs_tilde(top) else None
    for layer, rule in enumerate(rules):
        if isinstance(rule.feedback, Direct):
            direct[layer] = next_rows(layer, (spec.outputs, layout.positions, width))
    velocity = (jnp.zeros_like(weights), jnp.zeros(shape, dtype)) if spec.momentum else None
    previous = None
    if spec.integrator == "ab2":
        rows = spec.points * layout.positions
        records = [inputs.x[:rows], *[record[:rows] for _, record in asked]]
        teaching = [jnp.zeros((rows, width), dtype)] * depth
        previous = (teaching, [jnp.zeros_like(r) for r in records], jnp.zeros(shape, dtype))
    return replace(
        state,
        readout=readout,
        readout_initial=readout,
        readout_feedback=readout_feedback,
        direct=direct,
        sources=sources,
        velocity=velocity,
        previous=previous,
        f_initial=read_out(spec, inputs, readout, phi[-1]),
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


def _orthonormal_rows(rows: Array) -> Array:
    """Orthonormal basis of the row space; directions below √eps of the largest are set to 0."""
    width = rows.shape[1]
    share, vectors = jnp.linalg.eigh(rows @ rows.T / width)
    keep = share > share[-1] * jnp.finfo(rows.dtype).eps ** 0.5
    combine = jnp.where(keep, vectors / jnp.sqrt(jnp.where(keep, share, 1.0)), 0.0)
    return combine.T @ rows
