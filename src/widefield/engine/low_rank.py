"""`WideMatrix` without a matrix: only what was asked and answered is kept.

The same algebra serves width N in its exact law (with a `Plain` source) and the mean-field
limit (with a `Matched` one). Memory O(N·rank), cost O(N·rank·k) per question of k rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .eigenvalues import largest
from .order import after
from .products import overlaps, summed
from .rest import Rest, make_rest
from .sources import Source, orthonormalise
from .wide_matrix import Ask, Rates, WideMatrix

LOOKED_AT = 32  # rows of a question that new directions are looked for in at a time
SMALL = 0.3  # rows below this share of the largest are answered as well as one of this size, not better


class Side(eqx.Module):
    """Past questions from one side: orthonormal rows `asked` and W(0)'s `answers` on the other side.

    `met` (room, room of the other side) is the overlap of the rows asked with the other side's answers; `response` is
    its part that was known when a row was asked: that of W(0)'s answer along the other side's asked rows. `largest` is
    the size of the largest row of all questions. `short` tells that there was no room for what was new in a question.
    `columns` are `asked` and `answers` once more, as columns (n, room), while steps of few rows are taken: products of
    few rows with these are two to four times as fast.
    """

    asked: Array
    answers: Array
    met: Array
    response: Array
    rank: Array
    largest: Array
    short: Array
    columns: tuple[Array, ...] | None = None

    def along_asked(self, rows: Array, width: int) -> Array:
        """⟨rows, asked⟩, (k, room)."""
        return overlaps(rows, self.asked, width) if self.columns is None else rows @ self.columns[0] / width

    def along_answers(self, rows: Array, width: int) -> Array:
        """⟨rows, answers⟩, (k, room)."""
        return overlaps(rows, self.answers, width) if self.columns is None else rows @ self.columns[1] / width


class LowRank(WideMatrix):
    """W(0) as a list of questions and answers, and what became of the answers by learning.

    `current` (rank, out) are W(t)'s answers to the rows asked forward: scale·(W(0)'s answers) + what was learnt, which
    is all that W(t) adds, since learning never leaves the rows asked. `mirror` (rank, out) are the answers of the
    matrix that follows W, which has `mirror_scale` of W(0).

    A part ε of a question that is too small to become a direction of its own is answered by its conditional mean,
    E[W(0)ε] = Q_y⟨B, ε⟩ with Q_y the rows asked backward and B their answers. What is lost is the fresh Gaussian part
    of W(0)ε, so that the error of kernels is quadratic in the tolerance. What is learnt along ε goes into `rest`, and
    from there into the new directions that ε grows into.
    """

    forward_side: Side
    backward_side: Side
    current: Array
    mirror: Array | None
    velocity: Array | None
    rest: Rest | None
    idle: Rest | None  # that of all points, in a step that passes some of them
    scale: Array
    mirror_scale: Array
    tolerances: tuple[Array, ...]  # of questions forward and backward
    width: int = eqx.field(static=True)
    still: bool = eqx.field(static=True)  # what was learnt stays as it is where nothing teaches
    heavy: ClassVar[bool] = True

    def forward(
        self, rows: Array, source: Source, key: Array, initial: bool = False
    ) -> tuple[LowRank, Source, Array, Array]:
        parts = [
            (self.current, self.scale),
            (self.mirror, self.mirror_scale),
            (self.velocity, jnp.zeros_like(self.scale)),
        ]
        kept = [(buffer, scale) for buffer, scale in parts if buffer is not None]
        question = pose(rows, self.forward_side, self.width)
        asked = take_up(
            question,
            self.forward_side,
            self.backward_side,
            kept,
            self.rest,
            source,
            key,
            self.tolerances[0],
            self.width,
        )
        side, other = asked.side, asked.other
        # ⟨ε, B⟩ of what is left of the rows.
        left = other.along_answers(rows, self.width) - asked.coefficients @ side.met
        if initial:
            answer = asked.coefficients @ side.answers + left @ other.asked
        else:
            answer = asked.coefficients @ asked.kept[0] + self.scale * (left @ other.asked)
        more = iter(asked.kept)
        names = {
            name: None if getattr(self, name) is None else next(more) for name in ("current", "mirror", "velocity")
        }
        matrix = replace(self, forward_side=side, backward_side=other, rest=asked.rest, **names)
        return matrix, asked.source, answer, asked.coefficients

    def backward(self, asks: Sequence[Ask], source: Source, key: Array) -> tuple[LowRank, Source, list[Array]]:
        rows = jnp.concatenate([ask.rows for ask in asks])
        question = pose(rows, self.backward_side, self.width)
        asked = take_up(
            question, self.backward_side, self.forward_side, [], None, source, key, self.tolerances[1], self.width
        )
        side, other = asked.side, asked.other
        # Of every row: how much of W(0) it is about, and its overlap with the forward answers it is about.
        shares, seen = [], []
        for ask in asks:
            share, overlap = jnp.zeros((), rows.dtype), jnp.zeros((), rows.dtype)
            for name, weight in ask.wants.items():
                share = share + weight * self._share(name)
                if len(self.forward_side.asked):
                    overlap = overlap + weight * self._along(name, ask.rows)
            shares.append(jnp.full((len(ask.rows), 1), share, rows.dtype))
            seen.append(jnp.broadcast_to(overlap, (len(ask.rows), len(other.asked))))
        of_initial = jnp.concatenate(shares) * asked.coefficients
        along = jnp.concatenate(seen) - of_initial @ side.met
        answer = of_initial @ side.answers + along @ other.asked
        ends = [len(ask.rows) for ask in asks]
        parts = jnp.split(answer, [sum(ends[: k + 1]) for k in range(len(ends) - 1)])
        return replace(self, forward_side=other, backward_side=side), asked.source, parts

    def _share(self, name: str) -> Array:
        """How much of W(0) there is in W(0) itself, W(t) or the matrix that follows W."""
        return {"initial": jnp.ones_like(self.scale), "current": self.scale, "mirror": self.mirror_scale}[name]

    def _along(self, name: str, rows: Array) -> Array:
        """⟨rows, what that matrix answers to the rows asked forward⟩, (k, room)."""
        if name == "initial":
            return self.forward_side.along_answers(rows, self.width)
        answers = {"current": self.current, "mirror": self.mirror}[name]
        assert answers is not None, "a rule that asks for what follows W must be known at the start"
        return overlaps(rows, answers, self.width)

    def structured(self, asked: Array, added: Array, rho: Array) -> LowRank:
        change = summed(asked, added)
        mirror = None if self.mirror is None else self.mirror + rho * change
        return replace(self, current=self.current + change, mirror=mirror)

    def outliers(self, count: int) -> Array:
        # Σ_k l_k ⊗ q_k/N has the eigenvalues of ⟨q_j l_k⟩.
        learnt = self.current - self.scale * self.forward_side.answers
        return largest(self.forward_side.asked @ learnt.T / self.width, count)

    def update(self, asked: Array, rows: Array, teaching: Array, rates: Rates) -> LowRank:
        change = summed(asked, teaching)
        velocity, mirror, mirror_scale = self.velocity, self.mirror, self.mirror_scale
        if velocity is not None:
            velocity = change = rates.keep * velocity + change
        if mirror is not None:
            mirror = mirror + rates.follow * (self.current - mirror)
            mirror_scale = mirror_scale + rates.follow * (self.scale - mirror_scale)
        rest = self.rest
        if rest is not None:
            taught = teaching.reshape(-1, len(rows), teaching.shape[-1])
            rest = rest.taught(rows, asked[: len(rows)], taught, rates, self.width)
        idle = self.idle if self.idle is None or self.still else self.idle.moved(None, rates)
        return replace(
            self, current=rates.decay * self.current + rates.move * change, mirror=mirror, velocity=velocity, rest=rest,
            idle=idle, scale=rates.decay * self.scale, mirror_scale=mirror_scale,
        )  # fmt: skip

    def for_rows(self, slots: Array, first: Array) -> LowRank:
        # New directions take their part from the slots that pass, and from no others: what those have learnt along them
        # is lost. All of them would cost several passes over every point ever seen.
        if self.rest is None:
            return self
        some = self.rest.of_slots(slots, first, self.forward_side.asked, self.width)
        return replace(self, rest=some, idle=self.rest)

    def for_all(self, slots: Array) -> LowRank:
        if self.idle is None or self.rest is None:
            return self
        return replace(self, rest=self.idle.with_slots(slots, self.rest), idle=None)

    def for_few_rows(self) -> LowRank:
        def side(own: Side) -> Side:
            return replace(own, columns=(own.asked.T, own.answers.T))

        return replace(self, forward_side=side(self.forward_side), backward_side=side(self.backward_side))

    def at_rest(self) -> LowRank:
        ahead, back = (replace(side, columns=None) for side in (self.forward_side, self.backward_side))
        return replace(self, forward_side=ahead, backward_side=back)

    def grown(self, forward: int, backward: int) -> LowRank:
        """The same with room for so many directions from either side; what is never asked has no room and gets none."""

        def fit(array: Array, rank: Array, size: int) -> Array:
            wider = jnp.pad(array, ((0, size - len(array)), (0, 0)))
            return jnp.where(jnp.arange(size)[:, None] < rank, wider, 0.0)

        def small(array: Array, own: Side, size: int, other: Side, other_size: int) -> Array:
            return fit(fit(array, own.rank, size).T, other.rank, other_size).T

        def side(own: Side, size: int, other: Side, other_size: int) -> Side:
            return Side(
                fit(own.asked, own.rank, size), fit(own.answers, own.rank, size),
                small(own.met, own, size, other, other_size), small(own.response, own, size, other, other_size),
                own.rank, own.largest, jnp.zeros_like(own.short),
            )  # fmt: skip

        ahead, back, rank = self.forward_side, self.backward_side, self.forward_side.rank
        optional = {name: None if array is None else fit(array, rank, forward)
                    for name, array in (("mirror", self.mirror), ("velocity", self.velocity))}  # fmt: skip
        rest = None if self.rest is None else replace(self.rest, known=fit(self.rest.known.T, rank, forward).T)
        return replace(
            self, forward_side=side(ahead, forward, back, backward), backward_side=side(back, backward, ahead, forward),
            current=fit(self.current, rank, forward), rest=rest, **optional,
        )  # fmt: skip


class Question(NamedTuple):
    """Rows (k, n), their coordinates `known` (k, room) on the rows asked, and their squares (k,) per neuron.

    What is left of a row is judged by its `size`: its own, or a share of the `largest` row so far where the row is
    smaller: gradients that have faded over many frames change little, and need few directions.
    """

    rows: Array
    known: Array
    squares: Array
    size: Array
    largest: Array


class Asked(NamedTuple):
    """What a question has led to; `coefficients` (k, room) are the coordinates of its rows on the rows asked."""

    side: Side
    other: Side
    kept: list[Array]
    rest: Rest | None
    source: Source
    coefficients: Array


def pose(rows: Array, side: Side, width: int) -> Question:
    squares = jnp.mean(rows**2, axis=1) * (rows.shape[1] / width)
    own = jnp.sqrt(squares)
    largest = jnp.maximum(side.largest, jnp.max(own))
    size = jnp.maximum(own, SMALL * largest)
    return Question(rows, side.along_asked(rows, width), squares, jnp.where(size > 0, size, 1.0), largest)


def take_up(
    question: Question, side: Side, other: Side, kept: list[tuple[Array, Array]], rest: Rest | None, source: Source,
    key: Array, tolerance: Array, width: int,
) -> Asked:  # fmt: skip
    """Extend `side` by what is new in a question, until less than `tolerance` of the size of every row is left.

    Buffers of `kept` get their multiple of W(0)'s answers to the new directions, and what `rest` has learnt along
    them. Where nothing is new the loop does not run and no buffer is touched; Pythagoras tells for the price of one
    pass over `known`.
    """
    rows, known, size = question.rows, question.known, question.size
    seen, block, offsets = min(len(rows), LOOKED_AT), taken_at_once(len(rows)), other.asked.shape[1] // width
    room = len(side.asked)

    def share(squares: Array) -> Array:
        return squares / size.astype(jnp.float64) ** 2

    left = share(question.squares - jnp.sum(known.astype(jnp.float64) ** 2, axis=1))
    allowed = tolerance.astype(jnp.float64) ** 2
    # A direction below the square root of the rounding error is noise.
    lowest = jnp.maximum(allowed / 16, 16 * jnp.finfo(rows.dtype).eps)

    def more(carry) -> Array:
        side, _, _, _, source, _, left = carry
        return (jnp.max(left) > allowed) & (side.rank + block <= room) & ~source.full

    def extend(carry):
        side, other, kept, rest, source, known, left = carry
        chosen = jnp.arange(seen) if seen == len(rows) else jax.lax.top_k(left, seen)[1]
        # Where all rows are looked at nothing here depends on the carry: XLA would do it though the loop never runs.
        unit = (after(jnp.ones((), rows.dtype), left) / size[chosen])[:, None]
        few, coordinates = unit * rows[chosen], unit * known[chosen]
        # What is left of these rows has this Gram matrix, by Pythagoras.
        gram = (few @ few.T / width).astype(jnp.float64) - (coordinates @ coordinates.T).astype(jnp.float64)
        shares, vectors = jnp.linalg.eigh(gram)
        # Most variance first: it gets the best quasi-random dimension.
        shares, vectors = shares[::-1], with_sign(vectors[:, ::-1])
        # Row by row, what is left behind the first m directions; as few are taken as leave little enough of each row.
        parts = vectors**2 * jnp.maximum(shares, 0.0)
        behind = jnp.sum(parts, axis=1, keepdims=True) - jnp.cumsum(parts, axis=1)
        enough = jnp.where(jnp.max(behind[:, -1]) <= allowed, 1 + jnp.argmax(jnp.max(behind, axis=0) <= allowed), seen)
        fresh = jnp.minimum(jnp.minimum(enough, block), jnp.sum(shares > lowest)).astype(side.rank.dtype)
        valid = (jnp.arange(block) < fresh)[:, None]
        combine = (vectors / jnp.sqrt(jnp.maximum(shares, lowest)))[:, :block].T.astype(rows.dtype)
        asked = combine @ few - (combine @ coordinates) @ side.asked
        asked = jnp.where(valid, asked - side.along_asked(asked, width) @ side.asked, 0.0)
        asked = orthonormalise(asked, width, 1.0 - valid[:, 0])
        drawn = source.draw(jax.random.fold_in(key, side.rank), block, other.asked)
        gaussians = jnp.where(valid, drawn, 0.0)
        response = other.along_answers(asked, width)
        answers = gaussians + response @ other.asked
        met = response + other.along_asked(gaussians, width)

        # What is new is known when all that reads the buffers is.
        at = after(side.rank, answers, met)
        zero = jnp.zeros_like(at)

        def put(buffer: Array, rows: Array) -> Array:
            return jax.lax.dynamic_update_slice(buffer, rows, (at, zero))

        found = rows @ asked.T / width
        known = jax.lax.dynamic_update_slice(known, found, (zero, at))
        left = left - share(jnp.sum(found.astype(jnp.float64) ** 2, axis=1))
        left = left.at[chosen].set(jnp.where(fresh > 0, behind[:, jnp.maximum(fresh - 1, 0)], 0.0))
        values = [scale * answers for scale in scales]
        if rest is not None:
            along = overlaps(asked, rest.rows, width)
            values = [value + along @ learnt for value, learnt in zip(values, rest.learnt, strict=True)]
            rest = rest.extended(along.T, at)
        kept = [put(buffer, value) for buffer, value in zip(kept, values, strict=True)]
        both = put(side.asked, asked), put(side.answers, answers)
        columns = side.columns
        if columns is not None:
            columns = tuple(_with_columns(columns[k], both[k], at, block) for k in (0, 1))
        side = Side(
            *both, put(side.met, response), put(side.response, response), side.rank + fresh, side.largest, side.short,
            columns,
        )  # fmt: skip
        other = replace(other, met=jax.lax.dynamic_update_slice(other.met, met.T, (zero, at)))
        return side, other, kept, rest, source.take(fresh * offsets, block * offsets), known, left

    scales = [scale for _, scale in kept]
    start = (side, other, [buffer for buffer, _ in kept], rest, source, known, left)
    side, other, buffers, rest, source, known, left = jax.lax.while_loop(more, extend, start)
    short = side.short | ((jnp.max(left) > allowed) & ~source.full)
    side = replace(side, largest=question.largest, short=short)
    return Asked(side, other, buffers, rest, source, known)


def _with_columns(columns: Array, rows: Array, at: Array, count: int) -> Array:
    """`columns` (n, room) with what stands in `rows` (room, n) from row `at` on.

    Read from there, since they are the same to the last bit then: XLA would compute the rows a second time otherwise,
    and round differently.
    """
    new = jax.lax.dynamic_slice_in_dim(rows, after(at, rows), count)
    return jax.lax.dynamic_update_slice_in_dim(columns, new.T, at, axis=1)


def taken_at_once(rows: int) -> int:
    """New directions of a question of so many rows that are taken up at a time: after the first steps few are new."""
    return min(rows, max(4, min(rows // 12, LOOKED_AT)))


def with_sign(vectors: Array) -> Array:
    """Eigenvectors (columns) with a sign that rounding does not turn: a direction of the other sign would be another
    draw, and several devices round differently from one. The numbers that they are weighed with are arbitrary."""
    weights = jnp.cos(jnp.arange(1.0, 1.0 + len(vectors), dtype=vectors.dtype))
    return jnp.where(weights @ vectors < 0, -vectors, vectors)


def make_low_rank(
    out: int, inside: int, width: int, room: tuple[int, int], dtype, tolerances: tuple[Array, Array],
    parts: frozenset[str], rho: Array, velocity: bool, slots: int = 0, decays: bool = True,
) -> LowRank:  # fmt: skip
    """A matrix about which nothing has been asked yet, with `room` for directions asked forward and backward.

    `parts` are what is asked about besides W(t); the matrix that follows W starts as ρW(0). `slots` rows teach it,
    and what they have taught `decays` or does not.
    """
    forward, backward = room

    def side(rows: int, others: int, asked: int, answered: int) -> Side:
        small = jnp.zeros((rows, others), dtype)
        large = jnp.zeros((rows, asked), dtype), jnp.zeros((rows, answered), dtype)
        none = jnp.zeros((), dtype)
        return Side(large[0], large[1], small, small, jnp.zeros((), jnp.int32), none, jnp.asarray(False))

    current, mirrored = jnp.zeros((forward, out), dtype), "mirror" in parts
    return LowRank(
        forward_side=side(forward, backward, inside, out),
        backward_side=side(backward, forward, out, inside),
        current=current,
        mirror=jnp.zeros_like(current) if mirrored else None,
        velocity=jnp.zeros_like(current) if velocity else None,
        rest=make_rest(slots, inside, out, forward, dtype, mirrored, velocity) if slots else None,
        idle=None,
        scale=jnp.ones((), dtype),
        mirror_scale=jnp.asarray(rho, dtype),
        tolerances=tuple(jnp.asarray(tolerance, dtype) for tolerance in tolerances),
        width=width,
        still=not (decays or mirrored or velocity),
    )
