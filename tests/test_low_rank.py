"""A matrix kept as questions and answers: what it has learnt is the sum of its updates, in both directions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widefield as wf
from widefield.engine import capacity
from widefield.engine.capacity import fitted, larger, most_gaussians
from widefield.engine.interpretation import Interpretation, Room, initialise
from widefield.engine.low_rank import make_low_rank, with_sign
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.sources import Plain, Pool, make_matched, project_out
from widefield.engine.wide_matrix import Ask, Rates

WIDTH, POINTS, ROUNDS, CAPACITY = 96, 3, 4, 24


forward = jax.jit(lambda matrix, rows, source, key: matrix.forward(rows, source, key))


def ask_back(matrix, rows, source, key):
    """What W(t) and W(0) answer."""
    return matrix.backward([Ask(rows, {"current": 1.0}), Ask(rows, {"initial": 1.0})], source, key)


backward = jax.jit(ask_back)


def fresh_matrix(
    tolerance: float = 1e-6, parts: frozenset[str] = frozenset(), rho: float = 0.0, velocity: bool = False
):
    room = (CAPACITY, CAPACITY)
    return make_low_rank(
        WIDTH,
        WIDTH,
        WIDTH,
        room,
        "float64",
        (jnp.asarray(tolerance),) * 2,
        parts,
        jnp.asarray(rho),
        velocity,
        slots=POINTS,
    )


def rates(decay: float = 1.0, move: float = 1.0, keep: float = 0.0, follow: float = 0.0) -> Rates:
    return Rates(*(jnp.asarray(rate) for rate in (decay, move, keep, follow)))


def sources(kind: str, seed: int):
    """Gaussian sources of the populations on the out and on the in side."""
    if kind == "plain":
        return Plain(WIDTH), Plain(WIDTH)
    rng = np.random.default_rng(seed)
    pools = [Pool(rng.standard_normal((8, WIDTH)), (seed, side)) for side in range(2)]
    return tuple(make_matched(jnp.asarray(pool.basis(96))) for pool in pools)


@pytest.mark.parametrize("kind", ["plain", "matched"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), decay=st.sampled_from([1.0, 0.9]))
def test_what_is_learnt_is_the_sum_of_updates(kind, seed, decay):
    out, inside = sources(kind, seed)
    taught, still = fresh_matrix(), fresh_matrix()
    still_out, still_inside = out, inside
    rng = np.random.default_rng(seed)
    learnt = np.zeros((WIDTH, WIDTH))  # (out, in), as W/√N
    for step in range(ROUNDS):
        # Nonlinear rows: Gaussians are matched to each other, so that linear ones would hide a missing overlap.
        rows, back = (jnp.asarray(np.tanh(3 * rng.standard_normal((POINTS, WIDTH)))) for _ in range(2))
        key = jax.random.fold_in(jax.random.key(seed), step)
        taught, out, answers, record = forward(taught, rows, out, key)
        still, still_out, initial, _ = forward(still, rows, still_out, key)
        scale = decay**step
        assert np.allclose(answers - scale * initial, rows @ learnt.T, atol=1e-9)
        key = jax.random.fold_in(key, 1)
        taught, inside, [current, initial] = backward(taught, back, inside, key)
        still, still_inside, [_, unlearnt] = backward(still, back, still_inside, key)
        assert np.allclose(initial, unlearnt, atol=1e-9)
        assert np.allclose(current - scale * initial, back @ learnt, atol=1e-9)
        teaching = jnp.asarray(rng.standard_normal((POINTS, WIDTH)))
        taught = taught.update(record, rows, teaching, rates(decay))
        learnt = decay * learnt + np.asarray(teaching).T @ np.asarray(rows) / WIDTH
    assert int(taught.forward_side.rank) == ROUNDS * POINTS


def moving_rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and the directions in which they move, all orthonormal."""
    both = np.linalg.qr(np.random.default_rng(seed).standard_normal((WIDTH, 2 * POINTS)))[0].T * np.sqrt(WIDTH)
    return both[:POINTS], both[POINTS:]


