"""Training with static kernels where there is no closed form: other losses, other teaching signals, discrete steps.

df/dt = Φ^L Δ + Σ_{ℓ<L} (G̃^{ℓ+1} ∘ Φ^ℓ) e^{ℓ+1}, with e = Δ unless the rule's `teach` says otherwise; training
points teach, all points follow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...errors import DivergenceError, NotConvergedError
from ...numerics.memory import check_memory
from ...problem.problem import Problem
from ...problem.training import Training


class Drive(NamedTuple):
    """df/dt of all outputs as a function of f: one kernel (all outputs, those of training points) per teaching signal.

    An output is a point, or a frame of a point where several are read; a frame without a target has no error.
    """

    problem: Problem
    kernels: tuple[tuple[int | None, Array], ...]  # (hidden layer that teaches, or None for Δ itself; kernel)

    def __call__(self, f: Array, batch: Array | None = None) -> Array:
        """`batch` says how often each training point teaches, (P, 1)."""
        problem, rules = self.problem, self.problem.layer_rules
        targets, taught = taught_targets(problem)
        y = jnp.asarray(targets)
        teaches = jnp.asarray(taught[:, None], y.dtype)
        if batch is not None:
            teaches = teaches * jnp.repeat(batch, problem.wiring.reads, axis=0)
        delta = problem.training.loss.delta(f[: len(y)], y)
        change = jnp.zeros_like(f)
        for layer, kernel in self.kernels:
            change += kernel @ (teaches * (delta if layer is None else rules[layer - 1].teach(delta, y)))
        return change


def taught_targets(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Targets (P·reads, C), any allowed one where there is none, and where there is one, (P·reads,)."""
    y = problem.targets.reshape(-1, problem.outputs)
    taught = ~np.isnan(y[:, 0])
    return np.where(taught[:, None], y, y[taught][0]), taught


def follow_flow(drive: Drive, points: int, times: np.ndarray, ridge: float) -> np.ndarray:
    """f at each (finite) time under gradient flow, (times, points, C), by an adaptive Runge–Kutta method."""
    import diffrax  # here, because it takes a second to import and few runs need it

    shape = (points, drive.problem.outputs)
    wanted, back = np.unique(times, return_inverse=True)
    if wanted[-1] == 0:
        return np.zeros((len(times), *shape))
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, f, args: drive(f) - ridge * f),  # type: ignore[arg-type]
        diffrax.Tsit5(),
        t0=0.0,
        t1=float(wanted[-1]),
        dt0=None,
        y0=jnp.zeros(shape),
        saveat=diffrax.SaveAt(ts=jnp.asarray(wanted)),
        stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-10),
        max_steps=1_000_000,
        throw=False,
    )
    f = np.asarray(solution.ys)
    if solution.result != diffrax.RESULTS.successful:
        raise NotConvergedError(
            f"gradient flow did not reach time {wanted[-1]:g} ({solution.result}); ask for shorter times"
        )
    if not np.all(np.isfinite(f)):
        raise DivergenceError("the outputs produced NaN or infinity; ask for shorter times")
    return f[back]


def check_length(problem: Problem, steps: int) -> None:
    """Refuse a run whose outputs at every step would not fit into memory."""
    data = problem.data
    size = (data.points + data.test_points) * data.outputs + (data.points if problem.training.batch_size else 0)
    check_memory(8 * 3 * (steps + 1) * size, f"a lazy run of {steps} steps", "lower steps, or ask for shorter times")


def follow_steps(drive: Drive, points: int, training: Training, ridge: float, steps: int) -> np.ndarray:
    """f before every step and after the last, (steps+1, points, C): what the engine reaches as γ₀ → 0."""
    dt, tau = training.dt, training.momentum
    start = jnp.zeros((points, drive.problem.outputs))
    batched = training.batch_size > 0
    batches = (
        jnp.asarray(replace(training, steps=steps).batches(drive.problem.data.points)) if batched and steps else None
    )

    def change(f: Array, before: Array, index: Array) -> tuple[Array, Array]:
        """The step's change of f, and what the next step has to know of this one."""
        force = drive(f, None if batches is None else batches[index][:, None]) - ridge * f
        if tau > 0:
            velocity = before + (dt / tau) * (force - before)
            return dt * velocity, velocity
        if training.integrator == "ab2":
            return dt * jnp.where(index == 0, force, 1.5 * force - 0.5 * before), force
        return dt * force, force

    def one(carry: tuple[Array, Array], index: Array) -> tuple[tuple[Array, Array], Array]:
        f, before = carry
        moved, after = change(f, before, index)
        return (f + moved, after), f + moved

    _, path = jax.lax.scan(one, (start, jnp.zeros_like(start)), jnp.arange(steps))
    f = np.concatenate([np.asarray(start)[None], np.asarray(path)])
    finite = np.all(np.isfinite(f), axis=(1, 2))
    if not finite.all():
        raise DivergenceError(
            f"training diverged at step {int(np.argmin(finite))} of {steps}; lower dt, which is {dt:g} "
            "(stable below 2 over the kernel's largest eigenvalue for the squared loss)"
        )
    return f
