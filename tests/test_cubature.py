"""Points whose moments are nearly those of the normal law."""

import numpy as np
import pytest
from scipy.stats import chi2

from widefield.digest import code_version
from widefield.numerics.cubature import DIMENSIONS, PLACE, POINTS, cubature_normals, points
from widefield.numerics.sobol import MOST_CUBATURE, quasi_normals, sobol_normals

HERMITE = {3: lambda x: (x**3 - 3 * x) / np.sqrt(6), 4: lambda x: (x**4 - 6 * x**2 + 3) / np.sqrt(24)}


def deviation(rows: np.ndarray, degree: int) -> float:
    """Root mean square over random directions of the average of a Hermite polynomial, in that of independent points."""
    axes = np.random.default_rng(0).standard_normal((400, len(rows)))
    along = (axes / np.linalg.norm(axes, axis=1, keepdims=True)) @ rows
    return float(np.sqrt(np.mean(HERMITE[degree](along).mean(axis=1) ** 2) * rows.shape[1]))


@pytest.mark.parametrize("degree", [3, 4])
def test_third_and_fourth_moments_are_several_times_nearer_than_those_of_sobol_points(degree):
    turned = cubature_normals([1, 2], 1)
    # Independent points have 1 in the mean; with 400 directions of 28 dimensions it scatters by about a tenth.
    assert deviation(turned, degree) < 0.5
    assert deviation(points(), degree) < 0.5
    assert deviation(sobol_normals([1], DIMENSIONS, POINTS), degree) > 0.6


def test_mean_and_covariance_are_exact():
    turned = cubature_normals([0], 3)
    assert turned.shape == (DIMENSIONS, 3 * POINTS)
    for one in np.split(turned, 3, axis=1):
        np.testing.assert_allclose(one.mean(axis=1), 0.0, atol=1e-12)
        np.testing.assert_allclose(one @ one.T / POINTS, np.eye(DIMENSIONS), atol=1e-12)


def test_radii_have_the_law_of_a_normal_vector():
    """Turning a point does not change its radius: another law would be a bias that no number of replicates shows."""
    squares = np.sort(np.sum(points() ** 2, axis=0))
    expected = chi2.ppf((np.arange(POINTS) + 0.5) / POINTS, DIMENSIONS)
    # The stored points are rounded to half precision, and made orthonormal after that.
    np.testing.assert_allclose(squares, expected, rtol=5e-3)


def test_sets_differ_and_depend_on_the_seed_only():
    first, second = np.split(cubature_normals([3, 1], 2), 2, axis=1)
    assert np.max(np.abs(np.sort(first, axis=1) - np.sort(second, axis=1))) > 0.1
    np.testing.assert_array_equal(cubature_normals([3, 1], 1), first)
    # Radii must not tell which point of one set a point of another is.
    radii = [np.linalg.norm(one, axis=0) for one in (first, second)]
    assert abs(np.corrcoef(*radii)[0, 1]) < 5 / np.sqrt(POINTS)  # false alarms: less than one in a million


@pytest.mark.parametrize(
    ("directions", "particles", "used"),
    [(40, POINTS, True), (40, POINTS + 100, True), (DIMENSIONS - 1, POINTS, False), (40, POINTS - 1, False),
     (40, MOST_CUBATURE + 1, False)],
)  # fmt: skip
def test_they_are_used_where_there_are_particles_and_directions_for_them(directions, particles, used):
    [[found]] = quasi_normals(5, range(2, 3), 1, directions, particles, "float64")
    expected = sobol_normals([5, 2, 0], directions, particles)
    if used:
        turned = cubature_normals([5, 2, 0], particles // POINTS)
        expected[:DIMENSIONS, : turned.shape[1]] = turned
    np.testing.assert_array_equal(found, expected)


def test_they_are_part_of_the_version_of_the_code(tmp_path):
    (tmp_path / "a.py").write_text("")
    before = code_version(tmp_path)
    (tmp_path / PLACE.name).write_bytes(PLACE.read_bytes())
    code_version.cache_clear()
    assert code_version(tmp_path) != before
    code_version.cache_clear()