@pytest.mark.parametrize("which", [None, [2, 0], [1, 2, 1]], ids=["all rows", "a batch", "a row twice"])
@pytest.mark.parametrize(("keep", "follow"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.3)])
def test_what_is_learnt_along_a_part_too_small_to_ask_is_not_lost(which, keep, follow):
    """Rows move by 0.05 a step, below the tolerance, and then far: W(t) has all that was taught on the way.

    On the way answers leave out what one small part teaches another one, 0.05² and more.
    """
    parts = frozenset({"mirror"}) if follow else frozenset()
    out, inside = sources("plain", 5)
    taught = still = fresh_matrix(0.3, parts, velocity=keep > 0)
    still_out, rng = out, np.random.default_rng(5)
    start, ahead = moving_rows(5)
    weights, velocity, mirror, scale = np.zeros((WIDTH, WIDTH)), np.zeros((WIDTH, WIDTH)), np.zeros((WIDTH, WIDTH)), 1.0
    slots = np.arange(POINTS) if which is None else np.array(which)
    first = jnp.asarray([slot not in slots[:k] for k, slot in enumerate(slots)])
    for step, moved in enumerate([0.0, 0.05, 0.1, 0.15, 2.0]):
        rows, key = jnp.asarray(start + moved * ahead)[slots], jax.random.fold_in(jax.random.key(5), step)
        if which is not None:
            taught = taught.for_rows(jnp.asarray(slots), first)
        taught, out, answers, record = forward(taught, rows, out, key)
        still, still_out, initial, _ = forward(still, rows, still_out, key)
        back = jnp.asarray(rng.standard_normal((POINTS, WIDTH)))
        asks = [Ask(back, {name: 1.0}) for name in ("initial", "current", *parts)]
        _, _, [unlearnt, current, *heard] = taught.backward(asks, inside, key)
        if moved in (0.0, 2.0):
            np.testing.assert_allclose(answers - scale * initial, np.asarray(rows) @ weights.T, atol=1e-9)
            np.testing.assert_allclose(current - scale * unlearnt, np.asarray(back) @ weights, atol=1e-9)
            for answer in heard:
                learnt = answer - taught.mirror_scale * unlearnt
                np.testing.assert_allclose(learnt, np.asarray(back) @ mirror, atol=1e-9)
        teaching = rng.standard_normal((len(slots), WIDTH))
        taught = taught.update(record, rows, jnp.asarray(teaching), rates(0.9, 1.0, keep, follow))
        if which is not None:
            taught = taught.for_all(jnp.asarray(slots))
            assert taught.idle is None
            assert len(taught.rest.rows) == POINTS
        change = teaching.T @ np.asarray(rows) / WIDTH
        velocity = keep * velocity + change
        mirror = mirror + follow * (weights - mirror)
        weights, scale = 0.9 * weights + velocity, 0.9 * scale
        different = int(np.sum(first))
        assert int(taught.forward_side.rank) == (different if moved < 1 else 2 * different), "the way is not tested"


def test_a_step_that_is_taken_again_teaches_nothing_to_what_was_left():
    """At rate 0, as where there was no room for what was new, rows and what was learnt along them stay as they were."""
    out, _ = sources("plain", 6)
    matrix, rng = fresh_matrix(0.3), np.random.default_rng(6)
    start, ahead = moving_rows(6)
    for moved, move in ((0.0, 1.0), (0.1, 0.0)):
        rows, teaching = jnp.asarray(start + moved * ahead), jnp.asarray(rng.standard_normal((POINTS, WIDTH)))
        matrix, out, _, record = forward(matrix, rows, out, jax.random.key(0))
        before, matrix = matrix, matrix.update(record, rows, teaching, rates(move=move))
    assert np.abs(before.rest.current).max() > 0.1, "nothing was learnt, nothing is tested"
    for old, new in zip(jax.tree.leaves(before.rest), jax.tree.leaves(matrix.rest), strict=True):
        np.testing.assert_array_equal(old, new)


def test_coordinates_of_rows_that_teach_follow_the_rows_asked():
    """They are kept rather than computed: through new directions, while a point waits, and in larger buffers."""

    def check(matrix) -> None:
        rest, side = matrix.rest, matrix.forward_side
        np.testing.assert_allclose(rest.known, rest.rows @ side.asked.T / WIDTH, atol=1e-12)

    out, rng = sources("plain", 7)[0], np.random.default_rng(7)
    start, ahead = moving_rows(7)
    matrix, both = fresh_matrix(0.3), start[[0, 0, 2]] + ahead[[0, 0, 2]]  # points 0 and 1 move along the same line
    for step, (slots, moved) in enumerate([([0, 1], 0.0), ([0, 1], 0.2), ([0, 2], 2.0), ([1, 2], 1.0)]):
        key = jax.random.fold_in(jax.random.key(7), step)
        rows = jnp.asarray(start + moved * both)[jnp.asarray(slots)]
        matrix = matrix.for_rows(jnp.asarray(slots), jnp.ones(2, bool))
        check(matrix)
        matrix, out, _, record = forward(matrix, rows, out, key)
        check(matrix)
        matrix = matrix.update(record, rows, jnp.asarray(rng.standard_normal((2, WIDTH))), rates())
        check(matrix)
        matrix = matrix.for_all(jnp.asarray(slots)).grown(CAPACITY + 4 * step, CAPACITY)
        assert int(matrix.forward_side.rank) == [2, 2, 4, 4][step], "new directions are not tested"
        assert matrix.rest.known.shape == (POINTS, len(matrix.forward_side.asked))


