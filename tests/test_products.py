"""Products with buffers and numbers computed once: faster forms of what they stand for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widefield.engine.order import once
from widefield.engine.products import FEW_ROWS, overlaps, summed


@pytest.mark.parametrize("count", [1, 5, FEW_ROWS, FEW_ROWS + 1])
def test_products_with_a_buffer_are_those_of_matrices(count):
    rng = np.random.default_rng(count)
    rows, buffer, coefficients = (rng.standard_normal(shape) for shape in ((count, 60), (7, 60), (count, 7)))
    np.testing.assert_allclose(jax.jit(overlaps, static_argnums=2)(rows, buffer, 20), rows @ buffer.T / 20, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(summed)(coefficients, rows), coefficients.T @ rows, rtol=1e-12)


@pytest.mark.parametrize("numbers", [(3,), (2.5, -1.0), (0.5, np.nan, 0.25, -np.inf)])
def test_numbers_computed_once_stay_what_and_where_they_are(numbers):
    given = tuple(jnp.asarray(number) for number in numbers)
    found = jax.jit(once)(*given)
    assert [number.dtype for number in found] == [number.dtype for number in given]
    np.testing.assert_array_equal(found, numbers)
