"""Has 1/N set in? N times the shift and N times the variance must not depend on N.

All entries of a variable are put into one number per network, so that few networks are enough. The shift is measured
along b/C, taken from the other half of the networks: along a direction fitted to the same networks, noise would count
as shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc


class Onset(NamedTuple):
    """By width: N·shift along its direction and N·variance, both relative to their mean over widths, with errors.

    `chance_shift` and `chance_variance` are probabilities of so large differences between widths if there were none.
    """

    shift: np.ndarray
    shift_error: np.ndarray
    variance: np.ndarray
    variance_error: np.ndarray
    chance_shift: float
    chance_variance: float


def find_onset(anchor: np.ndarray, groups: Mapping[int, np.ndarray], variance: np.ndarray) -> Onset:
    """`anchor` (replicates, entries) at infinite width, `groups` (networks, entries) by width, C (entries)."""
    moving = variance > 0
    if not moving.any():
        empty = np.full(len(groups), np.nan)
        return Onset(empty, empty, empty, empty, float("nan"), float("nan"))
    anchor, weight = anchor[:, moving], 1 / variance[moving]
    runs = {width: values[:, moving] for width, values in groups.items()}
    along, along_error, chance_shift = _shifts(anchor, runs, weight)
    spread, spread_error, chance_variance = _variances(runs, weight)
    return Onset(along, along_error, spread, spread_error, chance_shift, chance_variance)


def _shifts(
    anchor: np.ndarray, runs: Mapping[int, np.ndarray], weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    centre = anchor.mean(0)
    directions = []
    for half in (0, 1):
        total = sum(width * np.sum(values[half::2] - centre, axis=0) for width, values in runs.items())
        directions.append(weight * total / sum(len(values[half::2]) for values in runs.values()))
    widths = np.array(list(runs), float)
    found, covariance = np.zeros(len(runs)), np.zeros((len(runs), len(runs)))
    for i, (width, values) in enumerate(runs.items()):
        projected = np.empty(len(values))
        for half in (0, 1):
            projected[half::2] = width * (values[half::2] - centre) @ directions[1 - half]
        found[i] = projected.mean()
        covariance[i, i] = projected.var(ddof=1) / len(projected)
    if len(anchor) > 1:
        of_anchor = (anchor - centre) @ (directions[0] + directions[1]) / 2
        covariance += np.outer(widths, widths) * of_anchor.var(ddof=1) / len(anchor)
    freedom = sum(len(values) - 1 for values in runs.values())
    return _relative(found, covariance, freedom)


def _variances(runs: Mapping[int, np.ndarray], weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    found, errors = np.zeros(len(runs)), np.zeros(len(runs))
    for i, (width, values) in enumerate(runs.items()):
        count = len(values)
        own = width * np.mean((values - values.mean(0)) ** 2 * weight, axis=1) * count / (count - 1)
        found[i], errors[i] = own.mean(), own.std(ddof=1) / np.sqrt(count)
    freedom = sum(len(values) - 1 for values in runs.values())
    if not np.all(found > 0):  # nothing fluctuates
        return found, errors, float("nan")
    # By logarithms: a variance that is far too large is known as much worse, and would not count.
    logs, log_errors, chance = _compared(np.log(found), np.diag((errors / found) ** 2), freedom)
    return np.exp(logs), np.exp(logs) * log_errors, chance


def _relative(found: np.ndarray, covariance: np.ndarray, freedom: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Values over their weighted mean, their errors, and the chance of such differences."""
    gap, errors, chance = _compared(found, covariance, freedom)
    mean = found[0] - gap[0]
    scale = abs(mean) if mean else 1.0
    return found / scale, errors / scale, chance


def _compared(found: np.ndarray, covariance: np.ndarray, freedom: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Differences from the weighted mean, errors of the values, and the chance of such differences (F test)."""
    errors = np.sqrt(np.diag(covariance))
    if not np.all(errors > 0):
        return found - found.mean(), errors, float("nan")
    inverse = np.linalg.inv(covariance)
    gap = found - inverse.sum(0) @ found / inverse.sum()
    among = len(found) - 1
    apart = float(gap @ inverse @ gap)
    return gap, errors, float(fdtrc(among, freedom, apart / among)) if among else float("nan")