@pytest.mark.parametrize(("keep", "follow"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.3)])
def test_what_a_point_has_learnt_waits_until_it_passes_again(keep, follow):
    """Other points teach in between; decay, momentum and what follows W go on all the same."""
    parts = frozenset({"mirror"}) if follow else frozenset()
    out, rng = sources("plain", 6)[0], np.random.default_rng(6)
    taught = fresh_matrix(0.3, parts, velocity=keep > 0)
    start, ahead = moving_rows(6)
    along, speed, followed = (np.zeros(WIDTH) for _ in range(3))  # what W, its velocity and V have along ahead[0]
    for step, (slot, moved) in enumerate([(0, 0.0), (0, 0.1), (1, 0.0), (2, 0.0), (0, 2.0)]):
        rows = jnp.asarray(start + moved * ahead)[slot : slot + 1]
        taught = taught.for_rows(jnp.asarray([slot]), jnp.asarray([True]))
        taught, out, _, record = forward(taught, rows, out, jax.random.key(step))
        if moved == 2.0:
            newest = int(taught.forward_side.rank) - 1
            sign = np.sign(np.asarray(taught.forward_side.asked[newest]) @ ahead[0])
            found = taught.current[newest] - taught.scale * taught.forward_side.answers[newest]
            np.testing.assert_allclose(sign * found, along, atol=1e-9)
            if follow:
                found = taught.mirror[newest] - taught.mirror_scale * taught.forward_side.answers[newest]
                np.testing.assert_allclose(sign * found, followed, atol=1e-9)
        teaching = rng.standard_normal((1, WIDTH))
        taught = taught.update(record, rows, jnp.asarray(teaching), rates(0.9, 1.0, keep, follow))
        taught = taught.for_all(jnp.asarray([slot]))
        change = moved * teaching[0] if slot == 0 else np.zeros(WIDTH)
        speed = keep * speed + change
        followed = followed + follow * (along - followed)
        along = 0.9 * along + speed


@pytest.mark.parametrize(("follow", "rho"), [(0.3, 0.6), (0.05, -0.4)])
def test_what_follows_goes_its_share_of_the_way(follow, rho):
    """V ← V + follow·(W − V) from V = ρW(0), against the same on the answers to what was asked."""
    out, inside = sources("plain", 0)
    matrix = fresh_matrix(parts=frozenset({"mirror"}), rho=rho)
    rng = np.random.default_rng(1)
    share, weight = rho, 1.0
    for step in range(3):
        rows, taught, back = (jnp.asarray(rng.standard_normal((POINTS, WIDTH))) for _ in range(3))
        matrix, out, _, record = forward(matrix, rows, out, jax.random.key(step))
        current, mirror = matrix.current, matrix.mirror
        matrix = matrix.update(record, rows, taught, rates(0.8, follow=follow))
        np.testing.assert_allclose(matrix.mirror, mirror + follow * (current - mirror), atol=1e-12)
        share, weight = share + follow * (weight - share), 0.8 * weight
    # What was never asked forward is W(0) still: V's answers there are its share of it.
    asks = [Ask(back, {"mirror": 1.0}), Ask(back, {"initial": 1.0})]
    matrix, _, [of_mirror, of_initial] = matrix.backward(asks, inside, jax.random.key(9))
    side = matrix.forward_side
    known = project_out(of_mirror - share * of_initial, side.asked, WIDTH)
    np.testing.assert_allclose(known, 0.0, atol=1e-9)


