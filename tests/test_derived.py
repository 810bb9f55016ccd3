"""Derived variables, and what runs make of them, against values worked out by hand or by a plain loop."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import widefield as wf
from widefield.results.derived import alignment, complete, mean_cosine
from widefield.solvers.mean_field.solve import extrapolated, relative_error

X, Y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -2.0])


def make_problem(y=Y, loss="squared", y_test=None, x_test=None, **training) -> wf.Problem:
    x = X if len(y) == 2 else np.eye(len(y))
    settings = {"steps": 2, "dt": 0.1, **training}
    return wf.Problem(wf.Dataset(x, y, x_test, y_test), wf.MLP(1, "erf"), "gd", 1.0, wf.Training(loss=loss, **settings))


def test_alignment_by_hand():
    # y = (1, −2): yyᵀ = [[1, −2], [−2, 4]], |yyᵀ| = 5. K = [[2, 1], [1, 3]]: yᵀKy = 2 − 4 + 12 = 10, |K| = √15.
    kernel = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert alignment(kernel, Y[:, None]) == pytest.approx(10 / (5 * math.sqrt(15)))
    # A kernel that is yyᵀ, times anything, is aligned; one orthogonal to it is not.
    assert alignment(7 * np.outer(Y, Y), Y[:, None]) == pytest.approx(1.0)
    assert alignment(-np.outer(Y, Y), Y[:, None]) == pytest.approx(-1.0)
    assert alignment(np.outer([2.0, 1.0], [2.0, 1.0]), Y[:, None]) == pytest.approx(0.0)
    assert alignment(np.zeros((2, 2)), Y[:, None]) == 0.0


def test_alignment_of_several_outputs_is_a_cosine_of_matrices():
    rng = np.random.default_rng(0)
    y, kernels = rng.standard_normal((3, 2)), rng.standard_normal((4, 5, 3, 3))
    target = sum(np.outer(y[:, c], y[:, c]) for c in range(2))
    found = alignment(kernels, y)
    for place in itertools.product(range(4), range(5)):
        kernel = kernels[place]
        dot = sum(kernel[m, n] * target[m, n] for m in range(3) for n in range(3))
        sizes = math.sqrt(sum(k * k for k in kernel.flat)) * math.sqrt(sum(t * t for t in target.flat))
        assert found[place] == pytest.approx(dot / sizes)


def test_alignment_of_a_kernel_between_outputs_is_that_of_its_trace():
    rng = np.random.default_rng(1)
    y, kernel = rng.standard_normal((3, 2)), rng.standard_normal((2, 4, 3, 3, 2, 2))  # (runs, times, P, P, C, C)
    summed = kernel[..., 0, 0] + kernel[..., 1, 1]
    found = complete(make_problem(y), {"entk": kernel})["entk_alignment"]
    np.testing.assert_allclose(found, alignment(summed, y))


def cosine(*kernels: np.ndarray) -> np.ndarray:
    return mean_cosine(*(np.einsum("...mmcc->...mc", kernel) for kernel in kernels))


def test_cosine_by_hand():
    # Two points, one output: cos = 1/√(4·1) and 3/√(9·4); mean of ½ and ½.
    g, mixed, tilde = (np.diag(d)[None, None, ..., None, None] for d in ([4.0, 9.0], [1.0, 3.0], [1.0, 4.0]))
    assert cosine(g, mixed, tilde)[0, 0] == pytest.approx(0.5)
    # Entries between different points, and between different outputs, play no part.
    g2, mixed2, tilde2 = (np.ones((2, 2, 2, 2)) * value for value in (4.0, 1.0, 9.0))
    for kernel, value in ((g2, 1.0), (mixed2, 0.3), (tilde2, 1.0)):
        for m, c in itertools.product(range(2), repeat=2):
            kernel[m, m, c, c] = value
    assert cosine(g2, mixed2, tilde2) == pytest.approx(0.3)


def test_loss_error_and_test_loss_by_hand():
    problem = make_problem(x_test=X[:1], y_test=[3.0])
    f = np.array([[[[0.0], [0.0]], [[0.5], [-1.0]]]])  # (run, times, points, output)
    found = complete(problem, {"f": f, "f_test": np.array([[[[0.0]], [[1.0]]]])})
    np.testing.assert_allclose(found["loss"], [[0.5 * (1 + 4), 0.5 * (0.25 + 1)]])
    np.testing.assert_allclose(found["delta"][0, :, :, 0], [[1, -2], [0.5, -1]])
    np.testing.assert_allclose(found["test_loss"], [[4.5, 2.0]])
    assert "accuracy" not in found  # these targets are no classes
    assert "entk_alignment" not in found


def test_other_losses_by_hand():
    signs = complete(make_problem(np.array([1.0, -1.0]), "logistic"), {"f": np.array([[[[0.0], [2.0]]]])})
    assert signs["loss"][0, 0] == pytest.approx(math.log(2) + math.log1p(math.exp(2)))
    np.testing.assert_allclose(signs["delta"][0, 0, :, 0], [0.5, -1 / (1 + math.exp(-2))])
    classes = complete(make_problem(np.eye(2), "cross_entropy"), {"f": np.array([[[[1.0, 0.0], [3.0, 0.0]]]])})
    assert classes["loss"][0, 0] == pytest.approx(math.log1p(math.exp(-1)) + math.log1p(math.exp(3)))
    share = 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-3))
    expected = [[1 - share[0], share[0] - 1], [-share[1], share[1]]]
    np.testing.assert_allclose(classes["delta"][0, 0], expected, atol=1e-12)


@pytest.mark.parametrize("keep", [False, True])
def test_a_loss_may_give_a_column_per_sample(keep):
    """(P,) and (P, 1) are the same loss."""

    def mine(f, y):
        return 0.5 * ((f - y) ** 2).sum(-1, keepdims=keep)

    found, expected = (wf.simulate(make_problem(loss=one), 8, 2, progress=False)["f"] for one in (mine, "squared"))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_accuracy_by_hand():
    signs = make_problem(np.array([1.0, -1.0, -1.0]))
    f = np.array([[[[0.2], [-0.1], [0.4]], [[0.2], [-3.0], [-0.4]]]])
    np.testing.assert_allclose(complete(signs, {"f": f})["accuracy"], [[2 / 3, 1.0]])
    # An output of 0, or of rounding next to the largest, is right half of the time.
    for f, share in (([0.0, -1.0, -1.0], 2.5), ([1e-7, -1e3, 1e3], 1.5), ([1e-5, -1e3, 1e3], 2.0), ([1e-10] * 3, 1.5)):
        found = complete(signs, {"f": np.array(f)[None, None, :, None]})["accuracy"]
        np.testing.assert_allclose(found, [[share / 3]], err_msg=str(f))
    classes = make_problem(np.eye(3), "cross_entropy", x_test=np.eye(3)[:1], y_test=[[0.0, 1.0, 0.0]])
    f = np.array([[[[2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.1, 0.2]]]])
    found = complete(classes, {"f": f, "f_test": np.array([[[[0.0, 0.5, 0.4]]]])})
    np.testing.assert_allclose(found["accuracy"], [[2 / 3]])
    np.testing.assert_allclose(found["test_accuracy"], [[1.0]])


def test_frames_that_are_read_are_points_of_their_own():
    """Two points and frames, of which one has no target; every number by a plain loop over (point, frame)."""
    y = np.array([[1.0, -1.0], [np.nan, 1.0]])
    data = wf.Dataset(np.zeros((2, 2, 1)), y, np.zeros((2, 2, 1)), y[::-1])
    problem = wf.Problem(data, wf.RNN(readout="every"), "gd", 1.0, wf.Training(1, 0.1))
    rng = np.random.default_rng(2)
    f, f_test = rng.standard_normal((2, 2, 2))
    entk, phi = rng.standard_normal((2, 2, 2, 2, 2))  # (P, P, T, T)
    g, mixed, tilde = rng.uniform(1, 2, (3, 2, 2, 2, 2, 2, 2))  # (P, P, T, T, R, R)
    arrays = {"f": f[..., None], "f_test": f_test[..., None], "entk": entk[..., None, None], "phi": phi[None],
              "g": g[None, ..., None, None], "g_tilde": mixed[None, ..., None, None],
              "g_tilde_tilde": tilde[None, ..., None, None]}  # fmt: skip
    made = complete(problem, {name: value[None, None] for name, value in arrays.items()})
    found = {name: value[0, 0] for name, value in made.items()}
    taught = [(0, 0), (0, 1), (1, 1)]
    assert found["loss"] == pytest.approx(sum(0.5 * (f[at] - y[at]) ** 2 for at in taught))
    assert found["accuracy"] == pytest.approx(np.mean([np.sign(f[at]) == y[at] for at in taught]))
    delta = [[y[p, t] - f[p, t] if (p, t) in taught else 0.0 for t in range(2)] for p in range(2)]
    np.testing.assert_allclose(found["delta"][..., 0], delta)
    asked = [(0, 1), (1, 0), (1, 1)]
    assert found["test_loss"] == pytest.approx(sum(0.5 * (f_test[at] - y[::-1][at]) ** 2 for at in asked))
    assert found["test_accuracy"] == pytest.approx(np.mean([np.sign(f_test[at]) == y[::-1][at] for at in asked]))
    rows = np.array([[entk[p, q, t, s] for q, s in taught] for p, t in taught])
    target = np.array([[y[at]] for at in taught])
    assert found["entk_alignment"] == pytest.approx(alignment(rows, target))
    # Φ frame by frame, of the points that have a target there.
    expected = [alignment(phi[:1, :1, 0, 0], y[:1, :1]), alignment(phi[:, :, 1, 1], y[:, 1:])]
    np.testing.assert_allclose(found["phi_alignment"][0], expected)
    for t, r in itertools.product(range(2), repeat=2):
        own = [kernel[p, p, t, t, r, r] for p in range(2) for kernel in (mixed, g, tilde)]
        cosines = [own[3 * p] / math.sqrt(own[3 * p + 1] * own[3 * p + 2]) for p in range(2)]
        assert found["gradient_cosine"][0, t, r] == pytest.approx(np.mean(cosines))


# Several runs


def test_extrapolation_is_twice_the_whole_less_the_half():
    whole, half = (
        {"f": np.array([1.0, 2.0]), "h_final": np.ones(3)},
        {"f": np.array([1.5, 2.5]), "h_final": np.zeros(2)},
    )
    found = extrapolated(whole, half)
    np.testing.assert_allclose(found["f"], [0.5, 1.5])
    np.testing.assert_allclose(found["h_final"], np.ones(3))


def test_relative_error_by_hand():
    # Standard errors over 4 runs of ±1: 2/√3/2; relative to the root mean square of f at its largest.
    f = np.array([1.0, -1.0, 1.0, -1.0])[:, None, None, None] + np.full((4, 2, 3, 1), 10.0)
    assert relative_error({"f": f}) == pytest.approx((2 / math.sqrt(3)) / 2 / 10, rel=0.02)
