"""Do two solvers agree? Single runs of each, networks of infinite width by extrapolation, and a test of every entry."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import jax
import numpy as np

import widefield as wf
from widefield.engine.interpretation import Interpretation, initialise
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.program import step
from widefield.engine.run import Recording
from widefield.engine.state import Inputs, Spec
from widefield.observables import DEFAULT_KERNELS as KERNELS
from widefield.results.statistics import Moments, moments_of, welch

Runs = dict[str, np.ndarray]  # single runs by variable, (runs, …)
WIDTHS = (100, 200)


def runs_of(result: wf.Result) -> Runs:
    """The single runs of a result, by variable."""
    return {str(name): values.values for name, values in result.replicates.data_vars.items()}


def wide_networks(
    problem: wf.Problem, seeds: int, record: tuple[str, ...] = KERNELS, widths: tuple[int, int] = WIDTHS
) -> Runs:
    """Dense networks of widths N and 2N extrapolated to N = ∞: `seeds` independent estimates of f and the kernels.

    Richardson: 2·(width 2N) − (width N) has no 1/N; of c₂/N² it leaves −c₂/(2N²).
    """
    recording = make_recording(problem, record, 1, 1)
    spec, inputs = prepare(problem, recording, "float64")
    steps = problem.training.steps
    small, large = (
        _dense_runs(spec, width, recording, steps, inputs, jax.random.split(jax.random.key(width), seeds))
        for width in widths
    )
    return {name: 2 * np.asarray(large[name]) - np.asarray(small[name]) for name in small}


@partial(jax.jit, static_argnames=("spec", "width", "record", "steps"))
def _dense_runs(spec: Spec, width: int, record: Recording, steps: int, inputs: Inputs, keys: jax.Array):
    """As `wf.simulate(…, engine="dense")`, without its overhead, which is most of the time of a small network."""

    def one(key: jax.Array):
        state = initialise(spec, Interpretation("dense", width), inputs, key, [])

        def advance(state, _):
            state, fields = step(spec, inputs, state)
            return state, record.measure(spec, inputs, fields)

        return jax.lax.scan(advance, state, None, steps + 1)[1]

    return jax.lax.map(one, keys)


def alarm(a: Mapping[str, np.ndarray | Moments], b: Mapping[str, np.ndarray | Moments]) -> tuple[str, float]:
    """Variable with the largest deviation, and a bound on the probability of one as large if both had the same mean.

    Welch's t test of every entry of every variable, times the number of entries (Bonferroni), whatever the
    correlations between entries. An entry is a mean over thousands of neurons, hence Gaussian. Entries that never
    vary (zeros, and what moment matching makes exact) must agree to rounding.
    """
    assert a.keys() == b.keys()
    found = {name: welch(_moments(a[name]), _moments(b[name])) for name in a}
    where = min(found, key=lambda name: found[name].smallest)
    return where, found[where].smallest * sum(agreement.entries for agreement in found.values())


def _moments(value: np.ndarray | Moments) -> Moments:
    return value if isinstance(value, Moments) else moments_of(value)
