"""`method="linear"`: infinite-width training of linear networks to rounding, for every rule that is linear."""

from __future__ import annotations

import numpy as np

from ...errors import InputError, require, require_flag
from ...numerics.memory import check_memory
from ...problem.activations import LINEAR
from ...problem.problem import Problem
from ...progress import Progress, make_progress
from ...results.derived import derive
from ...results.result import Result, make_result
from ..plain import require_plain
from .coefficients import local_coefficients
from .march import March, Trajectory
from .recurrent import RecurrentMarch


def solve_linear(problem: Problem, *, two_time: bool = False, progress: bool | Progress | None = None) -> Result:
    """Solve a linear MLP of any depth, or RNN, at infinite width, without sampling (App. E, in discrete time).

    Works for every rule whose g̃ is linear in the preactivation and the signal: GD, FA, DFA, Hebb, and GLN, whose gates
    are all 1 here. Cost O(L·(P·steps)³·C³/steps), memory O(L·(P·C·steps)²). Of an RNN, every Gaussian that fields have
    used counts: O(rank²·P·T) a step.

    Args:
        problem: data, network, rule, richness and training.
        two_time: also store two-time kernels and the responses A, B, C, D (one output only).
        progress: as in `wf.solve`.
    """
    _check(problem, two_time)
    if not problem.wiring.feed_forward:
        return _solve_recurrent(problem, progress)
    with make_progress(progress) as bar:
        trajectory = March(problem).run(bar)
    times = trajectory.sizes.times
    exact = {name: value[0] for name, value in derive(problem, _recorded(trajectory)).items()}
    coordinates: dict[str, np.ndarray] = {}
    if two_time:
        exact |= _two_time(trajectory)
        coordinates = {"step": np.arange(times), "step_": np.arange(times)}
        if problem.network.depth > 1:
            coordinates["inner_layer"] = np.arange(1, problem.network.depth)
    return make_result(
        problem, "linear", exact=exact, steps=np.arange(times), info={"steps": times - 1}, coordinates=coordinates
    )


def _solve_recurrent(problem: Problem, progress: bool | Progress | None) -> Result:
    with make_progress(progress) as bar:
        arrays = RecurrentMarch(problem).run(bar)
    if problem.wiring.reads == 1:
        arrays["f"] = arrays["f"][:, :, 0]
    exact = {name: value[0] for name, value in derive(problem, {n: a[None] for n, a in arrays.items()}).items()}
    steps = np.arange(problem.training.steps + 1)
    return make_result(problem, "linear", exact=exact, steps=steps, info={"steps": problem.training.steps})


def closes(problem: Problem) -> bool:
    """Whether `solve_linear` takes this problem."""
    try:
        _check_closure(problem)
    except InputError:
        return False
    return True


def _check(problem: Problem, two_time: bool) -> None:
    network, data = problem.network, problem.data
    _check_closure(problem)
    require_flag("two_time", two_time)
    require(not (two_time and data.outputs > 1), "two_time", two_time, "False where there is more than one output")
    if not problem.wiring.feed_forward:
        require(not two_time, "two_time", two_time, "False for a recurrent network")
        frames, points = len(problem.wiring.stages), data.points
        kept = 5 * (points * frames) ** 2 * (problem.training.steps + 1)
        check_memory(8 * kept, "method 'linear'", "lower steps, or use method 'mean_field'")
        return
    entries = (problem.training.steps + 1) * data.points * data.outputs
    # Kernels, and coefficients of two fields on two sources, or of three on four.
    arrays = 4 + (4 if all(rule.is_gradient for rule in problem.layer_rules) else 12)
    check_memory(8 * arrays * network.depth * entries**2, "method 'linear'", "lower steps, or use method 'mean_field'")


def _check_closure(problem: Problem) -> None:
    network, where = problem.network, "method 'linear'"
    if problem.wiring.populations == 1 and len(problem.wiring.stages) > 1:
        for rule in problem.layer_rules:
            made = rule.feedback.entrywise is None and not rule.feedback.uses & {"mirror"}
            allowed = f"with {where}: rules whose feedback is made of W(t), W(0) and a fixed matrix"
            require(made, "rule", rule, allowed)
    else:
        require_plain(problem, where)
    require(network.activation == LINEAR, "activation", network.activation, f"'linear' with {where}")
    targets = problem.targets.reshape(-1, problem.outputs)
    targets = targets[~np.isnan(targets[:, 0])]
    error = np.asarray(problem.training.loss.delta(np.zeros_like(targets), targets))  # type: ignore[arg-type]
    for rule in problem.layer_rules:
        local_coefficients(rule, error, targets)


def _recorded(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """Equal-time kernels with leading axes (1, times), output axes last, and f of all points."""
    sizes = trajectory.sizes
    forward, backward = (sizes.times, sizes.points), (sizes.times, sizes.points, sizes.outputs)

    def equal_times(name: str) -> np.ndarray:
        kernels = [getattr(layer.kernels, name) for layer in trajectory.layers]
        if name == "phi":
            return np.stack([np.einsum("tmtn->tmn", k.reshape(forward * 2)) for k in kernels], axis=1)
        return np.stack([np.einsum("tmctnd->tmncd", k.reshape(backward * 2)) for k in kernels], axis=1)

    phi, g_tilde = equal_times("phi"), equal_times("g_tilde")
    inputs = np.broadcast_to(trajectory.input_kernel[: sizes.points], (sizes.times, 1, sizes.points, sizes.points))
    readout = np.broadcast_to(
        np.eye(sizes.outputs), (sizes.times, 1, sizes.points, sizes.points, *(sizes.outputs,) * 2)
    )
    features, gradients = np.concatenate([inputs, phi], 1), np.concatenate([g_tilde, readout], 1)
    arrays = {
        "f": trajectory.f,
        "entk": np.einsum("tlmn,tlmncd->tmncd", features, gradients),
        "phi": phi,
        "g": equal_times("g"),
        "g_tilde": g_tilde,
        "g_tilde_tilde": equal_times("g_tilde_tilde"),
    }
    return {name: value[None] for name, value in arrays.items()}


def _two_time(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """Two-time kernels (layer, step, step_, sample, sample_), and responses of layers 1 … L−1.

    Where the signal comes from the true gradient there is no v apart from r: C is 0 there, and D is B.
    """
    layers, sizes = trajectory.layers, trajectory.sizes
    shape = (sizes.times, sizes.points) * 2

    def unfold(matrix: np.ndarray) -> np.ndarray:
        return matrix.reshape(shape).transpose(0, 2, 1, 3)

    names = ("phi", "g", "g_tilde", "g_tilde_tilde")
    out = {f"{name}_two_time": np.stack([unfold(getattr(x.kernels, name)) for x in layers]) for name in names}
    if len(layers) > 1:
        zero = np.zeros((sizes.times * sizes.points,) * 2)
        inner, upper = layers[:-1], layers[1:]
        out["response_a"] = np.stack([unfold(x.fields["h"]["r"]) for x in inner])
        out["response_b"] = np.stack([unfold(x.fields["g"]["u"]) for x in upper])
        if any("v" in x.width for x in inner):
            out["response_c"] = np.stack([unfold(x.fields["h"].get("v", zero)) for x in inner])
            out["response_d"] = np.stack([unfold(x.fields["g_tilde"]["u"]) for x in upper])
    return out
