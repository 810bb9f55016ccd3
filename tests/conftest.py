"""What several test files share."""

import os
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

# Tests compile many programs and run them for a moment, so they are compiled without optimisation. Older versions of
# XLA end the process at a flag they do not know.
if tuple(map(int, version("jaxlib").split(".")[:2])) >= (0, 7):
    UNOPTIMISED = " --xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + UNOPTIMISED

# Threads of workers that share all processors get in each other's way.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    PROCESSORS = sorted(os.sched_getaffinity(0))
    if int(os.environ["PYTEST_XDIST_WORKER_COUNT"]) >= len(PROCESSORS):
        os.sched_setaffinity(0, {PROCESSORS[int(os.environ["PYTEST_XDIST_WORKER"][2:]) % len(PROCESSORS)]})

import jax
import numpy as np
import pytest
from browsing import BROWSER
from hypothesis import settings

import widefield as wf
from widefield.results.result import Result, make_result

# Public functions set their own precision (tests/test_neighbour.py). This is for tests that call what is inside.
jax.config.update("jax_enable_x64", True)

# The same examples in every run, as statistical tests have fixed keys.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")


@pytest.fixture
def problem() -> wf.Problem:
    return wf.Problem(
        data=wf.datasets.sphere(points=4, dimension=3, seed=1, test_points=2),
        network=wf.MLP(depth=2, activation="tanh"),
        rule=wf.rules.FA(rho=0.5),
        richness=1.0,
        training=wf.Training(steps=3, dt=0.1),
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium or Chrome, without a window."""
    if BROWSER is None:
        pytest.skip("no Chromium or Chrome on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])


@pytest.fixture
def fake_result() -> Callable[..., Result]:
    """Makes a result full of random numbers, with every variable that a run records."""

    def make(problem: wf.Problem, seed: int = 0, method: str = "simulate", runs: int = 3, **info: object) -> Result:
        rng = np.random.default_rng(seed)
        times, depth, points = problem.training.steps + 1, problem.network.depth, problem.data.points
        outputs, tests = problem.data.outputs, problem.data.test_points
        kernel = (points, points)
        shapes = {
            "f": (times, points, outputs),
            "delta": (times, points, outputs),
            "loss": (times,),
            "entk": (times, *kernel, outputs, outputs),
            "phi": (times, depth, *kernel),
            "g": (times, depth, *kernel, outputs, outputs),
            "g_tilde": (times, depth, *kernel, outputs, outputs),
            "g_tilde_tilde": (times, depth, *kernel, outputs, outputs),
            "entk_alignment": (times,),
            "phi_alignment": (times, depth),
            "gradient_cosine": (times, depth),
            "h_final": (depth, points, 50),
        }
        if tests:
            shapes["f_test"] = (times, tests, outputs)
            shapes["test_loss"] = (times,)
        arrays = {name: rng.uniform(0.1, 1.0, (runs, *shape)) for name, shape in shapes.items()}
        return make_result(problem, method, arrays, steps=np.arange(times), seed=seed, info=info)

    return make
