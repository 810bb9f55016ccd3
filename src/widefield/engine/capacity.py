"""Room for directions: static shapes that follow what a run needs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..numerics.compiled import compiled
from .interpretation import Interpretation, Room, needs_tilde, reserved_rows
from .low_rank import LowRank, Side, taken_at_once
from .pilot import Pilot
from .sources import Matched, Source
from .state import Spec, State

FEW_ROWS = 64  # from here on products with rows and with columns are equally fast
# Bytes of rows that are kept as columns as well: with more, both do not fit into a processor's share of the cache, and
# steps are slower (measured: 5 MB for two replicates at a time and 32 MiB of shared cache).
MOST_COPIED = 2**22


def rounded(rows: float) -> int:
    """The next bucket: buffers of few different sizes share compiled programs."""
    return -(-int(rows) // 16) * 16


def _coarse(rows: float) -> int:
    """The next bucket of at least an eighth of the rows, so that runs that grow alike share programs."""
    size = max(rounded(rows), 16)
    step = 16 * 2 ** max(0, int(math.log2(size / 16)) - 2)
    return -(-size // step) * step


def first_room(
    kind: Interpretation, spec: Spec, samples: int, columns: int, tolerances: tuple[float, float],
    first: Pilot | None = None,
) -> Room:  # fmt: skip
    """Room that a run of `samples` points with `columns` input coordinates is likely to need, less where they are many;
    `tolerances` are those of questions forward and backward, and `first` tells how many directions the first ones have.

    More is made when it is needed: a growth is compiled anew, which long runs do not mind.
    """
    if kind.has_entries:
        return Room()
    wiring, offsets, (ahead, back) = spec.wiring, spec.wiring.layout.offsets, tolerances
    rows = samples * wiring.layout.positions
    asked = spec.points * wiring.layout.positions * spec.sweeps
    taken = most_taken(spec, samples)
    # A width has no more directions than neurons.
    most_forward, most = rounded(offsets * kind.width + taken), rounded(kind.width + taken)
    matrices, tilde = [], []
    for m in range(wiring.matrices):
        frames = len(wiring.asks(m))
        asks = int(spec.track_gradient) + int(bool(spec.uses(m) - {"fresh"}))
        fresh = needs_tilde(spec, kind, wiring.ends(m)[0])
        # A row may be a mixture of the outputs' gradients that changes as errors do.
        mixed = 1.0 if spec.per_output else min(math.sqrt(spec.outputs), 2.5)
        if first is None:
            forward = _guess(8.0, rows, frames, ahead) + len(wiring.structure)
            # Gradient and pseudo-gradient have directions in common; gradients fade on their way back through frames.
            per_row = (12.5 if asks == 1 else 9.5) * (1.0 if frames == 1 else 0.7) * mixed
            backward = _guess(per_row, asks * asked, frames, back)
            own = _guess(10.5, asked, frames, back)
        else:
            in_front, behind = first.directions[m]
            forward = _forward(in_front, ahead, first.jumps, m > 0, rows)
            behind, passed = min(behind * spec.sweeps, asked), m + 1 < wiring.matrices
            own = _backward(behind, mixed, back, first.jumps, passed, asked)
            backward = _backward(behind, mixed * BOTH[asks], back, first.jumps, passed, asks * asked)
        matrices.append((min(forward, most_forward), min(backward, most)))
        tilde.append(min(own, most) if fresh else 0)
    sources: tuple[int, ...] = ()
    if kind.kind == "mean_field":
        gates = columns if any(shape.gated for shape in spec.form.shapes) else 0
        made = [columns + gates + reserved_rows(spec, layer) for layer in range(spec.populations)]
        for m, fresh in enumerate(tilde):
            below, above = wiring.ends(m)
            made[below] += (matrices[m][1] + fresh) * offsets
            made[above] += matrices[m][0]
        # A block is drawn at a time, of which less may be used.
        limit = most_gaussians(kind.width, taken * offsets)
        sources = tuple(min(rounded(size + taken * offsets), limit) for size in made)
    return Room(tuple(matrices), tuple(tilde), sources)


def most_taken(spec: Spec, samples: int) -> int:
    """The most directions that a question of this network takes up at a time."""
    return taken_at_once(_most_rows(spec, samples))


def _most_rows(spec: Spec, samples: int) -> int:
    """Rows of the largest question of this network."""
    asks = max(samples, (1 + spec.track_gradient) * spec.points * spec.sweeps)
    return asks * spec.wiring.layout.positions


def unpacked(spec: Spec, samples: int, state: State) -> State:
    """`state` in the form that steps are fastest in: for few rows, where rows are few and buffers small."""
    size = sum(side.asked.nbytes + side.answers.nbytes for side in _sides(state))
    if _most_rows(spec, samples) > FEW_ROWS or size > MOST_COPIED:
        return state
    return _each_matrix(state, lambda matrix: matrix.for_few_rows())


def packed(state: State) -> State:
    """The inverse, after steps."""
    return _each_matrix(state, lambda matrix: matrix.at_rest())


def _each_matrix(state: State, change: Callable[[Any], Any]) -> State:
    feedbacks = [None if matrix is None else change(matrix) for matrix in state.feedbacks]
    return dataclasses.replace(state, matrices=[change(matrix) for matrix in state.matrices], feedbacks=feedbacks)


def _sides(state: State) -> list[Side]:
    matrices = [m for m in (*state.matrices, *state.feedbacks) if isinstance(m, LowRank)]
    return [side for m in matrices for side in (m.forward_side, m.backward_side)]


def most_gaussians(particles: int, drawn: int) -> int:
    """Room beyond which a run has too few particles: half as many directions, and what is drawn at a time."""
    return rounded(particles // 2 + drawn)


def _guess(per_row: float, rows: int, frames: int, tolerance: float) -> int:
    """Directions that questions of so many rows at every frame lead to in about 100 steps, as measured on a dozen
    problems. Many points share directions; their runs are long enough to grow on the way."""
    if not rows:
        return 0
    shared = min(1.0, math.sqrt(20 / rows))
    finer = math.sqrt(0.02 / max(_typical(tolerance), 0.02))
    return rounded(per_row * rows * frames * finer * shared + taken_at_once(rows))


# What the directions of the first question become in about 100 steps at richness 1, as measured on 60 problems of 5 to
# 300 points; a run that needs more makes room for it. Fields move more the more random layers they have passed.
BOTH = (0.0, 1.0, 1.6)  # directions of gradient and pseudo-gradient together, where so many of them are asked
# Few rows are quickly multiplied, and not worth a compilation where another richness takes more of them.
MARGIN, FEW_DIRECTIONS = 1.25, 20


def _forward(first: int, tolerance: float, jumps: bool, passed: bool, rows: int) -> int:
    shared = 1 + first / 60  # many directions hold those of later questions, too
    more = 5.2 * _finer(tolerance) / shared * (1 + 0.4 * passed / shared) * (1.5 if jumps else 1.0)
    return rounded(_margin(first) * first * (1 + more) + taken_at_once(rows))


def _backward(first: int, times: float, tolerance: float, jumps: bool, passed: bool, rows: int) -> int:
    if not (rows and times):
        return 0
    times *= (1 + 0.4 * passed / (1 + first / 60)) * (3.0 if jumps else 1.0) * max(_finer(tolerance), 1.0)
    return rounded(_margin(first) * times * 10.5 * first**0.8 / (1 + first / 400) + taken_at_once(rows))


def _margin(first: int) -> float:
    return MARGIN if first <= FEW_DIRECTIONS else 1.0


def _finer(tolerance: float) -> float:
    return (0.03 / _typical(tolerance)) ** 0.4


def _typical(tolerance: float) -> float:
    """Classes of tolerances, so that another one of about the same size compiles nothing."""
    classes = ((0.002, 0.004), (0.025, 0.03), (0.037, 0.045), (0.06, 0.08), (0.12, 0.17))
    return next((value for value, below in classes if tolerance < below), 0.25)


def ranks(state: State) -> Room:
    """How many directions are in use."""
    return _of_buffers(state, lambda side: side.rank, lambda source: source.count, jnp.zeros_like(state.step))


def shortages(state: State) -> Room:
    """Where there was no room for what was new in a question."""
    return _of_buffers(state, lambda side: side.short, lambda source: source.short, jnp.asarray(False))


def _of_buffers(state: State, of_side, of_source, nothing: Array) -> Room:
    low_rank = [m for m in state.matrices if isinstance(m, LowRank)]
    tilde = [of_side(m.backward_side) if isinstance(m, LowRank) else nothing for m in state.feedbacks]
    return Room(
        tuple((of_side(m.forward_side), of_side(m.backward_side)) for m in low_rank),
        tuple(tilde) if low_rank else (),
        tuple(of_source(s) for s in state.sources if isinstance(s, Matched)),
    )


def undo(state: State, before: State, ok: Array) -> State:
    """`state` where `ok`; else with its counts as they were before, so that what was asked in between is forgotten.

    Rows that were written beyond the counts are cleared when buffers grow, which is what comes next.
    """

    def side(new: Side, old: Side) -> Side:
        return dataclasses.replace(new, rank=jnp.where(ok, new.rank, old.rank))

    def matrix(new, old):
        if not isinstance(new, LowRank):
            return new
        forward, backward = side(new.forward_side, old.forward_side), side(new.backward_side, old.backward_side)
        return dataclasses.replace(new, forward_side=forward, backward_side=backward)

    def source(new: Source, old: Source) -> Source:
        if not (isinstance(new, Matched) and isinstance(old, Matched)):
            return new
        return dataclasses.replace(new, count=jnp.where(ok, new.count, old.count))

    return dataclasses.replace(
        state,
        matrices=[matrix(n, o) for n, o in zip(state.matrices, before.matrices, strict=True)],
        feedbacks=[matrix(n, o) for n, o in zip(state.feedbacks, before.feedbacks, strict=True)],
        sources=[source(n, o) for n, o in zip(state.sources, before.sources, strict=True)],
    )


def larger(room: Room, used: Room, short: Room, width: int, taken: int, offsets: int, ahead: float) -> Room:
    """More where there was none left and where there soon would be: each growth is compiled anew.

    `ahead` is the number of steps in all over that so far. Directions are expected to become √ahead times as many, and
    there is room for half as many again at most; `taken` are found at a time.
    """
    factor = min(math.sqrt(ahead), 1.5)

    def grow(drawn: int, size: int, rank: int, out: bool) -> int:
        return _coarse(max(size + drawn * int(out), factor * rank + drawn)) if size else size

    grown = jax.tree.map(partial(grow, taken), room, used, short)
    sources = map(partial(grow, taken * offsets), room.sources, used.sources, short.sources)
    return grown._replace(sources=tuple(min(size, most_gaussians(width, taken * offsets)) for size in sources))


def fitted(room: Room, used: Room, taken: int, offsets: int) -> Room:
    """Room for a run like one that used so much of `room`, with a margin; never more."""

    def fit(drawn: int, size: int, rank: int) -> int:
        return min(size, rounded(1.05 * rank + drawn))

    return jax.tree.map(partial(fit, taken), room, used)._replace(
        sources=tuple(map(partial(fit, taken * offsets), room.sources, used.sources))
    )


def rows_of(room: Room) -> int:
    """Rows of all buffers of matrices: a step's time is in proportion to them."""
    return sum(jax.tree.leaves((room.matrices, room.feedbacks)))


@compiled(static_argnames="room")
def enlarge(state: State, room: Room) -> State:
    """`state` in larger buffers, its Gaussians excepted; old and new are held together while it copies."""
    previous = state.previous
    if previous is not None and room.matrices:
        teaching, records, readout = previous
        sizes = [forward for forward, _ in room.matrices]
        wider = [jnp.pad(r, ((0, 0), (0, n - r.shape[1]))) for r, n in zip(records[1:], sizes, strict=True)]
        previous = (teaching, [records[0], *wider], readout)
    return dataclasses.replace(
        state,
        matrices=[_grown(m, sizes) for m, sizes in zip(state.matrices, room.matrices, strict=True)],
        feedbacks=[_grown(m, (0, size)) for m, size in zip(state.feedbacks, room.feedbacks, strict=True)],
        previous=previous,
    )


def _grown(matrix: Any, sizes: tuple[int, int]) -> Any:
    return matrix.grown(*sizes) if isinstance(matrix, LowRank) else matrix
