"""Sobol points against SciPy's."""

import numpy as np
import pytest

from widefield.numerics.sobol_points import TABLE, by_scipy, scrambled_points


@pytest.mark.parametrize(("dimensions", "count"), [(1, 1), (3, 7), (64, 1024), (20, 100), (65, 16)])
def test_points_are_those_of_scipy(dimensions, count):
    found, expected = (make([7, dimensions], dimensions, count) for make in (scrambled_points, by_scipy))
    np.testing.assert_array_equal(found, expected)
    assert found.shape == (dimensions, count)


def test_the_table_has_the_dimensions_of_most_runs():
    # Beyond, SciPy is imported.
    assert len(TABLE.split(";")) == 63
