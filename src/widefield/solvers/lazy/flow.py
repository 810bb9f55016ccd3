"""Gradient flow of static kernels on the squared loss, in closed form.

With f = K α and dα/dt = y − f − r α (r the ridge, 0 for plain flow), α(t) = a(t) y, a(t) = (K+r)⁻¹(1 − e^{−(K+r)t}).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from ...errors import DivergenceError


def flow_outputs(
    train: np.ndarray, rows: np.ndarray | None, y: np.ndarray, times: np.ndarray, ridge: float
) -> np.ndarray:
    """f at each time, (times, rows, C); O(P³).

    Args:
        train: K on the training points (P, P); need not be symmetric.
        rows: K of the rows whose f is wanted with the training points; None: `train`.
        times: from 0 to ∞.
    """
    rows = train if rows is None else rows
    symmetric = np.allclose(train, train.T, rtol=0, atol=1e-12 * np.max(np.abs(train)))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found below
        weights = _symmetric(train, y, times, ridge) if symmetric else _general(train, y, times, ridge)
        f = np.einsum("ij,tjc->tic", rows, weights, optimize=True)
    if not np.all(np.isfinite(f)):
        raise DivergenceError(
            "the outputs produced NaN or infinity: the kernel has negative directions; use shorter times"
        )
    return f


def _zero(size: float, points: int) -> float:
    """Below this an eigenvalue is rounding."""
    return 10 * points * np.finfo(float).eps * size


def _no_limit(lowest: float) -> DivergenceError:
    return DivergenceError(
        f"there is no limit at time ∞: the kernel has an eigenvalue of {lowest:.3g}, along which outputs grow without "
        "end; ask for finite times or add a ridge"
    )


def _symmetric(kernel: np.ndarray, y: np.ndarray, times: np.ndarray, ridge: float) -> np.ndarray:
    """α(t), (times, P, C), from the eigenvectors of K."""
    values, vectors = np.linalg.eigh((kernel + kernel.T) / 2)
    rates = values + ridge
    zero = _zero(np.max(np.abs(values)), len(values))
    if np.any(np.isinf(times)) and rates[0] < -zero:
        raise _no_limit(float(rates[0]))
    safe = np.where(np.abs(rates) > zero, rates, 1.0)
    along = vectors.T @ y
    out = np.empty((len(times), *y.shape))
    for index, t in enumerate(times):
        if np.isinf(t):
            # Along null directions of K nothing is learnt, on training and test points alike.
            a = np.where(np.abs(rates) > zero, 1.0 / safe, 0.0)
        else:
            a = np.where(np.abs(rates) > zero, -np.expm1(-safe * t) / safe, t)
        out[index] = vectors @ (a[:, None] * along)
    return out


def _general(kernel: np.ndarray, y: np.ndarray, times: np.ndarray, ridge: float) -> np.ndarray:
    """α(t) by matrix exponentials; O(P³) per time."""
    points = len(kernel)
    matrix = kernel + ridge * np.eye(points)
    out = np.empty((len(times), *y.shape))
    for index, t in enumerate(times):
        if np.isinf(t):
            rates = np.linalg.eigvals(matrix).real
            if np.min(rates) < -_zero(np.max(np.abs(rates)), points):
                raise _no_limit(float(np.min(rates)))
            out[index] = np.linalg.lstsq(matrix, y, rcond=_zero(1.0, points))[0]
        else:
            # The upper right block of this exponential is ∫₀ᵗ e^{−Ms} ds, also where M has no inverse.
            block = np.zeros((2 * points, 2 * points))
            block[:points, :points], block[:points, points:] = -matrix * t, np.eye(points) * t
            out[index] = scipy.linalg.expm(block)[:points, points:] @ y
    return out