def test_a_small_question_is_measured_by_a_share_of_the_largest():
    """With tolerance 0.1 a row of 0.02 of the largest is below 0.1 of SMALL = 0.3, one of 0.04 is above."""
    rng = np.random.default_rng(0)
    first, other = (jnp.asarray(rng.standard_normal((1, WIDTH))) for _ in range(2))
    first, other = (row / jnp.sqrt(jnp.mean(row**2)) for row in (first, other))
    ranks = []
    for size in (0.02, 0.04):
        matrix, out, _, _ = forward(fresh_matrix(0.1), first, sources("matched", 0)[0], jax.random.key(0))
        matrix, *_ = forward(matrix, size * other, out, jax.random.key(1))
        ranks.append(int(matrix.forward_side.rank))
    assert ranks == [1, 2]


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 32))
def test_signs_of_eigenvectors_do_not_matter(seed, size):
    rng = np.random.default_rng(seed)
    vectors = jnp.asarray(np.linalg.qr(rng.standard_normal((size, size)))[0])
    turned = vectors * rng.choice([-1.0, 1.0], size)
    np.testing.assert_array_equal(with_sign(turned), with_sign(vectors))


@settings(deadline=None)
@given(ahead=st.floats(1.0, 100.0), rank=st.integers(0, 480), taken=st.integers(1, 32), offsets=st.integers(1, 9))
def test_what_was_short_can_draw_a_block_after_one_growth(ahead, rank, taken, offsets):
    """Rooms are those of a run that has just found no room for `taken` directions per offset."""
    room = Room(((32 * (rank // 32) + 32, 0),), (64,), (32 * (rank // 32) + 32,))
    used, short = Room(((rank, 0),), (3,), (rank,)), Room(((True, False),), (False,), (True,))
    grown = larger(room, used, short, 4096, taken, offsets, ahead)
    assert grown.matrices[0][0] >= rank + taken
    assert grown.matrices[0][1] == 0
    assert grown.feedbacks == (64,)
    assert rank + taken * offsets <= grown.sources[0] <= most_gaussians(4096, taken * offsets)
    fit = fitted(grown, used, taken, offsets)
    assert rank + taken <= fit.matrices[0][0] <= grown.matrices[0][0]
    assert rank + taken * offsets <= fit.sources[0] <= grown.sources[0]


def test_only_what_is_new_in_a_question_adds_directions():
    out, _ = sources("matched", 0)
    matrix = fresh_matrix()
    rows = jnp.asarray(np.random.default_rng(0).standard_normal((POINTS, WIDTH)))
    matrix, out, first, _ = forward(matrix, rows, out, jax.random.key(0))
    mixed = rows[::-1] + 2 * rows
    matrix, out, second, _ = forward(matrix, mixed, out, jax.random.key(1))
    assert int(matrix.forward_side.rank) == POINTS
    assert np.allclose(second, first[::-1] + 2 * first, atol=1e-12)
    nearly = mixed + 1e-4 * jnp.asarray(np.random.default_rng(1).standard_normal((POINTS, WIDTH)))
    matrix, _, _, _ = forward(matrix, nearly, out, jax.random.key(2))
    assert int(matrix.forward_side.rank) == 2 * POINTS


def test_a_part_too_small_to_ask_is_answered_by_its_conditional_mean():
    """What a row adds below the tolerance costs no direction, and W(0)ε comes as Q_y⟨B, ε⟩: what is known of it."""
    out, inside = sources("plain", 3)
    matrix, rng = fresh_matrix(0.1), np.random.default_rng(3)
    back, rows = (jnp.asarray(np.tanh(3 * rng.standard_normal((POINTS, WIDTH)))) for _ in range(2))
    matrix, inside, [heard, _] = backward(matrix, back, inside, jax.random.key(0))
    matrix, out, first, _ = forward(matrix, rows, out, jax.random.key(1))
    rank = int(matrix.forward_side.rank)
    # ε has a part along what was heard, so that something is known of W(0)ε.
    left = rng.standard_normal((POINTS, WIDTH)) + 2 * np.asarray(heard)
    asked = np.asarray(matrix.forward_side.asked[:rank])
    left = left - (left @ asked.T / WIDTH) @ asked
    left = 0.03 * left / np.sqrt(np.mean(left**2))
    matrix, out, second, _ = forward(matrix, rows + left, out, jax.random.key(2))
    assert int(matrix.forward_side.rank) == rank
    q_y, b = (np.asarray(a[: int(matrix.backward_side.rank)])
              for a in (matrix.backward_side.asked, matrix.backward_side.answers))  # fmt: skip
    expected = (left @ b.T / WIDTH) @ q_y
    assert np.abs(expected).max() > 0.01, "nothing was known, nothing is tested"
    np.testing.assert_allclose(second - first, expected, atol=1e-12)
    # And so the overlap with what was asked backward is the one that W(0) itself would give.
    np.testing.assert_allclose(q_y @ np.asarray(second).T / WIDTH, b @ np.asarray(rows + left).T / WIDTH, atol=1e-12)


@pytest.mark.parametrize("share", [0.02, 0.04, 0.08])
def test_what_is_lost_of_a_kernel_is_the_square_of_what_was_not_asked(share):
    """Without anything known of W(0)ε its variance is lost, ε², and nothing else: the law behind the tolerance."""
    out, _ = sources("matched", 4)
    matrix, rng = fresh_matrix(0.1), np.random.default_rng(4)
    rows = jnp.asarray(rng.standard_normal((1, WIDTH)))
    matrix, out, _, _ = forward(matrix, rows, out, jax.random.key(1))
    asked = np.asarray(matrix.forward_side.asked[:1])
    left = rng.standard_normal((1, WIDTH))
    left = left - (left @ asked.T / WIDTH) @ asked
    left = share * left / np.sqrt(np.mean(left**2)) * np.sqrt(np.mean(np.asarray(rows) ** 2))
    matrix, out, answer, _ = forward(matrix, rows + left, out, jax.random.key(2))
    size = float(jnp.mean((rows + left) ** 2))
    assert int(matrix.forward_side.rank) == 1
    # A matched Gaussian has variance 1 to rounding: the answer's is that of the part that was asked.
    np.testing.assert_allclose(1 - float(jnp.mean(answer**2)) / size, share**2 / (1 + share**2), rtol=1e-9)


def test_gaussians_are_matched_and_do_not_depend_on_when_room_is_added():
    quasi = np.random.default_rng(0).standard_normal((8, WIDTH)).astype(np.float32)
    pool = Pool(quasi, (3, 1))
    small = pool.basis(32)
    large = pool.basis(64)
    np.testing.assert_allclose(large @ large.T / WIDTH, np.eye(65), atol=1e-5)
    np.testing.assert_array_equal(pool.basis(64, small), large)
    np.testing.assert_array_equal(large[:33], small)


def test_a_source_says_when_a_draw_would_reach_beyond_its_end():
    source = make_matched(jnp.zeros((33, WIDTH))).take(jnp.asarray(20), 20)
    assert not source.full
    assert not source.take(jnp.asarray(1), 12).full
    assert source.take(jnp.asarray(1), 13).full  # only one is used, but 13 rows from here would be rows in use


def test_columns_answer_as_rows_do():
    """For few rows a matrix also keeps its rows as columns: the same answers, and columns that follow what is new."""
    rng, (out, inside) = np.random.default_rng(7), sources("matched", 7)
    rows_only = fresh_matrix()
    both, state = rows_only.for_few_rows(), [(out, inside), (out, inside)]
    for step in range(ROUNDS):
        rows, back, teaching = (jnp.asarray(rng.standard_normal((POINTS, WIDTH))) for _ in range(3))
        key, found = jax.random.key(step), []
        for k, matrix in enumerate((rows_only, both)):
            matrix, ahead, answers, record = forward(matrix, rows, state[k][0], key)
            matrix, behind, heard = backward(matrix, back, state[k][1], key)
            found.append((answers, heard))
            state[k] = (ahead, behind)
            matrix = matrix.update(record, rows, teaching, rates(0.9))
            rows_only, both = (matrix, both) if k == 0 else (rows_only, matrix)
        for a, b in zip(*map(jax.tree.leaves, found), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
        for side in (both.forward_side, both.backward_side):
            np.testing.assert_array_equal(side.columns[0].T, side.asked)
            np.testing.assert_array_equal(side.columns[1].T, side.answers)
    assert int(both.forward_side.rank) == ROUNDS * POINTS
    assert both.at_rest().forward_side.columns is None
    assert jax.tree.structure(both.at_rest()) == jax.tree.structure(rows_only)


@pytest.mark.parametrize(("rows", "limit", "kept"), [(64, 307_200, True), (65, 2**29, False), (64, 307_199, False)])
def test_columns_are_kept_where_rows_are_few_and_buffers_small(rows, limit, kept, monkeypatch):
    monkeypatch.setattr(capacity, "MOST_COPIED", limit)
    problem = wf.Problem(wf.datasets.sphere(rows, 3), wf.MLP(2, "tanh"), "gd", 1.0, wf.Training(1, 0.01))
    spec, inputs = prepare(problem, make_recording(problem, (), 1, 1), "float64", 0.1)
    kind = Interpretation("conditioned", 100, Room(((96, 96),), (0,)))
    state = initialise(spec, kind, inputs, jax.random.key(0), [])
    found = capacity.unpacked(spec, rows, state)
    assert (found.matrices[0].forward_side.columns is not None) == kept
    assert jax.tree.structure(capacity.packed(found)) == jax.tree.structure(state)
