"""Rules outside the candidates, for which "none of these" may stand.

A goodness of fit looks in all directions at once, and a neighbour of a candidate hides in it: gradient descent is told
from DFA by odds of e¹³ where both are candidates, and fits DFA well enough where only DFA is. So the usual rules are
predicted, too, and the evidence of those that are not candidates counts for "none of these".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..measurement.observation import Observation
from ..problem.problem import Problem
from ..rules import DFA, FA, GD, GLN, Hebb
from .likelihood import fit, log_sum
from .model import Model
from .parameters import surfaces
from .predictions import Candidates, Design

USUAL = (GD(), FA(0.0), FA(0.5), DFA(), Hebb(), GLN())


def usual_problems(problems: Iterable[Problem], vary: Mapping[str, Any] | None) -> dict[str, Problem]:
    """The first problem under every usual rule that no candidate has; a swept rule has all of its parameters."""
    listed = list(problems)
    swept = type(listed[0].rule) if any(name.startswith("rule.") for name in vary or ()) else None
    taken = [problem.rule for problem in listed]
    return {
        repr(rule): dataclasses.replace(listed[0], rule=rule)
        for rule in USUAL
        if rule not in taken and type(rule) is not swept
    }


def odds_of_others(
    observed: Observation, design: Design, candidates: Candidates, scales: tuple[float, float], gain: float | None
) -> tuple[float, str]:
    """Mean evidence of the rules outside over that of the candidates, and the best of those outside."""
    outside = candidates.others
    predictions = [*candidates.values(), *outside.values()]
    model = Model(observed, design, predictions, candidates.width, scales, gain)
    spreads = [model.spread(number) for number in range(len(predictions))]
    value, fixed = model.projection @ model.value, gain is not None
    evidence = np.array([
        fit(value, model.projected(number), model.scales, spread, fixed).evidence
        for number, spread in enumerate(spreads)
    ])  # fmt: skip
    inside, beyond = evidence[: len(candidates)], evidence[len(candidates) :]
    # Between the points of a sweep there may be a better fit than at any of them.
    families = surfaces(candidates, model, spreads, fixed)
    best = max(_log_mean(inside), *(_log_mean(one.log_evidence) for one in families), -np.inf)
    log_odds = float(np.clip(_log_mean(beyond) - best, -700, 700))
    return float(np.exp(log_odds)), list(outside)[int(np.argmax(beyond))]


def _log_mean(values: np.ndarray) -> float:
    return float(log_sum(values)) - np.log(values.size)
