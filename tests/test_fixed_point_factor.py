"""Laws of the factorisation and of the response estimate that Algorithm 1 is built on."""

import jax.numpy as jnp
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from widefield.solvers.fixed_point.factor import causal_factor, stein_response


def random_kernel(seed: int, entries: int, rank: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((entries, rank))
    return root @ root.T


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 12))
def test_causal_factor(seed, rank):
    """F Fᵀ = K, one column per independent entry, and the factor of the past is the past of the factor.

    Rounding is amplified by the squared condition number of the first `rank` entries; 1e4·eps is below 1e-10.
    """
    assume(np.linalg.cond(np.random.default_rng(seed).standard_normal((12, rank))[:rank]) < 100)
    kernel = jnp.asarray(random_kernel(seed, 12, rank))
    factor = causal_factor(kernel, 12, 1e-5)
    np.testing.assert_allclose(factor.matrix @ factor.matrix.T, kernel, atol=1e-8 * np.trace(kernel))
    assert int(factor.rank) == rank
    assert int(factor.overflow) == 0
    past = causal_factor(kernel[:8, :8], 12, 1e-5)
    np.testing.assert_allclose(past.matrix, factor.matrix[:8] * (factor.pivots < 8), atol=1e-9 * np.trace(kernel))
    assert bool(causal_factor(kernel, 6, 1e-5).overflow) == (rank > 6)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), rank=st.integers(2, 12), equal_time=st.booleans())
def test_stein_response_of_a_linear_map_is_the_map(seed, rank, equal_time):
    """For target = M·field with a causal M, the response acts on the field as M does; three entries per time."""
    rng = np.random.default_rng(seed)
    kernel = random_kernel(seed, 12, rank)
    factor = causal_factor(jnp.asarray(kernel), 12, 1e-6)
    whitened = np.linalg.qr(rng.standard_normal((200, 12)))[0].T * np.sqrt(200)
    field = np.asarray(factor.matrix) @ whitened
    time = np.arange(12) // 3
    causal = time[:, None] >= time if equal_time else time[:, None] > time
    matrix = rng.standard_normal((12, 12)) * causal
    response = stein_response(jnp.asarray(matrix @ field), jnp.asarray(field), factor, 3, equal_time=equal_time)
    scale = np.abs(matrix @ kernel).max()
    np.testing.assert_allclose(response @ kernel, matrix @ kernel, atol=1e-6 * scale)
    assert np.all(np.asarray(response)[~causal] == 0)
