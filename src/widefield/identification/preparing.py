"""`wf.candidates`: theory, and where a width is known networks, of every candidate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from ..errors import DivergenceError, InputError, require, require_integer, require_number
from ..measurement.kernels import pairs_of
from ..observables import Moment, Observable
from ..problem.arrays import real_array
from ..problem.problem import Problem
from ..progress import Progress
from ..simulation import simulate
from ..solvers.methods import solve
from ..sweeps.grid import make_grid
from .others import usual_problems
from .predictions import TIME_SCALE, Candidates, Prediction

MOST_STEPS = 10**7
RECORDS = 40  # recorded times, at least, between which kernels are interpolated
WIDEST = 500  # networks that stand for wider ones: C and b are scaled
PARTICLES = 500  # per replicate


def _single_neurons(moment: Moment) -> Any:
    return moment.phi[:, :, : moment.neurons]


NEURONS = Observable(
    "phi_particles", _single_neurons, ("time", "layer", "sample", "neuron"), "φ of some neurons", gradients=False,
    draws=True,
)  # fmt: skip


def candidates(
    problems: Mapping[str, Problem] | Sequence[Problem] | Problem,
    steps: ArrayLike,
    *,
    vary: Mapping[str, Any] | None = None,
    width: int | None = None,
    networks: int = 16,
    time_scale: float | tuple[float, float] = TIME_SCALE,
    others: bool | Mapping[str, Problem] = True,
    seed: int = 0,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Candidates:
    """Everything that `wf.identify` and `wf.power` need to know about candidates; reusable for many observations.

    Cost per candidate, and per rule outside: one solve and, with a width, `networks` networks.

    Args:
        problems: problems by name, a list of them, or one problem with `vary`.
        steps: training steps at which kernels are observed.
        vary: with one problem: values of its fields, as in `wf.sweep`, e.g. {"rule.rho": [0, 0.5, 1]}.
        width: neurons per layer of the observed network. Default: so many that finite width does not count.
        networks: networks of each candidate, from which shift b/N and covariance C/N come.
        time_scale: by how much learning may be slower or faster than the candidates say; a number fixes it.
        others: problems by name that are not candidates, but speak for "none of these" where they fit better. Default:
            the first candidate under the usual rules (GD, FA with ρ = 0 and 0.5, DFA, Hebb, GLN) that no candidate has;
            False for none.
        seed: the same seed gives the same numbers.
        progress: as in `wf.solve`.
        options: options of `wf.solve`, e.g. samples, seeds, accuracy.
    """
    named = name_problems(problems, vary)
    stages = check_stages(steps)
    scales = check_scale(time_scale)
    if width is not None:
        require_integer("width", width, 2)
    require_integer("networks", networks, 4)
    require_integer("seed", seed, 0)
    for name, (problem, _) in named.items():
        check_candidate(name, problem)
    outside = _problems_outside(others, {name: problem for name, (problem, _) in named.items()}, vary)

    def predict(problem: Problem, labels: dict[str, Any]) -> Prediction:
        return _predict(problem, labels, stages, scales[1], width, networks, seed, progress, options)

    made, known = {name: predict(problem, labels) for name, (problem, labels) in named.items()}, {}
    for name, problem in outside.items():
        # A usual rule that diverges, or does not run here, did not make the observation.
        with nullcontext() if isinstance(others, Mapping) else suppress(DivergenceError, InputError):
            known[name] = predict(problem, {})
    return Candidates(made, stages, width, scales, known)


def _problems_outside(
    others: Any, candidates: Mapping[str, Problem], vary: Mapping[str, Any] | None
) -> dict[str, Problem]:
    if isinstance(others, (bool, np.bool_)):
        return usual_problems(candidates.values(), vary) if others else {}
    require(isinstance(others, Mapping), "others", type(others).__name__, "True, False, or problems by name")
    points = next(iter(candidates.values())).data.points
    for name, problem in others.items():
        require(isinstance(problem, Problem), f"others[{name!r}]", type(problem).__name__, "a widefield.Problem")
        require(name not in candidates, "others", name, "names that candidates do not have")
        check_candidate(name, problem)
        allowed = f"the {points} points of the candidates"
        require(problem.data.points == points, f"others[{name!r}]", f"of {problem.data.points} points", allowed)
    return dict(others)


def name_problems(problems: Any, vary: Mapping[str, Any] | None) -> dict[str, tuple[Problem, dict[str, Any]]]:
    """Problems with their names and the values of swept fields."""
    if isinstance(problems, Problem):
        if vary is None:
            raise InputError("candidates is one problem; allowed: two or more, or one with vary={field: values}")
        grid = make_grid(problems, vary, solve, {})
        found = {
            grid.title(index): (
                cell.problem,
                {axis.field: axis.labels[i] for axis, i in zip(grid.axes, index, strict=True)},
            )
            for index, cell in grid.cells.items()
        }
    else:
        require(vary is None, "vary", vary, "None, unless there is one problem")
        if isinstance(problems, Mapping):
            listed = dict(problems)
        else:
            require(
                isinstance(problems, Sequence), "candidates", type(problems).__name__, "problems by name, or a list"
            )
            listed = _names(problems)
        found = {str(name): (problem, {}) for name, problem in listed.items()}
    require(len(found) > 0, "candidates", "empty", "one problem or more")
    for name, (problem, _) in found.items():
        require(isinstance(problem, Problem), f"candidates[{name!r}]", type(problem).__name__, "a widefield.Problem")
    return found


def _names(problems: Sequence[Problem]) -> dict[str, Problem]:
    names = [repr(problem.rule) if isinstance(problem, Problem) else str(k) for k, problem in enumerate(problems)]
    if len(set(names)) < len(names):
        names = [f"{name} #{k + 1}" for k, name in enumerate(names)]
    return dict(zip(names, problems, strict=True))


def check_candidate(name: str, problem: Problem) -> None:
    wiring = problem.wiring
    plain = wiring.feed_forward and wiring.layout.positions == 1
    require(plain, f"the network of {name}", problem.network, "an MLP")
    require(
        not problem.online, f"evaluate of {name}", problem.training.evaluate, "'all': stimuli are the same at all steps"
    )


def check_stages(steps: ArrayLike) -> np.ndarray:
    found = real_array("steps", steps)
    good = found.ndim == 1 and found.size > 0 and bool(np.all(found >= 0)) and bool(np.all(np.diff(found) > 0))
    require(good, "steps", steps, "training steps in increasing order, 0 or more")
    require(bool(found[-1] > 0), "steps", steps, "a stage after the start of training")
    require(bool(found[-1] <= MOST_STEPS), "steps", steps, f"at most {MOST_STEPS:,}")
    return found


def check_scale(time_scale: float | tuple[float, float]) -> tuple[float, float]:
    allowed = "a number above 0, or (slowest, fastest)"
    if not isinstance(time_scale, (tuple, list)):
        require_number("time_scale", time_scale, allowed, above=0)
        return float(time_scale), float(time_scale)
    require(len(time_scale) == 2, "time_scale", time_scale, allowed)
    for value in time_scale:
        require_number("time_scale", value, allowed, above=0)
    require(time_scale[0] < time_scale[1], "time_scale", time_scale, allowed)
    return float(time_scale[0]), float(time_scale[1])


def _predict(
    problem: Problem, labels: dict[str, Any], stages: np.ndarray, fastest: float, width: int | None, networks: int,
    seed: int, progress: bool | Progress | None, options: dict[str, Any],
) -> Prediction:  # fmt: skip
    last = math.ceil(stages[-1] * fastest)
    longer = dataclasses.replace(problem, training=dataclasses.replace(problem.training, steps=last))
    every = _every(stages, last)
    theory = solve(
        longer, record=["phi", NEURONS], every=every, neurons=PARTICLES, seed=seed, progress=progress, **options
    )
    first, second = pairs_of("kernel", problem.data.points)
    runs = theory.replicates["phi"].transpose("seed", "time", "layer", ...).values.astype(float)[..., first, second]
    times = theory["time"].values / problem.training.dt
    mean = runs.mean(0)
    errors = (runs - mean) / np.sqrt(len(runs) * (len(runs) - 1))
    nearest = [int(np.argmin(np.abs(times - step))) for step in stages]
    particles = theory["phi_particles"].values[nearest].astype(np.float32)
    if width is None:
        return Prediction(times, mean, errors, labels, None, particles)
    trained = min(width, WIDEST)
    nets = simulate(
        longer, trained, networks, seed=seed, every=every, record=["phi"], neurons=1, progress=progress
    ).replicates["phi"]  # fmt: skip
    nets = nets.transpose("seed", "time", "layer", ...).values[..., first, second]
    apart = nets - nets.mean(0)
    share = trained / width  # m + b/N with b = N'·(mean of networks of width N' − m)
    errors = np.concatenate([(1 - share) * errors, share * apart / np.sqrt(networks * (networks - 1))])
    mean = mean + share * (nets.mean(0) - mean)
    return Prediction(times, mean, errors, labels, np.sqrt(trained / (networks - 1)) * apart, particles)


def _every(stages: np.ndarray, last: int) -> int:
    """The coarsest recording that has every stage and enough times between them."""
    if np.any(stages != np.round(stages)):
        return 1
    common = math.gcd(*(int(step) for step in stages)) or 1
    return max((k for k in range(1, common + 1) if common % k == 0 and last // k >= RECORDS), default=1)


def from_sweep(dataset: xr.Dataset, dt: float | None) -> Candidates:
    """Means of a sweep's cells as candidates: no single neurons, no networks."""
    require("phi" in dataset and "status" in dataset, "candidates", "a dataset without phi", "what wf.sweep returns")
    if dt is None:
        raise InputError("dt is missing; a sweep's dataset does not hold the step of its training: give dt=")
    require_number("dt", dt, "a number above 0", above=0)
    fields = [str(dim) for dim in dataset["status"].dims]
    first, second = pairs_of("kernel", dataset.sizes["sample"])
    made = {}
    for cell in np.ndindex(*(dataset.sizes[name] for name in fields)):
        one = dataset.isel(dict(zip(fields, cell, strict=True)))
        if str(one["status"].values) != "ok":
            continue
        phi = one["phi"].transpose("time", "layer", ...).values
        times = one["training_time"].values if "training_time" in one else one["time"].values
        kept, layers = np.isfinite(phi[:, 0, 0, 0]) & np.isfinite(times), np.isfinite(phi[0, :, 0, 0])
        mean = phi[kept][:, layers][..., first, second]
        errors = np.zeros((0, *mean.shape))
        if "phi_se" in one:
            errors = one["phi_se"].transpose("time", "layer", ...).values[kept][:, layers][..., first, second][None]
        labels = {name: dataset[name].values[i].item() for name, i in zip(fields, cell, strict=True)}
        title = ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in labels.items())
        made[title] = Prediction(times[kept] / dt, mean, errors, labels)
    require(len(made) > 0, "candidates", "a sweep whose cells all failed", "one finished cell or more")
    return Candidates(made, None, None)
