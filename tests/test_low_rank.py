"""A matrix kept as questions and answers: what it has learnt is the sum of its updates, in both directions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widefield.engine.low_rank import make_low_rank
from widefield.engine.sources import Plain, make_matched
from widefield.engine.wide_matrix import Ask, Rates

WIDTH, POINTS, ROUNDS, CAPACITY = 96, 3, 4, 24


forward = jax.jit(lambda matrix, rows, source, key: matrix.forward(rows, source, key))


def ask_back(matrix, rows, source, key):
    """What W(t) and W(0) answer."""
    return matrix.backward([Ask(rows, {"current": 1.0}), Ask(rows, {"initial": 1.0})], source, key)


backward = jax.jit(ask_back)


def fresh_matrix():
    room, nothing = (CAPACITY, CAPACITY), jnp.zeros(())
    return make_low_rank(WIDTH, WIDTH, WIDTH, room, "float64", jnp.asarray(1e-6), frozenset(), nothing, velocity=False)


def sources(kind: str, seed: int):
    """Gaussian sources of the populations on the out and on the in side."""
    if kind == "plain":
        return Plain(WIDTH), Plain(WIDTH)
    rng = np.random.default_rng(seed)
    return tuple(make_matched(96, WIDTH, jnp.asarray(rng.standard_normal((8, WIDTH)))) for _ in range(2))


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
        taught = taught.update(record, teaching, Rates(*(jnp.asarray(rate) for rate in (decay, 1.0, 0.0, 0.0))))
        learnt = decay * learnt + np.asarray(teaching).T @ np.asarray(rows) / WIDTH
    assert int(taught.forward_side.rank) == ROUNDS * POINTS


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
