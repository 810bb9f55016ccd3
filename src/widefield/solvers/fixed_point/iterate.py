"""Iterating to the fixed point, from the lazy kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import jax
import jax.numpy as jnp

from ...errors import DivergenceError, NotConvergedError, TooFewSamplesError
from ...problem.losses import Loss
from ...problem.problem import Problem
from .noise import LayerNoise, draw_noise
from .order import Order, empty_order, equal_times, hold_after
from .output import Setting, follow_kernels
from .plan import Plan, make_plan
from .sweep import Report, sweep

# A kernel that grows by more than this factor at some time makes later times start anew.
_JUMP = 3.0

Progress = Callable[[int, str], None]


@dataclass(frozen=True)
class Options:
    """How to iterate; the arguments of `solve_fixed_point`."""

    samples: int
    damping: float
    max_iterations: int
    convergence: float
    cutoff: float
    jacobian: bool


@dataclass
class History:
    """What happened: relative change, sampling error and seconds per iteration, and the rank of the fields."""

    change: list[float] = field(default_factory=list)
    sampling_error: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rank: int = 0

    def add(self, change: float, report: Report, seconds: float) -> None:
        self.change.append(change)
        self.sampling_error.append(report.sampling_error)
        self.seconds.append(seconds)
        self.rank = report.rank


@jax.jit
def relative_change(old: Order, new: Order) -> jax.Array:
    """Largest |new − old|_F/|new|_F over kernels and outputs.

    Responses are left out: in directions that the fields hardly have they are undetermined, and without effect.
    """
    pairs = [
        *zip(old.phi, new.phi, strict=True),
        *zip(old.g, new.g, strict=True),
        *zip(old.g_tilde_tilde, new.g_tilde_tilde, strict=True),
        (old.f, new.f),
    ]
    return jnp.max(jnp.stack([jnp.linalg.norm(a - b) / jnp.linalg.norm(b) for a, b in pairs]))


@partial(jax.jit, static_argnames=("plan", "loss"))
def advance(
    plan: Plan, loss: Loss, setting: Setting, old: Order, new: Order, damping: float, at_least: int
) -> tuple[Order, jax.Array]:
    """(1−β)·old + β·new up to the horizon, held from there on; also the horizon.

    A response measured on fields that hardly move in some direction can be huge, and is wrong, when the
    fields of the next iteration do move in it. Where a kernel has just grown by more than a factor,
    later times rest on wrong ones; the horizon is the last time before that, or `at_least`.
    """
    pairs = [*zip(old.phi, new.phi, strict=True), *zip(old.g, new.g, strict=True)]
    pairs += zip(old.g_tilde_tilde, new.g_tilde_tilde, strict=True)

    def small(a: jax.Array, b: jax.Array) -> jax.Array:
        before, after = (jnp.linalg.norm(equal_times(x, plan.grid), axis=(1, 2)) for x in (a, b))
        return after <= _JUMP * before

    calm = jnp.all(jnp.stack([small(a, b) for a, b in pairs]), axis=0)
    horizon = jnp.maximum(jnp.where(jnp.all(calm), plan.grid.steps, jnp.argmin(calm) - 1), at_least)
    new = hold_after(new, plan.grid, horizon)
    blended = jax.tree.map(lambda a, b: (1 - damping) * a + damping * b, old, new)
    return follow_kernels(plan, loss, setting, hold_after(blended, plan.grid, horizon), horizon), horizon


def start_from_lazy(
    problem: Problem, plan: Plan, setting: Setting, noise: tuple[LayerNoise, ...], options: Options
) -> Order:
    """Kernels at initialisation, held for all times, with the errors that they would lead to.

    At richness 0 nothing moves, so the iteration's own sweeps give the lazy kernels: upward sweeps fix
    all Φ first and then one more G each.
    """
    loss = problem.training.loss
    x = jnp.asarray(problem.data.x)
    error = loss.delta(jnp.zeros((plan.grid.points, 1)), setting.target[:, None])[:, 0]
    order = empty_order(plan, x @ x.T / x.shape[1], jnp.tile(error, (plan.grid.times, 1)))
    for _ in range(plan.depth):
        order, _ = sweep(plan, loss, options.jacobian, setting._replace(richness=0.0), noise, order)
        order = order._replace(f=jnp.zeros_like(order.f), delta=jnp.tile(error, (plan.grid.times, 1)))
    return follow_kernels(plan, loss, setting, hold_after(order, plan.grid, 0), 0)


def iterate(problem: Problem, options: Options, seed: int, run: int, progress: Progress) -> tuple[Order, History]:
    """The fixed point for one set of Gaussian numbers.

    The numbers are the same in every iteration, so that the map is deterministic: its change per
    iteration measures convergence and no noise, and, the equations being causal, undamped iteration ends
    after finitely many steps, earlier times first. The map's own sampling error is what remains; the
    iteration stops when the change is below `convergence` times that error.
    """
    plan = make_plan(problem)
    setting = Setting(problem.richness, problem.training.dt, jnp.asarray(problem.data.y_columns[:, 0]), options.cutoff)
    noise = draw_noise(plan, options.samples, seed, run)
    order = start_from_lazy(problem, plan, setting, noise, options)
    loss = problem.training.loss
    history = History()
    for iteration in range(options.max_iterations):
        began = perf_counter()
        new, report = sweep(plan, loss, options.jacobian, setting, noise, order)
        history.add(float(relative_change(order, new)), report, perf_counter() - began)
        progress(iteration + 1, f"change per iteration {history.change[-1]:.1e}")
        if history.change[-1] <= options.convergence * history.sampling_error[-1]:
            _check_directions(report, options)
            return new, history
        order, horizon = advance(plan, loss, setting, order, new, options.damping, iteration // (2 * plan.depth))
        if not jnp.all(jnp.isfinite(order.f)):
            raise DivergenceError(
                f"training leaves the finite numbers at step {int(horizon)} of {plan.grid.steps}; lower dt "
                f"(now {problem.training.dt:g}) or richness (now {problem.richness:g}), or raise samples "
                f"(now {options.samples})"
            )
    _check_directions(report, options)
    before = ", ".join(f"{change:.0e}" for change in history.change[-5:-1])
    raise NotConvergedError(
        f"max_iterations is {options.max_iterations}, after which the kernels still change by "
        f"{history.change[-1]:.1e} of their size (before: {before}), more than convergence × sampling error = "
        f"{options.convergence * history.sampling_error[-1]:.1e}; raise max_iterations, or lower damping if the "
        "changes do not fall, or raise convergence"
    )


def _check_directions(report: Report, options: Options) -> None:
    if report.overflow:
        raise TooFewSamplesError(
            f"samples is {options.samples}; the fields of a layer have more Gaussian directions than half of that; "
            f"raise samples, or raise tolerance (now {options.cutoff:g})"
        )
