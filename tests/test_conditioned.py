"""Conditioned networks have exactly the law of dense ones, and the run around them keeps its promises."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import widefield as wf
from widefield.engine import low_rank, run, sources
from widefield.engine.capacity import first_room
from widefield.engine.interpretation import Interpretation, initialise
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.program import step

GD = wf.rules.GD()
RULES = [GD, wf.rules.FA(0.5), wf.rules.DFA(), wf.rules.GLN(), wf.rules.Hebb()]
WIDTH, SEEDS = 14, 4000
# Largest of about 100 correlated z-scores of unit normals: beyond 5 by chance less than once in 10⁴ tests.
LIMIT = 5.0


def make_problem(rule="gd", depth=2, activation="tanh", richness=2.0, steps=4, dt=0.2) -> wf.Problem:
    return wf.Problem(
        data=wf.datasets.sphere(points=2, dimension=3, seed=1),
        network=wf.MLP(depth=depth, activation=activation),
        rule=rule,
        richness=richness,
        training=wf.Training(steps=steps, dt=dt),
    )


def roomy(kind: Interpretation, spec, problem: wf.Problem, inputs) -> Interpretation:
    """Room for all that can be asked: these loops take no step again."""
    points = problem.data.points * (problem.training.steps + 1)
    room = first_room(kind, spec, points, inputs.x.shape[-1], (float(inputs.tolerance),) * 2)
    return dataclasses.replace(kind, room=jax.tree.map(lambda size: size and max(size, 2 * points + 32), room))


def draw(problem: wf.Problem, kind: str, seed: int, seeds: int = SEEDS, width: int = WIDTH) -> dict[str, np.ndarray]:
    """f, the eNTK and Φ of every seed, (seeds, times, entries); all seeds at once, which is faster at tiny width."""
    recording = make_recording(problem, ("entk", "phi"), 1, 1)
    spec, inputs = prepare(problem, recording, "float64", 1e-6)
    interpretation = roomy(Interpretation(kind, width), spec, problem, inputs)

    def one(key: Array) -> dict[str, Array]:
        state = initialise(spec, interpretation, inputs, key, [])

        def advance(state, _):
            state, fields = step(spec, inputs, state)
            return state, recording.measure(spec, inputs, fields)

        return jax.lax.scan(advance, state, None, length=problem.training.steps + 1)[1]

    arrays = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), seeds))
    return {name: np.asarray(value).reshape(seeds, problem.training.steps + 1, -1) for name, value in arrays.items()}


def z_scores(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Differences of means and of variances over seeds, in standard errors; entries that do not vary are left out."""
    moving = (a.std(0) > 1e-12) & (b.std(0) > 1e-12)
    a, b = a[:, moving], b[:, moving]

    def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))

    def gap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        (mean_a, error_a), (mean_b, error_b) = mean_and_error(a), mean_and_error(b)
        return np.abs(mean_a - mean_b) / np.hypot(error_a, error_b)

    return gap(a, b), gap((a - a.mean(0)) ** 2, (b - b.mean(0)) ** 2)


@cache
def dense_draws(rule: wf.rules.Rule, depth: int) -> dict[str, np.ndarray]:
    return draw(make_problem(rule, depth), "dense", 1)


def worst(rule: wf.rules.Rule, depth: int = 2) -> dict[str, float]:
    """The largest z-score of each variable's mean and variance, conditioned against dense."""
    dense, conditioned = dense_draws(rule, depth), draw(make_problem(rule, depth), "conditioned", 2)
    return {name: max(float(z.max()) for z in z_scores(dense[name], conditioned[name])) for name in dense}


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("rule", "depth"),
    [(GD, 2), *[pytest.param(r, 2, marks=SLOW) for r in RULES[1:]], *[pytest.param(r, 3, marks=SLOW) for r in RULES]],
    ids=repr,
)
def test_conditioned_has_the_law_of_dense(rule, depth):
    scores = worst(rule, depth)
    assert max(scores.values()) < LIMIT, scores


@pytest.mark.slow
def test_broken_response_is_noticed(monkeypatch):
    """Without the response Q_y⟨B, Q_n⟩ the answers forget what was learnt about W(0) from the other side."""
    forward = low_rank.LowRank.forward

    def deaf(self, rows, source, key):
        back = self.backward_side
        silent = replace(self, backward_side=replace(back, answers=jnp.zeros_like(back.answers)))
        matrix, source, answer, record = forward(silent, rows, source, key)
        heard = replace(matrix, backward_side=replace(matrix.backward_side, answers=back.answers))
        return heard, source, answer, record

    monkeypatch.setattr(low_rank.LowRank, "forward", deaf)
    assert max(worst(GD).values()) > 2 * LIMIT


@pytest.mark.slow
def test_missing_projection_is_noticed(monkeypatch):
    """Without the projection the law is right only up to O(rank/N)."""
    monkeypatch.setattr(sources, "project_out", lambda rows, basis, width: rows)
    assert max(worst(GD).values()) > LIMIT


@pytest.mark.parametrize("activation", ["relu", pytest.param("tanh", marks=SLOW)])
def test_asked_rows_stay_orthonormal(activation):
    problem = make_problem(wf.rules.FA(0.5), activation=activation, steps=12)
    recording = make_recording(problem, None, 1, 1)
    spec, inputs = prepare(problem, recording, "float64", 1e-6)
    kind = roomy(Interpretation("conditioned", 200), spec, problem, inputs)

    def one(key: Array):
        state = initialise(spec, kind, inputs, key, [])
        return jax.lax.fori_loop(0, problem.training.steps, lambda _, s: step(spec, inputs, s)[0], state)

    state = jax.jit(one)(jax.random.key(0))
    for matrix in (state.matrices[0], state.feedbacks[0]):
        for side in (matrix.forward_side, matrix.backward_side):
            rank = int(side.rank)
            gram = np.asarray(side.asked @ side.asked.T) / 200
            expected = np.diag(np.arange(len(gram)) < rank).astype(float)
            np.testing.assert_allclose(gram, expected, atol=1e-10)
    assert int(state.matrices[0].forward_side.rank) > 4, "too little was asked to test anything"


def test_same_seed_same_numbers_and_no_recompilation():
    problem = make_problem(steps=3)

    def train(seed: int) -> wf.Result:
        return wf.simulate(problem, width=40, seeds=2, seed=seed, engine="conditioned", progress=False)

    first = train(3)
    compiled = run._start.jitted._cache_size(), run._advance.jitted._cache_size()
    again, other = train(3), train(4)
    assert (run._start.jitted._cache_size(), run._advance.jitted._cache_size()) == compiled
    for name in first.dataset.data_vars:
        np.testing.assert_array_equal(first[name].values, again[name].values)
    assert np.abs(first["f"].values - other["f"].values).max() > 1e-6


def test_divergence_names_the_step_and_the_remedy():
    problem = make_problem("hebb", depth=1, activation="linear", richness=5.0, steps=60, dt=3.0)
    with pytest.raises(wf.errors.DivergenceError, match=r"diverged at step \d+.*\(dt 3, richness 5.*lower dt"):
        wf.simulate(problem, width=20, seeds=2, engine="dense", progress=False)
