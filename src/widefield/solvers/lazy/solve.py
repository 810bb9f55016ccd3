"""`method="lazy"`: the problem's own discrete training as γ₀ → 0, labelled like every other solver's answer."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ...errors import InputError, require, require_integer, require_number
from ...precision import double_precision
from ...problem.problem import Problem
from ...problem.training import recorded_steps
from ...progress import Progress
from ...results.derived import complete, derive
from ...results.result import Result, make_result
from ...rules.rule import Site
from .dynamics import check_length, follow_steps
from .kernels import problem_kernels
from .predict import check_static, make_drive, per_point

RECORDED = ("entk", "phi", "g", "g_tilde", "g_tilde_tilde")


@double_precision
def solve_lazy(
    problem: Problem,
    *,
    record: Sequence[str] | None = None,
    every: int = 1,
    accuracy: float = 1e-8,
    progress: bool | Progress | None = False,
) -> Result:
    """Train with static kernels, in the training's own steps; the richness of the problem plays no part.

    Args:
        problem: data, network, rule and training.
        record: kernels to store, from entk, phi, g, g_tilde, g_tilde_tilde; default all (with several outputs phi).
            They do not depend on time and are stored at every recorded time all the same, as by other solvers.
        every: record every k-th step.
        accuracy: largest relative error of a Gaussian average.
        progress: as in `wf.solve`, but silent by default.
    """
    require(isinstance(problem, Problem), "problem", type(problem).__name__, "a widefield.Problem")
    require_integer("every", every, 1)
    require_number("accuracy", accuracy, "a number above 0, up to 0.1", above=0, at_most=0.1)
    check_static(problem)
    wanted = _wanted(problem, record)
    check_length(problem, problem.training.steps)
    training, outputs = problem.training, len(problem.data.all_x) * problem.wiring.reads
    f = follow_steps(make_drive(problem, accuracy, progress), outputs, training, 0.0, training.steps)
    steps = recorded_steps(training.steps, every)
    exact = {name: value[0] for name, value in derive(problem, {"f": per_point(problem, f[steps])[None]}).items()}
    if wanted:
        static = _static(problem, wanted, accuracy)
        exact |= {name: np.broadcast_to(value, (len(steps), *np.shape(value))) for name, value in static.items()}
    return make_result(problem, "lazy", exact=exact, steps=steps, info={"steps": training.steps})


def _wanted(problem: Problem, record: Sequence[str] | None) -> tuple[str, ...]:
    known = _has_g_tilde_tilde(problem)
    if record is None:
        if problem.outputs * problem.wiring.reads > 1:
            return ("phi",)
        return RECORDED if known else RECORDED[:-1]
    allowed = f"names from {', '.join(RECORDED)}"
    record = (record,) if isinstance(record, str) else record
    require(isinstance(record, (Sequence, set, frozenset)), "record", record, allowed)
    for name in record:
        require(isinstance(name, str) and name in RECORDED, "record", name, allowed)
    if "g_tilde_tilde" in record and not known:
        raise InputError(
            f"record has g_tilde_tilde, which the lazy limit knows only for rules g̃ = φ̇⊙signal in an MLP, not for "
            f"{problem.rule!r}; allowed: {', '.join(RECORDED[:-1])}"
        )
    return tuple(record)


def _has_g_tilde_tilde(problem: Problem) -> bool:
    """Whether every layer's g̃ is φ̇⊙signal, tried out on numbers."""
    values = [jnp.linspace(-2.0, 1.7, 9) + 0.1 * k for k in range(7)]
    site = Site(*values)
    for rule in problem.layer_rules:
        same = jnp.array_equal(jnp.broadcast_to(rule.local(site), (9,)), site.phi_dot * site.signal)
        if not (rule.feedback.chained or rule.feedback.direct) or not bool(same):
            return False
    return not problem.wiring.layout.grid


def _static(problem: Problem, wanted: tuple[str, ...], accuracy: float) -> dict[str, np.ndarray]:
    """Kernels of the training points with output axes, and what follows from them."""
    points, layered = problem.data.points, problem.wiring.feed_forward
    outputs = {"g_tilde_tilde": ("phi_dot",)} if layered else {}
    asked = {need for name in wanted for need in outputs.get(name, (name,))}
    raw = problem_kernels(problem, tuple(sorted(asked)), accuracy, False)
    kernels = {name: value[:points] if name == "entk" else value[:, :points] for name, value in raw.items()}
    kernels = {name: _over_positions(problem, name, value) for name, value in kernels.items()}
    if "g_tilde_tilde" in wanted and layered:
        kernels["g_tilde_tilde"] = _g_tilde_tilde(problem, kernels["phi_dot"])
    identity = np.eye(problem.outputs)
    with_outputs = {
        name: kernels[name] if name == "phi" else kernels[name][..., None, None] * identity for name in wanted
    }
    found = complete(problem, {name: value[None, None] for name, value in with_outputs.items()})
    return {name: value[0, 0] for name, value in found.items()}


def _over_positions(problem: Problem, name: str, value: np.ndarray) -> np.ndarray:
    """A CNN's per-layer kernels at equal positions: Φ averaged, gradients summed, as the engine records them."""
    layout = problem.wiring.layout
    if name == "entk" or not layout.grid:
        return value
    if layout.pooled:
        value = np.einsum("lmnaa->lmna", value.reshape(*value.shape[:3], layout.positions, layout.positions))
    value = value.reshape(*value.shape[:3], -1)
    return value.mean(-1) if name in ("phi", "phi_dot") else value.sum(-1)


def _g_tilde_tilde(problem: Problem, phi_dot: np.ndarray) -> np.ndarray:
    """G̃̃^ℓ = Φ̇^ℓ ∘ G̃̃^{ℓ+1} (Φ̇^ℓ where the signal comes straight from the output), for ℓ = 1..L."""
    rules, stages = problem.layer_rules, problem.wiring.stages
    found: list[np.ndarray] = []
    for index in reversed(range(len(rules))):
        feedback = rules[index].feedback
        own = phi_dot[index] * (1.0 if feedback.direct or not found else found[0])
        if found and feedback.chained:
            own = own + stages[index + 1].carry ** 2 * found[0]
        found.insert(0, own)
    return np.stack(found)
