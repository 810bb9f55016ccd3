"""Variables that follow from the recorded ones: loss, alignments, cosines, accuracy."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from ..precision import double_precision
from ..problem.problem import Problem

_MADE_OF = ("f", "f_test", "entk", "phi", "g", "g_tilde", "g_tilde_tilde")


def derive(problem: Problem, arrays: dict[str, np.ndarray], steps: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Complete raw arrays of a solver, whose `f` (runs, times, samples[, reads], C) has training, then test points."""
    points, out = problem.recorded_points, dict(arrays)
    f = out.pop("f").astype(np.float64)
    out["f"] = f[:, :, :points]
    if problem.data.test_points:
        out["f_test"] = f[:, :, points:]
    return complete(problem, out, steps)


@double_precision
def complete(problem: Problem, arrays: dict[str, np.ndarray], steps: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Add what follows from the arrays and is not among them. Leading axes are (runs, times); output axes come last.

    A frame that is read counts as a point of its own, unless it has no target. Where every time has a batch of its own,
    `steps` say which.
    """
    if not problem.online:
        found = _following(problem, problem.targets, arrays)
    else:
        assert steps is not None
        given = {name: arrays[name] for name in _MADE_OF if name in arrays}
        targets = problem.targets[points_at(problem, steps)]
        each = [
            _following(problem, y, {name: value[:, k : k + 1] for name, value in given.items()})
            for k, y in enumerate(targets)
        ]
        found = {name: np.concatenate([one[name] for one in each], axis=1) for name in each[0]}
    return arrays | {name: value for name, value in found.items() if name not in arrays}


def points_at(problem: Problem, steps: np.ndarray) -> np.ndarray:
    """The training points of the batches that teach next at these steps, (times, batch)."""
    return problem.training.order(problem.data.points)[np.asarray(steps).astype(int)]


def _following(problem: Problem, targets: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What follows from arrays of points with these targets (P, reads, C)."""
    data, loss, outputs, reads = problem.data, problem.training.loss, problem.outputs, problem.wiring.reads
    y, all_y, out = targets.reshape(-1, outputs), problem.targets.reshape(-1, outputs), {}
    taught = ~np.isnan(y[:, 0])
    classes = outputs > 1 or bool(np.all(np.abs(all_y[~np.isnan(all_y[:, 0])]) == 1))
    if "f" in arrays:
        out["delta"], out["loss"] = _loss_and_delta(loss, arrays["f"], y)
        if classes:
            out["accuracy"] = accuracy(_rows(arrays["f"], outputs)[..., taught, :], y[taught])
    if "f_test" in arrays and data.y_test is not None:
        y_test = data.y_test.reshape(-1, outputs)
        known = ~np.isnan(y_test[:, 0])
        _, out["test_loss"] = _loss_and_delta(loss, arrays["f_test"], y_test)
        if classes:
            out["test_accuracy"] = accuracy(_rows(arrays["f_test"], outputs)[..., known, :], y_test[known])
    if "entk" in arrays:
        kernel = np.trace(arrays["entk"], axis1=-2, axis2=-1)  # (runs, times, P, P[, reads, reads])
        if reads > 1:
            kernel = np.swapaxes(kernel, 3, 4).reshape(*kernel.shape[:2], len(y), len(y))
        out["entk_alignment"] = alignment(kernel[..., taught, :][..., taught], y[taught])
    if "phi" in arrays:
        out["phi_alignment"] = _phi_alignment(problem, targets, arrays["phi"])
    if {"g", "g_tilde", "g_tilde_tilde"} <= arrays.keys():
        kernels = (arrays[name] for name in ("g", "g_tilde", "g_tilde_tilde"))
        out["gradient_cosine"] = mean_cosine(*(_diagonal(problem, kernel) for kernel in kernels))
    return out


def _rows(f: np.ndarray, outputs: int) -> np.ndarray:
    """(runs, times, points[, reads], C) with every read as a point of its own."""
    return f.reshape(*f.shape[:2], -1, outputs)


def _loss_and_delta(loss, f: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Δ in the shape of `f` (runs, times, …, C), 0 where there is no target, and the loss; y is (points·reads, C)."""
    taught = ~np.isnan(y[:, 0])
    rows = _rows(np.asarray(f, np.float64), y.shape[-1])
    # Run by run: one compiled program serves any number of them.
    found = [_of_run(loss, run[:, taught], y[taught]) for run in rows]
    delta = np.zeros_like(rows)
    delta[:, :, taught] = np.stack([np.asarray(one) for one, _ in found])
    return delta.reshape(f.shape), np.stack([np.asarray(total) for _, total in found])


@partial(jax.jit, static_argnames="loss")
def _of_run(loss, f: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Δ (times, P, C) and the loss (times,) of outputs f (times, P, C)."""
    return jax.vmap(lambda one: loss.delta(one, y))(f), jax.vmap(lambda one: loss.total(one, y))(f)


def _phi_alignment(problem: Problem, y: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """Alignment of Φ (runs, times, L, P, P[, frames, frames]), frame by frame with the targets of that frame.

    Where only the last frame is read, its targets are those of all frames.
    """
    if problem.wiring.feed_forward:
        return alignment(phi, y[:, 0])
    found = []
    for frame in range(phi.shape[-1]):
        target = y[:, frame if y.shape[1] > 1 else 0]
        taught = ~np.isnan(target[:, 0])
        found.append(alignment(phi[..., frame, frame][..., taught, :][..., taught], target[taught]))
    return np.stack(found, axis=-1)


def _diagonal(problem: Problem, kernel: np.ndarray) -> np.ndarray:
    """⟨gg⟩ and the like of a point, frame, read and output with itself, (runs, times, L[, frames][, reads], P, C)."""
    kernel = np.moveaxis(np.diagonal(kernel, axis1=3, axis2=4), -1, 3)  # (runs, times, L, P[, F, F][, R, R], C, C)
    if not problem.wiring.feed_forward:
        kernel = np.moveaxis(np.diagonal(kernel, axis1=4, axis2=5), -1, 3)
    if problem.wiring.reads > 1:
        kernel = np.moveaxis(np.diagonal(kernel, axis1=5, axis2=6), -1, 4)
    return np.diagonal(kernel, axis1=-2, axis2=-1)


def alignment(kernel: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosine similarity of kernels (…, P, P) with yyᵀ, y (P, C): tr(yᵀKy)/(|K|·|yyᵀ|)."""
    along = np.einsum("mc,...mn,nc->...", y, kernel, y)
    size = np.sqrt(np.sum(kernel**2, axis=(-2, -1))) * np.linalg.norm(y @ y.T)
    return np.divide(along, size, out=np.zeros_like(along), where=size > 0)


def mean_cosine(g: np.ndarray, mixed: np.ndarray, g_tilde: np.ndarray) -> np.ndarray:
    """Mean over points and outputs of ⟨g g̃⟩/√(⟨gg⟩⟨g̃g̃⟩), (…, P, C) each; 0 where there is no gradient."""
    size = np.sqrt(g * g_tilde)
    ratio = np.divide(mixed, size, out=np.zeros_like(size), where=size > 0)
    return ratio.mean((-2, -1))


def accuracy(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fraction of points whose class is right: largest output, or the sign of a single one."""
    if y.shape[1] > 1:
        return (f.argmax(-1) == y.argmax(-1)).mean(-1)
    # An output of 0, as at the start, is a guess: right half of the time. Rounding must not decide.
    small = 1e-9 * max(1.0, float(np.abs(f).max()))
    return np.where(np.abs(f[..., 0]) < small, 0.5, np.sign(f[..., 0]) == np.sign(y[:, 0])).mean(-1)
