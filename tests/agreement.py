"""Do two solvers agree? Single runs of each, networks of infinite width by extrapolation, and a test of every entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import widefield as wf
from widefield.engine.interpretation import Interpretation, initialise
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.program import step
from widefield.engine.run import Recording
from widefield.engine.state import Inputs, Spec
from widefield.observables import DEFAULT_KERNELS as KERNELS
from widefield.results.result import make_result

Runs = dict[str, np.ndarray]  # single runs by variable, (runs, …)
SOLVERS = ("mean_field", "fixed_point.solve")
WIDTHS = (100, 200)


def single_runs(solve: Callable[[], object]) -> Runs:
    """The single runs of a call of `wf.solve`, of which its result holds mean and standard error."""
    kept: Runs = {}

    def keep(problem, method, arrays, **labels):
        kept.update(arrays)
        return make_result(problem, method, arrays, **labels)

    with ExitStack() as stack:
        for name in SOLVERS:
            stack.enter_context(patch.object(import_module(f"widefield.solvers.{name}"), "make_result", keep))
        solve()
    return kept


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
        state = initialise(spec, Interpretation("dense", width), inputs, key, jnp.zeros((spec.populations, 0, width)))

        def advance(state, _):
            state, fields = step(spec, inputs, state)
            return state, record.measure(spec, inputs, fields)

        return jax.lax.scan(advance, state, None, steps + 1)[1]

    return jax.lax.map(one, keys)


def welch(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Two-sided p-values of equal means, (entries,), from replicates (runs, entries) of different variances."""
    left, right = (value.var(0, ddof=1) / len(value) for value in (a, b))
    freedom = (left + right) ** 2 / (left**2 / (len(a) - 1) + right**2 / (len(b) - 1))
    return 2 * stats.t.sf(np.abs(a.mean(0) - b.mean(0)) / np.sqrt(left + right), freedom)


def alarm(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> tuple[str, float]:
    """Variable with the largest deviation, and a bound on the probability of one as large if both had the same mean.

    Welch's t test of every entry of every variable, times the number of entries (Bonferroni), whatever the
    correlations between entries. An entry is a mean over thousands of neurons, hence Gaussian. Entries that never
    vary (zeros, and what moment matching makes exact) must agree to rounding.
    """
    assert a.keys() == b.keys()
    smallest, entries, where = 1.0, 0, ""
    for name in a:
        size = max(1.0, np.abs(a[name]).max())
        sampled = np.maximum(a[name].std(0), b[name].std(0)) > 1e-10 * size
        exact = (value[name].mean(0)[~sampled] for value in (a, b))
        np.testing.assert_allclose(*exact, rtol=0, atol=1e-9 * size, err_msg=name)
        if np.any(sampled):
            chance = welch(a[name][:, sampled], b[name][:, sampled])
            entries += len(chance)
            if chance.min() < smallest:
                smallest, where = float(chance.min()), name
    return where, smallest * entries
