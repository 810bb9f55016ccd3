"""`WideMatrix` without a matrix: only what was asked and answered is kept.

The same algebra serves width N in its exact law (with a `Plain` source) and the mean-field
limit (with a `Matched` one). Memory O(N·rank), cost O(N·rank·k) per question of k rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .sources import Source, orthonormalise, project_out
from .wide_matrix import Ask, WideMatrix

TAKEN = 0.25  # directions down to this share of the tolerance are taken along


class Side(eqx.Module):
    """Past questions from one side: orthonormal rows `asked` and W(0)'s `answers` on the other side.

    `response` (rank, rank of the other side) is the part of the answers along the other side's asked rows.
    """

    asked: Array
    answers: Array
    response: Array
    rank: Array

    def put(self, new: New, count: Array) -> Side:
        """Append the first `count` rows; rows beyond are zero and are overwritten later."""
        at = (self.rank, jnp.zeros_like(self.rank))
        pairs = ((self.asked, new.asked), (self.answers, new.answers), (self.response, new.response))
        asked, answers, response = (jax.lax.dynamic_update_slice(o, n, at) for o, n in pairs)
        return Side(asked, answers, response, self.rank + count)


class LowRank(WideMatrix):
    """W(0) as a list of questions and answers, and what became of the answers by learning.

    `current` (rank, out) are W(t)'s answers to the rows asked forward: scale·(W(0)'s answers) + what was learnt, which
    is all that W(t) adds, since learning never leaves the rows asked. `overlap` (rank backward, rank forward) is that
    of the rows asked backward with W(0)'s forward answers; with it what was learnt is never needed by itself.
    `mirror` (rank, out) are the answers of the matrix that follows W, which has `mirror_scale` of W(0).
    """

    forward_side: Side
    backward_side: Side
    current: Array
    overlap: Array
    mirror: Array | None
    velocity: Array | None
    scale: Array
    mirror_scale: Array
    tolerance: Array
    width: int = eqx.field(static=True)

    def forward(self, rows: Array, source: Source, key: Array) -> tuple[LowRank, Source, Array, Array]:
        old, other = self.forward_side.rank, self.backward_side
        side, source, coefficients, new = ask(self.forward_side, other, rows, source, key, self.tolerance, self.width)
        zero = jnp.zeros_like(old)
        current = jax.lax.dynamic_update_slice(self.current, self.scale * new.answers, (old, zero))
        overlap = jax.lax.dynamic_update_slice(self.overlap, new.met.T, (zero, old))
        mirror = self.mirror
        if mirror is not None:
            mirror = jax.lax.dynamic_update_slice(mirror, self.mirror_scale * new.answers, (old, zero))
        asked = replace(self, forward_side=side, current=current, overlap=overlap, mirror=mirror)
        return asked, source, coefficients @ current, coefficients

    def backward(
        self, asks: Sequence[Ask], source: Source, key: Array
    ) -> tuple[LowRank, Source, list[dict[str, Array]]]:
        rows = jnp.concatenate([a.rows for a in asks])
        old = self.backward_side.rank
        side, source, coefficients, new = ask(
            self.backward_side, self.forward_side, rows, source, key, self.tolerance, self.width
        )
        overlap = jax.lax.dynamic_update_slice(self.overlap, new.response, (old, jnp.zeros_like(old)))
        initial = coefficients @ side.answers
        answers, start = [], 0
        for ask_ in asks:
            part = slice(start, start + len(ask_.rows))
            start += len(ask_.rows)
            met = coefficients[part] @ overlap

            def answer(name: str, rows: Array = ask_.rows, first: Array = initial[part], met: Array = met) -> Array:
                if name == "initial":
                    return first
                kept, scale = (self.current, self.scale) if name == "current" else (self.mirror, self.mirror_scale)
                assert kept is not None, "a rule that asks for what follows W must be known at the start"
                learnt = rows @ kept.T / self.width - scale * met
                return scale * first + learnt @ self.forward_side.asked

            answers.append({name: answer(name) for name in ask_.wants})
        return replace(self, backward_side=side, overlap=overlap), source, answers

    def update(self, asked: Array, teaching: Array, decay: Array, keep: Array, follow: Array) -> LowRank:
        change = asked.T @ teaching
        velocity, mirror, mirror_scale = self.velocity, self.mirror, self.mirror_scale
        if velocity is not None:
            velocity = change = keep * velocity + change
        if mirror is not None:
            mirror = mirror + follow * (self.current - mirror)
            mirror_scale = mirror_scale + follow * (self.scale - mirror_scale)
        return replace(
            self, current=decay * self.current + change, mirror=mirror, velocity=velocity, scale=decay * self.scale,
            mirror_scale=mirror_scale,
        )  # fmt: skip

    def grown(self, rank: int) -> LowRank:
        """The same with room for `rank` questions from either side; what is never asked has no room and gets none."""

        def rows(array: Array, axis: int = 0) -> Array:
            widths = [(0, 0)] * array.ndim
            if array.shape[axis]:
                widths[axis] = (0, rank - array.shape[axis])
            return jnp.pad(array, widths)

        def both(array: Array) -> Array:
            return rows(rows(array), 1)

        sides = [
            Side(rows(side.asked), rows(side.answers), both(side.response), side.rank)
            for side in (self.forward_side, self.backward_side)
        ]
        optional = {name: None if array is None else rows(array)
                    for name, array in (("mirror", self.mirror), ("velocity", self.velocity))}  # fmt: skip
        return replace(
            self, forward_side=sides[0], backward_side=sides[1], current=rows(self.current),
            overlap=both(self.overlap), **optional,
        )  # fmt: skip


class New(NamedTuple):
    """Directions that a question adds, (k, ·) each, rows beyond their number are 0.

    `met` is the overlap of the answers with the rows asked from the other side; `response` is its mean.
    """

    asked: Array
    answers: Array
    response: Array
    met: Array


def ask(
    side: Side, other: Side, rows: Array, source: Source, key: Array, tolerance: Array, width: int
) -> tuple[Side, Source, Array, New]:
    """Extend `side` so that it can answer `rows` (k, n); returns coefficients with rows ≈ coefficients·asked.

    What is left of a row is below `tolerance` of it.
    """
    count = rows.shape[0]
    size = jnp.sqrt(jnp.mean(rows**2, axis=1) * (rows.shape[1] / width))
    unit = rows / jnp.where(size > 0, size, 1.0)[:, None]
    known = unit @ side.asked.T / width
    residual = what_is_new(unit, known, side.asked, tolerance, width)
    share, vectors = jnp.linalg.eigh(residual @ residual.T / width)
    share, vectors = share[::-1], vectors[:, ::-1]  # most variance first: it gets the best quasi-random dimension
    # A residual below `tolerance` waits; once one is above, all that rounding lets us see are taken, so that
    # extensions, which cost as much as an answer, are rare.
    lowest = jnp.maximum(TAKEN * tolerance, 4 * jnp.finfo(rows.dtype).eps ** 0.5)
    fresh = jnp.where(share[0] > tolerance**2, jnp.sum(share > lowest**2), 0).astype(side.rank.dtype)
    combine = vectors / jnp.sqrt(jnp.where(share > 0, share, 1.0))

    offsets = other.asked.shape[1] // width
    source = source.ready(key, count * offsets, rows)

    def extend(block: int) -> Callable[[], New]:
        """New directions and their answers, `block` at most; rows beyond `fresh` are 0."""

        def branch() -> New:
            if block == 0:
                room, answered = other.asked.shape
                none = jnp.zeros((count, room), rows.dtype)
                return New(jnp.zeros_like(rows), jnp.zeros((count, answered), rows.dtype), none, none)
            valid = (jnp.arange(block) < fresh)[:, None]
            asked = jnp.where(valid, project_out(combine[:, :block].T @ residual, side.asked, width), 0.0)
            asked = orthonormalise(asked, width, 1.0 - valid[:, 0].astype(asked.dtype))
            gaussians = jnp.where(valid, source.draw(key, block, other.asked), 0.0)
            response = asked @ other.answers.T / width
            met = response + gaussians @ other.asked.T / width
            pad = ((0, count - block), (0, 0))
            return New(*(jnp.pad(a, pad) for a in (asked, gaussians + response @ other.asked, response, met)))

        return branch

    sizes = block_sizes(count)
    which = jnp.searchsorted(jnp.asarray(sizes), fresh)
    new = jax.lax.switch(which, [extend(block) for block in sizes])
    at = (jnp.zeros_like(side.rank), side.rank)
    coefficients = jax.lax.dynamic_update_slice(known, residual @ new.asked.T / width, at) * size[:, None]
    return side.put(new, fresh), source.take(fresh * offsets), coefficients, new


def what_is_new(unit: Array, known: Array, asked: Array, tolerance: Array, width: int) -> Array:
    """Rows of length 1 minus their projection known·asked, or 0 where that is surely below `tolerance`.

    Pythagoras tells for the price of small products whether the pass over `asked` can be spared.
    """
    left = jnp.linalg.eigvalsh(unit @ unit.T / width - known @ known.T)[-1]
    rounding = 100 * len(unit) * jnp.finfo(unit.dtype).eps
    return jax.lax.cond(left > tolerance**2 - rounding, lambda: unit - known @ asked, lambda: jnp.zeros_like(unit))


def block_sizes(count: int) -> list[int]:
    """How many new directions a question is compiled for: none, a few, or as many as it has rows.

    Once the rank has settled a step brings few new directions, and work on all `count` rows would be wasted.
    """
    return sorted({0, -(-count // 4), count})


def make_low_rank(
    out: int, inside: int, width: int, capacity: int, dtype, tolerance: Array, parts: frozenset[str], rho: Array,
    velocity: bool, backward_only: bool,
) -> LowRank:  # fmt: skip
    """A matrix about which nothing has been asked yet; `backward_only` has no room for forward questions.

    `parts` are what is asked about besides W(t); the matrix that follows W starts as ρW(0).
    """
    forward_capacity = 0 if backward_only else capacity

    def side(rows: int, other: int, asked: int, answered: int) -> Side:
        arrays = (jnp.zeros((rows, n), dtype) for n in (asked, answered, other))
        return Side(next(arrays), next(arrays), next(arrays), jnp.zeros((), jnp.int32))

    current = jnp.zeros((forward_capacity, out), dtype)
    return LowRank(
        forward_side=side(forward_capacity, capacity, inside, out),
        backward_side=side(capacity, forward_capacity, out, inside),
        current=current,
        overlap=jnp.zeros((capacity, forward_capacity), dtype),
        mirror=jnp.zeros_like(current) if "mirror" in parts else None,
        velocity=jnp.zeros_like(current) if velocity else None,
        scale=jnp.ones((), dtype),
        mirror_scale=jnp.asarray(rho, dtype),
        tolerance=jnp.asarray(tolerance, dtype),
        width=width,
    )
