"""`method="fixed_point"`: checks, replicates and the labelled result."""

from __future__ import annotations

import numpy as np

from ...errors import require, require_integer, require_number, require_one_of
from ...numerics.memory import check_memory
from ...problem.problem import Problem
from ...progress import Progress, make_progress
from ...results.derived import derive
from ...results.result import Result, make_result
from ..plain import require_plain
from .iterate import Options, iterate
from .observables import observe
from .plan import make_plan

RESPONSES = ("regression", "jacobian")


def solve_fixed_point(
    problem: Problem,
    *,
    samples: int = 1000,
    damping: float = 1.0,
    max_iterations: int | None = None,
    convergence: float = 0.01,
    tolerance: float = 0.01,
    responses: str = "regression",
    seeds: int = 2,
    seed: int = 0,
    progress: bool | Progress | None = None,
) -> Result:
    """The paper's Algorithm 1 (App. A): iterate Monte-Carlo estimates of all two-time kernels and responses.

    With n = (steps+1)·P an iteration costs O(L·S·n²) time and O(S·n + L·n²) memory; Jacobian responses
    cost O(L·S·n³). The result also holds the two-time kernels and the responses.

    Args:
        problem: data, network, rule, richness and training.
        samples: S, neurons sampled per layer.
        damping: β in (0, 1]; each iteration keeps 1−β of the old kernels.
        max_iterations: by default as many as causality can make necessary.
        convergence: stop when kernels and outputs change by less than this share of their sampling error.
        tolerance: a field at one time is drawn as a linear function of earlier ones when what is new in it
            is below this share of its standard deviation.
        responses: "regression" (Stein's lemma; right for every activation) or "jacobian" (per-sample
            Jacobians; less noise, but wrong at depth ≥ 2 where φ̇ jumps, as for ReLU).
        seeds: independent replicates; two or more give standard errors.
        seed: the same seed gives the same numbers.
        progress: as in `wf.solve`.

    Raises:
        NotConvergedError, DivergenceError, TooFewSamplesError: with what to change.
    """
    _check_problem(problem)
    require_integer("samples", samples, 8)
    require_number("damping", damping, "a number in (0, 1]", above=0, at_most=1)
    require_number("convergence", convergence, "a number above 0", above=0)
    require_number("tolerance", tolerance, "a number in [1e-6, 0.1]", at_least=1e-6, at_most=0.1)
    require_one_of("responses", responses, RESPONSES)
    require_integer("seeds", seeds, 1)
    require_integer("seed", seed, 0)
    if max_iterations is None:
        max_iterations = 4 * problem.network.depth * (problem.training.steps + 1)
    require_integer("max_iterations", max_iterations, 1)
    size = (problem.training.steps + 1) * problem.data.points
    needed = 8 * (samples * size + seeds * 8 * problem.network.depth * size**2)
    check_memory(needed, "method 'fixed_point'", "lower samples, seeds or steps, or use method 'mean_field'")

    options = Options(samples, float(damping), max_iterations, convergence, tolerance, responses == "jacobian")
    plan = make_plan(problem)
    replicates, histories = [], []
    with make_progress(progress) as bar:
        for run in range(seeds):

            def report(done: int, message: str, run: int = run) -> None:
                bar.update(run * max_iterations + done, seeds * max_iterations, f"replicate {run + 1}, {message}")

            order, history = iterate(problem, options, seed, run, report)
            replicates.append(observe(plan, order))
            histories.append(history)
        bar.update(1, 1, "done")
    steps = np.arange(plan.grid.times)
    return make_result(
        problem,
        "fixed_point",
        derive(problem, {name: np.stack([r[name] for r in replicates]) for name in replicates[0]}),
        steps=steps,
        seed=seed,
        info={
            "samples": samples,
            "seeds": seeds,
            "damping": damping,
            "tolerance": tolerance,
            "convergence": convergence,
            "responses": responses,
            "iterations": [len(h.change) for h in histories],
            "change": [h.change for h in histories],
            "sampling_error": [h.sampling_error[-1] for h in histories],
            "seconds_per_iteration": [float(np.median(h.seconds)) for h in histories],
            "rank": [h.rank for h in histories],
        },
        coordinates={"step": steps, "step_": steps, "inner_layer": np.arange(1, plan.depth)},
    )


def _check_problem(problem: Problem) -> None:
    where = "method 'fixed_point'"
    training = problem.training
    require_plain(problem, where)
    require(problem.data.outputs == 1, "y", f"{problem.data.outputs} outputs", f"one output with {where}")
    require(problem.data.x_test is None, "x_test", "given", f"None with {where}; use mean_field for test points")
    require(training.weight_decay == 0, "weight_decay", training.weight_decay, f"0 with {where}")
    require(training.momentum == 0, "momentum", training.momentum, f"0 with {where}")
    require(training.integrator == "euler", "integrator", training.integrator, f"'euler' with {where}")
