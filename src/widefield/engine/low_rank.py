"""`WideMatrix` without a matrix: only what was asked and answered is kept (design §3.1, 3.2).

The same algebra serves width N in its exact law (with a `Plain` source) and the mean-field
limit (with a `Matched` one). Memory O(N·rank), cost O(N·rank·k) per question of k rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .sources import Source, orthonormalise, project_out
from .wide_matrix import Answer, Ask, WideMatrix

TAKEN = 0.25  # directions down to this share of the tolerance are taken along


class Side(eqx.Module):
    """Past questions from one side: orthonormal rows `asked` and W(0)'s `answers` on the other side.

    `response` (rank, rank of the other side) is the part of the answers along the other side's asked rows.
    """

    asked: Array
    answers: Array
    response: Array
    rank: Array

    def put(self, new: tuple[Array, Array, Array], count: Array) -> Side:
        """Append the first `count` rows; rows beyond are zero and are overwritten later."""
        at = (self.rank, jnp.zeros_like(self.rank))
        old = (self.asked, self.answers, self.response)
        asked, answers, response = (jax.lax.dynamic_update_slice(o, n, at) for o, n in zip(old, new, strict=True))
        return Side(asked, answers, response, self.rank + count)


class LowRank(WideMatrix):
    """W(0) as a list of questions and answers, and the learnt part as a matrix M on the asked rows.

    W(t)/√N = scale·W(0)/√N + Mᵀ·Q_x/N, where Q_x are the rows asked forward.
    """

    forward_side: Side
    backward_side: Side
    learnt: Array
    velocity: Array | None
    scale: Array
    tolerance: Array
    width: int = eqx.field(static=True)

    def forward(self, rows: Array, source: Source, key: Array) -> tuple[LowRank, Source, Array, Array]:
        side, source, coefficients = ask(
            self.forward_side, self.backward_side, rows, source, key, self.tolerance, self.width
        )
        answers = self.scale * (coefficients @ side.answers) + coefficients @ self.learnt
        return replace(self, forward_side=side), source, answers, coefficients

    def backward(self, asks: Sequence[Ask], source: Source, key: Array) -> tuple[LowRank, Source, list[Answer]]:
        rows = jnp.concatenate([a.rows for a in asks])
        side, source, coefficients = ask(
            self.backward_side, self.forward_side, rows, source, key, self.tolerance, self.width
        )
        initial = coefficients @ side.answers
        answers, start = [], 0
        for a in asks:
            part = initial[start : start + len(a.rows)]
            start += len(a.rows)
            current = None
            if a.current:
                current = self.scale * part + (a.rows @ self.learnt.T / self.width) @ self.forward_side.asked
            answers.append(Answer(current, part if a.initial else None))
        return replace(self, backward_side=side), source, answers

    def update(self, asked: Array, teaching: Array, decay: Array, keep: Array) -> LowRank:
        change = asked.T @ teaching
        velocity = self.velocity
        if velocity is not None:
            velocity = change = keep * velocity + change
        return replace(self, learnt=decay * self.learnt + change, velocity=velocity, scale=decay * self.scale)


def ask(
    side: Side, other: Side, rows: Array, source: Source, key: Array, tolerance: Array, width: int
) -> tuple[Side, Source, Array]:
    """Extend `side` so that it can answer `rows` (k, n); returns coefficients with rows ≈ coefficients·asked.

    What is left of a row is below `tolerance` of it.
    """
    count = rows.shape[0]
    size = jnp.sqrt(jnp.mean(rows**2, axis=1) * (rows.shape[1] / width))
    unit = rows / jnp.where(size > 0, size, 1.0)[:, None]
    known = unit @ side.asked.T / width
    residual = unit - known @ side.asked
    share, vectors = jnp.linalg.eigh(residual @ residual.T / width)
    share, vectors = share[::-1], vectors[:, ::-1]  # most variance first: it gets the best quasi-random dimension
    # A residual below `tolerance` waits; once one is above, all that rounding lets us see are taken, so that
    # extensions, which cost as much as an answer, are rare.
    lowest = jnp.maximum(TAKEN * tolerance, 4 * jnp.finfo(rows.dtype).eps ** 0.5)
    fresh = jnp.where(share[0] > tolerance**2, jnp.sum(share > lowest**2), 0).astype(side.rank.dtype)
    combine = vectors / jnp.sqrt(jnp.where(share > 0, share, 1.0))

    offsets = other.asked.shape[1] // width
    source = source.ready(key, count * offsets, rows)

    def extend(block: int) -> Callable[[], tuple[Array, Array, Array]]:
        """New directions and their answers, `block` at most; rows beyond `fresh` are 0."""

        def branch() -> tuple[Array, Array, Array]:
            if block == 0:
                room, answered = other.asked.shape
                return (
                    jnp.zeros_like(rows),
                    jnp.zeros((count, answered), rows.dtype),
                    jnp.zeros((count, room), rows.dtype),
                )
            valid = (jnp.arange(block) < fresh)[:, None]
            new = jnp.where(valid, project_out(combine[:, :block].T @ residual, side.asked, width), 0.0)
            new = orthonormalise(new, width, 1.0 - valid[:, 0].astype(new.dtype))
            gaussians = jnp.where(valid, source.draw(key, block, other.asked), 0.0)
            response = new @ other.answers.T / width
            pad = ((0, count - block), (0, 0))
            return jnp.pad(new, pad), jnp.pad(gaussians + response @ other.asked, pad), jnp.pad(response, pad)

        return branch

    sizes = block_sizes(count)
    which = jnp.searchsorted(jnp.asarray(sizes), fresh)
    new, answers, response = jax.lax.switch(which, [extend(block) for block in sizes])
    at = (jnp.zeros_like(side.rank), side.rank)
    coefficients = jax.lax.dynamic_update_slice(known, residual @ new.T / width, at)
    return side.put((new, answers, response), fresh), source.take(fresh * offsets), coefficients * size[:, None]


def block_sizes(count: int) -> list[int]:
    """How many new directions a question is compiled for: none, a few, or as many as it has rows.

    Once the rank has settled a step brings few new directions, and work on all `count` rows would be wasted.
    """
    return sorted({0, -(-count // 4), count})


def make_low_rank(out: int, inside: int, width: int, capacity: int, dtype, tolerance: float, velocity: bool) -> LowRank:
    """A matrix about which nothing has been asked yet."""

    def side(asked: int, answered: int) -> Side:
        rows = (jnp.zeros((capacity, n), dtype) for n in (asked, answered, capacity))
        return Side(next(rows), next(rows), next(rows), jnp.zeros((), jnp.int32))

    learnt = jnp.zeros((capacity, out), dtype)
    return LowRank(
        forward_side=side(inside, out),
        backward_side=side(out, inside),
        learnt=learnt,
        velocity=jnp.zeros_like(learnt) if velocity else None,
        scale=jnp.ones((), dtype),
        tolerance=jnp.asarray(tolerance, dtype),
        width=width,
    )
