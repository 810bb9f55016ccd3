"""`wf.lazy.predict`: what a network of static kernels has learnt at any time."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ...errors import InputError, plain, require, require_flag, require_number
from ...precision import double_precision
from ...problem.arrays import real_array
from ...problem.losses import SQUARED
from ...problem.problem import Problem
from ...progress import Progress
from ...results.derived import derive
from ...results.growth import check_loss
from ...results.result import Result, make_result
from ...rules.rule import Rule
from .dynamics import Drive, check_length, follow_flow, follow_steps, taught_targets
from .flow import flow_outputs
from .kernels import problem_kernels


@double_precision
def predict(
    problem: Problem,
    times: Sequence[float] | np.ndarray,
    ridge: float = 0.0,
    *,
    discrete: bool = False,
    accuracy: float = 1e-8,
    progress: bool | Progress | None = False,
) -> Result:
    """Outputs on training and test points as γ₀ → 0 (the problem's own richness plays no part).

    Closed form for the squared loss, f(t) = K(K+r)⁻¹(1 − e^{−(K+r)t})y; an adaptive integrator for other losses.

    Args:
        problem: data, network, rule and training.
        times: training times, 0 or more; ∞ is allowed for the squared loss.
        ridge: r adds −r·f to df/dt; at t = ∞ kernel ridge regression.
        discrete: the training's own steps of size dt instead of gradient flow, with its momentum, integrator and
            batches; times are then multiples of dt.
        accuracy: largest relative error of a Gaussian average.
        progress: as in `wf.solve`, but silent by default.

    Returns:
        A `Result` with f, delta, loss, for test points f_test, and accuracies where targets are classes.
    """
    ridge, discrete, accuracy = plain(ridge), plain(discrete), plain(accuracy)
    wanted = _check(problem, times, ridge, discrete)
    require_number("accuracy", accuracy, "a number above 0, up to 0.1", above=0, at_most=0.1)
    by_delta = plain_teaching(problem)
    outputs = len(problem.data.all_x) * problem.wiring.reads
    if problem.training.loss == SQUARED and by_delta and not discrete:
        [(_, kernel)] = drive_kernels(problem, accuracy, progress)
        y, taught = taught_targets(problem)
        rows = kernel if taught.all() else kernel[:, taught]
        f = flow_outputs(rows[: len(y)][taught], rows, y[taught], wanted, ridge)
        how = "closed form"
    else:
        require(discrete or not np.any(np.isinf(wanted)), "times", "∞", "finite times for this loss and rule")
        drive = make_drive(problem, accuracy, progress)
        if discrete:
            steps = np.rint(wanted / problem.training.dt).astype(int)
            path = follow_steps(drive, outputs, problem.training, ridge, int(steps.max()))
            check_loss(derive(problem, {"f": per_point(problem, path)[None]})["loss"], np.arange(len(path)))
            f = path[steps]
            how = "steps"
        else:
            f = follow_flow(drive, outputs, wanted, ridge)
            how = "integrator"
    exact = {name: value[0] for name, value in derive(problem, {"f": per_point(problem, f)[None]}).items()}
    info = {"prediction": how, "ridge": ridge}
    return make_result(problem, "lazy", exact=exact, steps=wanted / problem.training.dt, info=info)


def drive_kernels(
    problem: Problem, accuracy: float, progress: bool | Progress | None
) -> list[tuple[int | None, np.ndarray]]:
    """Kernels (all outputs, training outputs) with the hidden layer whose `teach` drives each, or None for Δ."""
    depth = problem.network.depth
    if plain_teaching(problem):
        return [(None, _of_outputs(problem, problem_kernels(problem, ("entk",), accuracy, progress)["entk"]))]
    parts = [_of_outputs(problem, part) for part in problem_kernels(problem, ("parts",), accuracy, progress)["parts"]]
    return [(layer if layer <= depth else None, part) for layer, part in enumerate(parts, start=1)]


def _of_outputs(problem: Problem, kernel: np.ndarray) -> np.ndarray:
    """(points, P, R, R) as (points·R, P·R); a kernel of points where one output of each is read."""
    if problem.wiring.reads == 1:
        return kernel
    return kernel.swapaxes(1, 2).reshape(kernel.shape[0] * kernel.shape[2], -1)


def per_point(problem: Problem, f: np.ndarray) -> np.ndarray:
    """f (times, points·R, C) as (times, points, R, C), without the axis of R where it is 1."""
    reads = problem.wiring.reads
    return f if reads == 1 else f.reshape(len(f), -1, reads, f.shape[-1])


def make_drive(problem: Problem, accuracy: float, progress: bool | Progress | None) -> Drive:
    pairs = drive_kernels(problem, accuracy, progress)
    return Drive(problem, tuple((layer, jnp.asarray(kernel)) for layer, kernel in pairs))


def plain_teaching(problem: Problem) -> bool:
    """Whether every hidden layer is taught by Δ itself."""
    return all(type(rule).teach is Rule.teach for rule in problem.layer_rules)


def check_static(problem: Problem) -> None:
    """Refuse what makes the kernel move even as γ₀ → 0."""
    if problem.training.weight_decay > 0:
        raise InputError(
            f"weight_decay is {problem.training.weight_decay:g}, which shrinks the initial weights and so moves the "
            "kernel; allowed in the lazy limit: 0 (a ridge= of predict stays lazy)"
        )
    require(not problem.online, "evaluate", problem.training.evaluate, "'all' in the lazy limit, whose kernel has them")


def _check(problem: Problem, times: Sequence[float] | np.ndarray, ridge: float, discrete: bool) -> np.ndarray:
    require(isinstance(problem, Problem), "problem", type(problem).__name__, "a widefield.Problem")
    check_static(problem)
    wanted = np.atleast_1d(real_array("times", times, largest=np.inf))
    require(wanted.ndim == 1 and wanted.size > 0, "times", f"of shape {wanted.shape}", "one or more numbers")
    require(bool(np.all(wanted >= 0)), "times", times, "numbers, 0 or more")
    require_number("ridge", ridge, "a number, 0 or more", at_least=0)
    require_flag("discrete", discrete)
    if discrete:
        ratio = wanted / problem.training.dt
        whole = np.all(np.isfinite(ratio)) and np.allclose(ratio, np.rint(ratio), rtol=1e-9, atol=1e-9)
        require(bool(whole), "times", times, f"multiples of dt = {problem.training.dt:g} with discrete=True")
        check_length(problem, int(ratio.max()))
    elif problem.training.batch_size > 0:
        raise InputError(
            f"batch_size is {problem.training.batch_size}; allowed with gradient flow: 0 (all points), or discrete=True"
        )
    elif problem.training.momentum > 0:
        raise InputError(f"momentum is {problem.training.momentum:g}; allowed with gradient flow: 0, or discrete=True")
    return wanted
