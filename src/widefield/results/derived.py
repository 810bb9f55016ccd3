"""Variables that follow from the recorded ones: loss, alignments, cosines, accuracy."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from ..precision import double_precision
from ..problem.problem import Problem


def derive(problem: Problem, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Complete raw arrays of a solver, whose `f` (runs, times, samples, C) has training, then test points."""
    data, out = problem.data, dict(arrays)
    f = out.pop("f").astype(np.float64)
    out["f"] = f[:, :, : data.points]
    if data.test_points:
        out["f_test"] = f[:, :, data.points :]
    return complete(problem, out)


@double_precision
def complete(problem: Problem, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add what follows from the arrays and is not among them. Leading axes are (runs, times); output axes come last."""
    data, loss = problem.data, problem.training.loss
    y, out = data.y_columns, {}
    classes = data.outputs > 1 or bool(np.all(np.abs(y) == 1))
    if "f" in arrays:
        out["delta"], out["loss"] = _loss_and_delta(loss, arrays["f"], y)
        if classes:
            out["accuracy"] = accuracy(arrays["f"], y)
    if "f_test" in arrays and data.y_test is not None:
        y_test = data.y_test.reshape(data.test_points, -1)
        _, out["test_loss"] = _loss_and_delta(loss, arrays["f_test"], y_test)
        if classes:
            out["test_accuracy"] = accuracy(arrays["f_test"], y_test)
    if "entk" in arrays:
        out["entk_alignment"] = alignment(np.einsum("rtmncc->rtmn", arrays["entk"]), y)
    if "phi" in arrays:
        out["phi_alignment"] = alignment(arrays["phi"], y)
    if {"g", "g_tilde", "g_tilde_tilde"} <= arrays.keys():
        out["gradient_cosine"] = cosine(arrays["g"], arrays["g_tilde"], arrays["g_tilde_tilde"])
    return arrays | {name: value for name, value in out.items() if name not in arrays}


def _loss_and_delta(loss, f: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # Run by run: one compiled program serves any number of them.
    found = [_of_run(loss, run, y) for run in np.asarray(f, np.float64)]
    return np.stack([np.asarray(delta) for delta, _ in found]), np.stack([np.asarray(total) for _, total in found])


@partial(jax.jit, static_argnames="loss")
def _of_run(loss, f: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Δ (times, P, C) and the loss (times,) of outputs f (times, P, C)."""
    return jax.vmap(lambda one: loss.delta(one, y))(f), jax.vmap(lambda one: loss.total(one, y))(f)


def alignment(kernel: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosine similarity of kernels (…, P, P) with yyᵀ, y (P, C): tr(yᵀKy)/(|K|·|yyᵀ|)."""
    along = np.einsum("mc,...mn,nc->...", y, kernel, y)
    size = np.sqrt(np.sum(kernel**2, axis=(-2, -1))) * np.linalg.norm(y @ y.T)
    return np.divide(along, size, out=np.zeros_like(along), where=size > 0)


def cosine(g: np.ndarray, mixed: np.ndarray, g_tilde: np.ndarray) -> np.ndarray:
    """Mean over points and outputs of cos(g_μ, g̃_μ), from kernels (…, P, P, C, C)."""
    diagonals = [np.einsum("...mmcc->...mc", kernel) for kernel in (g, mixed, g_tilde)]
    size = np.sqrt(diagonals[0] * diagonals[2])
    ratio = np.divide(diagonals[1], size, out=np.zeros_like(size), where=size > 0)
    return ratio.mean((-2, -1))


def accuracy(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fraction of points whose class is right: largest output, or the sign of a single one."""
    if y.shape[1] > 1:
        return (f.argmax(-1) == y.argmax(-1)).mean(-1)
    # An output of 0, as at the start, is a guess: right half of the time. Rounding must not decide.
    small = 1e-9 * max(1.0, float(np.abs(f).max()))
    return np.where(np.abs(f[..., 0]) < small, 0.5, np.sign(f[..., 0]) == np.sign(y[:, 0])).mean(-1)
