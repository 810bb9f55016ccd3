"""`wf.identify`: which learning rule did this?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError, require, require_integer, require_number
from ..measurement.observation import KINDS, Observation, layer_index
from ..numerics.memory import check_memory
from ..problem.problem import Problem
from ..progress import Progress
from .answer import Identification, decide
from .goodness import goodness, odds_of_none
from .likelihood import Fit, fit
from .model import Model
from .others import odds_of_others
from .parameters import Surface, surfaces
from .predictions import TIME_SCALE, Candidates, Design
from .preparing import candidates, check_scale, from_sweep, name_problems

FEWEST_NEURONS = 10


def identify(
    observed: Observation,
    candidates: Mapping[str, Problem] | Sequence[Problem] | Problem | Candidates | xr.Dataset,
    *,
    vary: Mapping[str, Any] | None = None,
    width: int | None = None,
    gain: float | None = None,
    time_scale: float | tuple[float, float] | None = None,
    kind: str | None = None,
    none: float = 0.05,
    level: float = 0.9,
    dt: float | None = None,
    networks: int = 16,
    others: bool | Mapping[str, Problem] | None = None,
    seed: int = 0,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Identification:
    """Which of some candidates made the observed kernels, or none of them?

    Observed kernels are Gaussian around theory (m + b/N) with the covariance of the recorded neurons, their noise and
    finite width; gain and time scale are fitted. Cost: that of `wf.candidates`, and seconds.

    Args:
        observed: from `wf.observe` and the like; its stimuli are the candidates' training points, in their order.
        candidates: problems by name, a list of them, one problem with `vary`, what `wf.candidates` made of them
            (reusable, and the only work that takes long), or the dataset of a sweep (`wf.sweep`), with `dt`.
        vary: with one problem, values of its fields, e.g. {"rule.rho": [0, 0.5, 1], "richness": [0.5, 1, 2]}. Numbers
            are also judged between these points.
        width: neurons per layer of the observed network, of which finite-width shift and fluctuations follow. Default:
            so many that they do not count. Needed where kernels are of all neurons.
        gain: of kernels against theory (the square of that of activity); default fitted.
        time_scale: how fast the observed network learns against the candidates: (slowest, fastest) to be fitted, or a
            number. Default: what `wf.candidates` was given, or (0.5, 2).
        kind: "kernel", or "rdm" to use dissimilarities only; default what was observed.
        none: prior probability that none of the candidates is right. They share the rest equally.
        level: of intervals.
        dt: training step of a sweep's dataset, which does not hold it.
        networks: per candidate, for fluctuations, where a width is given.
        others: rules outside the candidates that speak for "none of these", as in `wf.candidates`; default the usual
            ones, or what `wf.candidates` was given.
        seed: the same seed gives the same numbers.
        progress: as in `wf.solve`.
        options: options of `wf.solve`.

    Example:
        >>> found = wf.identify(wf.observe(activity, steps=[0, 10, 40]), {"gd": a, "fa": b}, width=1000)
        >>> found.posterior, found.summary()
    """
    require(isinstance(observed, Observation), "observed", type(observed).__name__, "what wf.observe makes of activity")
    kind = observed.kind if kind is None else kind
    require(kind in KINDS, "kind", kind, f"one of {', '.join(KINDS)}")
    observed.features(kind)  # says what is wrong with kernels of dissimilarities
    if gain is not None:
        require_number("gain", gain, "a number above 0, or None", above=0)
    require_number("none", none, "a probability below 1, 0 or more", at_least=0, at_most=1 - 1e-9)
    require_number("level", level, "a number between 0 and 1", above=0, at_most=1 - 1e-9)
    require_integer("seed", seed, 0)
    made = candidates.time_scale if isinstance(candidates, Candidates) else TIME_SCALE
    scales = check_scale(made if time_scale is None else time_scale)
    if observed.stages < 2 and scales[0] < scales[1]:
        raise InputError(
            f"stages is {observed.stages}, too few to fit the time scale; allowed: 2 or more, or time_scale=1"
        )
    prepared = _prepare(observed, candidates, vary, width, networks, others, scales, seed, progress, dt, options)
    if isinstance(candidates, xr.Dataset) and time_scale is None:
        reached = min(one.times[-1] for one in prepared.values()) / observed.steps[-1]
        scales = (scales[0], min(scales[1], max(reached, 1.0)))
    design = Design(observed.steps, observed.layers, kind, observed.stimuli)
    _check(observed, design, prepared, scales)
    return _answer(observed, design, prepared, scales, gain, none, level, seed)


def _prepare(
    observed: Observation, given: Any, vary: Any, width: int | None, networks: int, others: Any,
    scales: tuple[float, float], seed: int, progress: Any, dt: float | None, options: dict[str, Any],
) -> Candidates:  # fmt: skip
    made = isinstance(given, (Candidates, xr.Dataset))
    if made:
        require(vary is None, "vary", vary, "None where candidates are computed already")
        require(not options, "options", list(options), "none where candidates are computed already")
        require(others is None, "others", others, "None where candidates are computed already")
    if isinstance(given, Candidates):
        require(width in (None, given.width), "width", width, f"that of the candidates, {given.width}, or None")
        require(dt is None, "dt", dt, "None, unless candidates is the dataset of a sweep")
        same = given.steps is None or np.array_equal(given.steps, observed.steps)
        require(same, "steps", observed.steps, f"those that the candidates were made for, {given.steps}")
        return given
    if isinstance(given, xr.Dataset):
        require(width is None, "width", width, "None for a sweep; wf.candidates(problem, vary=…, width=…) takes one")
        return from_sweep(given, dt)
    for problem, _ in name_problems(given, vary).values():
        good = problem.data.points == observed.stimuli
        require(good, "observed", f"of {observed.stimuli} stimuli", f"the {problem.data.points} points of the problem")
    require(dt is None, "dt", dt, "None, unless candidates is the dataset of a sweep")
    scale = scales if scales[0] < scales[1] else scales[0]
    return candidates(given, observed.steps, vary=vary, width=width, networks=networks, time_scale=scale,
                      others=True if others is None else others, seed=seed, progress=progress, **options)  # fmt: skip


def _check(observed: Observation, design: Design, prepared: Candidates, scales: tuple[float, float]) -> None:
    check_memory(5 * 8 * design.size**2, "identify", "take fewer stimuli or stages")
    for name, one in {**prepared.others, **prepared}.items():
        needed, there = scales[1] * design.steps[-1], one.times[-1]
        if needed > there * (1 + 1e-9):
            raise InputError(
                f"time_scale goes up to {scales[1]:g}, which needs {needed:g} steps of {name}, and there are "
                f"{there:g}; allowed: up to {there / design.steps[-1]:.3g}"
            )
        good = one.stimuli == observed.stimuli
        require(good, "observed", f"of {observed.stimuli} stimuli", f"the {one.stimuli} training points of {name}")
        places = [layer_index(label, one.depth) for label in design.layers]
        require(len(set(places)) == len(places), "layers", design.layers, f"different layers of {name}")
    if observed.neurons is None:
        if prepared.width is None:
            raise InputError(
                "kernels are of all neurons, and width is not given; allowed: width= of the network, or neurons= of "
                "the observation"
            )
    elif prepared.width is not None:
        most = max(observed.neurons)
        require(most <= prepared.width, "width", prepared.width, f"at least the {most} recorded neurons of a layer")
    if observed.activity is not None:
        least = min(observed.neurons or ())
        require(
            least >= FEWEST_NEURONS, "neurons", least, f"{FEWEST_NEURONS} or more in each layer to tell rules apart"
        )
    elif any(one.particles is None for one in prepared.values()):
        raise InputError(
            "kernels without single neurons cannot be held against the dataset of a sweep; allowed: activity "
            "(wf.observe), or wf.candidates(problem, vary=…)"
        )


def _answer(
    observed: Observation, design: Design, prepared: Candidates, scales: tuple[float, float], gain: float | None,
    none: float, level: float, seed: int,
) -> Identification:  # fmt: skip
    predictions = list(prepared.values())
    model = Model(observed, design, predictions, prepared.width, scales, gain)
    value = model.projection @ model.value
    spreads = [model.spread(number) for number in range(len(predictions))]
    fixed = gain is not None
    fits = [fit(value, model.projected(number), model.scales, spread, fixed) for number, spread in enumerate(spreads)]
    found = surfaces(prepared, model, spreads, fixed)
    best = int(np.argmax([one.evidence for one in fits]))
    surface = _best_surface(found, fits, best)
    predicted, tangents = _best_prediction(model, best, fits[best], surface, fixed, scales)
    judged = goodness(model, best, spreads[best], predicted, tangents, seed)
    odds, outside = odds_of_none(judged.chance), None
    if prepared.others:
        of_others, outside = odds_of_others(observed, design, prepared, scales, gain)
        odds = (odds + of_others) / 2
    return decide(observed, prepared, model, spreads, fits, surface, predicted, judged, odds, outside, none, level)


def _best_surface(found: list[Surface], fits: list[Fit], best: int) -> Surface | None:
    return next((one for one in found if best in one.members), None)


def _best_prediction(
    model: Model, best: int, own: Fit, surface: Surface | None, gain_fixed: bool, scales: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The best fit to all features, and the directions in which it could still be moved."""
    if surface is None:
        coarse, gain, scale = model.means[best], own.best_gain, own.best_scale
        moved = np.zeros((0, model.design.size))
    else:
        members = np.stack([model.means[number] for number in surface.members])
        coarse, gain, scale = np.tensordot(surface.weights, members, 1), surface.best_gain, surface.best_scale
        at_scale = np.stack([_between(model.coarse, one, scale) for one in members])
        moved = surface.tangents @ at_scale
    predicted = gain * _between(model.coarse, coarse, scale)
    tangents = [moved]
    if not gain_fixed:
        tangents.append(predicted[None])
    if scales[0] < scales[1]:
        low, high = np.clip([scale * 0.99, scale * 1.01], *scales)
        change = _between(model.coarse, coarse, high) - _between(model.coarse, coarse, low)
        tangents.append(change[None])
    kept = np.concatenate(tangents)
    return predicted, kept[np.linalg.norm(kept, axis=1) > 0]


def _between(coarse: np.ndarray, values: np.ndarray, scale: float) -> np.ndarray:
    """Values (scale, feature) at one scale."""
    if len(coarse) == 1:
        return values[0]
    right = int(np.clip(np.searchsorted(coarse, scale), 1, len(coarse) - 1))
    share = (scale - coarse[right - 1]) / (coarse[right] - coarse[right - 1])
    return values[right - 1] + share * (values[right] - values[right - 1])
