"""From the accuracy that is asked for to particles, replicates and tolerance, mended on the way where need be."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field

import numpy as np

from ...engine.pilot import jumps
from ...engine.run import Outcome
from ...errors import AccuracyWarning, NotConvergedError, TooFewSamplesError
from ...problem.activations import LINEAR
from ...problem.problem import Problem
from .replicates import Replicates

FIRST_REPLICATES = 8  # 91 % are then within two standard errors of the truth, by Student's t
MOST_REPLICATES = 24  # beyond, more particles cost less: they also lower the O(1/S) bias
MOST_SAMPLES = 2**18
LONG = 60  # seconds; a run that starts again for longer says so at once, not only in the result's notes
# A direction below the square root of the rounding error is noise.
LOWEST_TOLERANCE = {"float64": 1e-7, "float32": 2e-3}
HIGHEST_TOLERANCE = 0.5
# The bias is at most about the square of the tolerance, also that of f, which is known several times better than the
# kernels: with 0.2·√accuracy it is a 25th of the accuracy, and error bars stay honest. With more rows a part of a
# question is shared by few of them, and f's bias is a smaller part of the square: a tenth with 100 of them
# (benchmarks/tolerance.py). tests/test_statistics.py shows that error bars stay honest in between.
TOLERANCE = 0.2
MANY_ROWS = 100  # √accuracy here, about as the root of their number below and in proportion above
BETWEEN = 0.8  # of that root: with 1, 89 % of f on 10 points were within two standard errors, with 0.8 94 %
LARGEST_SHARE = 1.0  # f of 1000 digits is off by 0.19 % with 1, by 0.64 % with 1.4; its error bars are 0.3 %
# What is lost of a question backward changes what the layers below learn, and f several times less than what is lost of
# a question forward (docs/engine.md). Recurrent networks, which lose it at every frame, were not measured.
# With many rows, gradients of a φ̇ that jumps have several times as many directions at 2 as at 2.8.
SLACK, SLACK_OF_MANY_ROWS, SLACK_OF_JUMPS = 1.5, 2.0, 2.8
JUDGED = ("f", "phi", "entk", "g")  # what the accuracy is about; others may vanish, and have no relative error


def default_tolerance(problem: Problem, accuracy: float, precision: str) -> float:
    """Relative size of the part of a question that may stay unasked; linear networks are solved to rounding."""
    if problem.network.activation == LINEAR:
        return LOWEST_TOLERANCE["float64"]
    rows = _rows(problem) / MANY_ROWS
    share = min(LARGEST_SHARE, max(TOLERANCE, BETWEEN * math.sqrt(rows), rows))
    return min(max(share * math.sqrt(accuracy), LOWEST_TOLERANCE[precision]), HIGHEST_TOLERANCE)


def default_slack(problem: Problem) -> float:
    """How much larger the tolerance of questions backward is than that of questions forward."""
    if problem.network.activation == LINEAR or not problem.wiring.feed_forward:
        return 1.0
    if _rows(problem) <= MANY_ROWS:
        return SLACK
    return SLACK_OF_JUMPS if jumps(problem.network.activation) else SLACK_OF_MANY_ROWS


def first_samples(problem: Problem) -> int:
    """Particles to begin with, by the number of rows."""
    return int(np.clip(_next(4 * _rows(problem)), 1024, 2048))


def _rows(problem: Problem) -> int:
    """Rows that a matrix is asked with in one pass."""
    wiring = problem.wiring
    frames = max([1, *(len(wiring.asks(matrix)) for matrix in range(wiring.matrices))])
    return len(problem.data.all_x) * wiring.layout.positions * frames


def relative_error(arrays: dict[str, np.ndarray], frames: bool = False) -> float:
    """Largest root-mean-square standard error of f and of the kernels over time, relative to their size.

    Kernels (…, P, P, frame, frame_) of a recurrent network are judged at equal frames, as those of layers are.
    """
    errors = [0.0]
    for name in JUDGED:
        if name in arrays:
            value = arrays[name]
            if frames and name in ("phi", "g"):
                value = np.diagonal(value, axis1=5, axis2=6)
            count, mean = len(value), value.mean(0, dtype=np.float64).astype(value.dtype)
            # Replicate by replicate: another array of all of them takes longer than the sums.
            spread = math.hypot(*(float(np.linalg.norm(one - mean)) for one in value)) / math.sqrt(count * (count - 1))
            size = float(np.linalg.norm(mean))
            errors.append(spread / size if size > 0 else 0.0)
    return max(errors)


@dataclass
class Aim:
    """How replicates are run until they are accurate; `notes` say what was changed on the way."""

    replicates: Replicates
    samples: int
    tolerance: float
    mends: bool  # whether the tolerance may be raised
    notes: list[str] = field(default_factory=list)

    def fixed(self, seeds: int) -> Outcome:
        """So many replicates with so many particles; the tolerance is raised where directions would not fit."""
        while True:
            try:
                return self.replicates.run(self.samples, range(seeds), self.tolerance)
            except TooFewSamplesError as error:
                if not self.mends or self.tolerance >= HIGHEST_TOLERANCE:
                    raise
                raised = min(1.5 * max(self.tolerance, 0.02), HIGHEST_TOLERANCE)
                self._note(
                    f"{error.directions} directions are too many for {self.samples} particles; went on with tolerance "
                    f"{raised:.2g}, not {self.tolerance:.2g} (samples={_next(4 * error.directions)} would keep it)"
                )
                self.tolerance = raised

    def accurate(self, accuracy: float) -> Outcome:
        """As many replicates, and if need be particles, as the relative standard error asks for."""
        while True:
            started = time.monotonic()
            outcome = self._first()
            for _ in range(3):
                error = relative_error(outcome.arrays, not self.replicates.problem.wiring.feed_forward)
                if error <= accuracy:
                    return outcome
                done = outcome.info["seeds"]
                wanted = math.ceil(1.05 * done * (error / accuracy) ** 2)
                if wanted > MOST_REPLICATES:
                    break
                more = range(done, max(wanted, done + 1))
                outcome = outcome + self.replicates.run(self.samples, more, self.tolerance, outcome.room)
            # The error falls as S^(−1/2) at worst; a dozen replicates will do.
            factor = max(2.0, min(wanted / 12, 16.0))
            if self.samples * factor > MOST_SAMPLES:
                raise NotConvergedError(
                    f"the relative error is {error:.2g} with {outcome.info['seeds']} replicates of {self.samples} "
                    f"samples, above {accuracy:g}; raise accuracy, or fix samples and seeds"
                )
            self._say_before_starting_again(outcome, error, factor, time.monotonic() - started)
            self.samples = _next(self.samples * factor)

    def _say_before_starting_again(self, outcome: Outcome, error: float, factor: float, seconds: float) -> None:
        f = outcome.arrays["f"].astype(np.float64)
        scatter = np.mean(f.var(0, ddof=1).reshape(f.shape[1], -1), axis=1)
        expected, done = factor * seconds, outcome.info["seeds"]
        self._note(
            f"the relative error is {error:.2g} with {done} replicates of {self.samples} particles, and that of f is "
            f"largest at time {np.argmax(scatter) + 1} of {len(scatter)}; starts again with "
            f"{_next(self.samples * factor)}, for some {expected:.0f} s (accuracy={error:.1g} asks for less; where the "
            "loss rises for a while, a lower dt helps)",
            warn=expected > LONG,
        )

    def _first(self) -> Outcome:
        # Twice as many particles as directions; what is expected has some room to spare.
        self.samples = _next(max(self.samples, 1.6 * self.replicates.directions(self.tolerance)))
        while True:
            try:
                return self.replicates.run(self.samples, range(FIRST_REPLICATES), self.tolerance)
            except TooFewSamplesError as error:
                if self.samples >= MOST_SAMPLES:
                    raise
                self.samples = _next(max(2.5 * error.directions, 2 * self.samples))
                self._note(f"{error.directions} directions or more; took {self.samples} particles", warn=False)

    def _note(self, text: str, warn: bool = True) -> None:
        self.notes.append(text)
        if warn:
            warnings.warn(text, AccuracyWarning, stacklevel=8)


def _next(number: float) -> int:
    return 2 ** math.ceil(math.log2(number))
