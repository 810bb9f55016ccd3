"""Kernels in tiles: memory budgets, stores on disk, resuming."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
import zarr

import widefield as wf
from widefield.errors import MemoryBudgetError, ResultFileError
from widefield.solvers.lazy import kernels

X = np.random.default_rng(1).standard_normal((23, 5))
NETWORK = wf.MLP(2, "relu")
NAMES = ("entk", "phi", "phi_dot", "g", "g_tilde")


class Stop(Exception):
    pass


class Counter:
    def __init__(self, stop: int | None = None):
        self.calls: list[tuple[int, int]] = []
        self.stop = stop

    def update(self, done: int, total: int, message: str = "") -> None:
        self.calls.append((done, total))
        if self.stop is not None and len(self.calls) >= self.stop:
            raise Stop


@pytest.mark.parametrize("rule", ["gd", wf.rules.FA(0.5)])
def test_small_tiles_give_the_same_kernels(rule):
    whole, counter = kernels(X, NETWORK, rule), Counter()
    tiled = kernels(X, NETWORK, rule, memory_budget=50_000, progress=counter)
    assert counter.calls[-1][0] == counter.calls[-1][1] > 3
    for name in NAMES:
        np.testing.assert_allclose(getattr(tiled, name), getattr(whole, name), rtol=1e-12, atol=1e-14)
        assert np.array_equal(getattr(tiled, name), np.swapaxes(getattr(tiled, name), -1, -2))
    block = kernels(X[:6], NETWORK, rule, X, memory_budget=30_000)
    np.testing.assert_allclose(block.entk, whole.entk[:6], rtol=1e-12, atol=1e-14)


def test_pooled_convolution_in_tiles():
    images = np.random.default_rng(2).standard_normal((9, 4, 2))
    network = wf.CNN(2, 3, "relu", "zero", "pool")
    whole = kernels(images, network, "gd")
    tiled = kernels(images, network, "gd", memory_budget=150_000)
    assert whole.phi.shape == (2, 9, 9, 4, 4)
    for name in NAMES:
        np.testing.assert_allclose(getattr(tiled, name), getattr(whole, name), rtol=1e-12, atol=1e-14)
    assert kernels(images, wf.CNN(2, 3, "relu"), "gd").phi.shape == (2, 9, 9, 4)


def test_a_budget_that_cannot_hold_is_refused_before_work():
    with pytest.raises(MemoryBudgetError, match=r"memory_budget is 20,000 bytes, but .* store=") as caught:
        kernels(X, NETWORK, "gd", memory_budget=20_000)
    needed = int(re.search(r"but ([\d,]+) are", str(caught.value))[1].replace(",", ""))  # type: ignore[index]
    # Four kernels of two layers and one of the whole network; a tile of one pair and the points come on top.
    kept = 8 * 9 * len(X) ** 2
    assert kept < needed < kept + 8 * 20 * len(X) + 8 * 30
    assert kernels(X[:2], NETWORK, "gd", memory_budget=needed).entk.shape == (2, 2)
    with pytest.raises(MemoryBudgetError):
        kernels(X, NETWORK, "gd", memory_budget=needed - 1)


def test_memory_stays_within_the_budget(tmp_path):
    """NumPy's share of the memory of a kernel that is written to disk; the whole kernel would be 18 MB."""
    x = np.random.default_rng(3).standard_normal((1500, 4))
    kernels(x[:40], NETWORK, "gd", outputs=("entk",), store=tmp_path / "warm")
    budget = 6_000_000
    tracemalloc.start()
    kernels(x, NETWORK, "gd", outputs=("entk",), memory_budget=budget, store=tmp_path / "k")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < budget


def test_store_and_resume(tmp_path):
    path = tmp_path / "kernels.zarr"
    options = {"memory_budget": 10_000, "store": path}
    interrupted = Counter(stop=4)
    with pytest.raises(Stop):
        kernels(X, NETWORK, "gd", progress=interrupted, **options)
    resumed = Counter()
    found = kernels(X, NETWORK, "gd", progress=resumed, **options)
    # It starts after the four tiles that were there.
    assert resumed.calls[0] == (5, interrupted.calls[0][1])
    whole = kernels(X, NETWORK, "gd")
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name)[:], getattr(whole, name), rtol=1e-12, atol=1e-14)
    again = Counter()
    kernels(X, NETWORK, "gd", progress=again, **options)
    assert again.calls == []


def test_stores_of_other_settings_are_refused(tmp_path):
    path = tmp_path / "kernels.zarr"
    kernels(X, NETWORK, "gd", outputs=("entk",), store=path)
    before = kernels(X, NETWORK, "gd", outputs=("entk",)).entk
    for arguments in (
        (X, NETWORK, "dfa"),
        (X + 1, NETWORK, "gd"),
        (X, wf.MLP(3, "relu"), "gd"),
        (X, wf.MLP(2, "erf"), "gd"),
    ):
        with pytest.raises(ResultFileError, match="other points"):
            kernels(*arguments, outputs=("entk",), store=path)
    for options in ({}, {"outputs": ("entk",), "accuracy": 1e-5}):
        with pytest.raises(ResultFileError, match="other points"):
            kernels(X, NETWORK, "gd", store=path, **options)
    np.testing.assert_array_equal(kernels(X, NETWORK, "gd", outputs=("entk",), store=path).entk[:], before)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ResultFileError, match="no Zarr group"):
        kernels(X, NETWORK, "gd", store=tmp_path / "file")
    with pytest.raises(ResultFileError, match=r"store .*kernels cannot be written \(Not a directory\)"):
        kernels(X, NETWORK, "gd", store=tmp_path / "file" / "kernels")
    assert (tmp_path / "file").read_text() == "mine"
    zarr.open_group(tmp_path / "other", mode="w").attrs["format"] = "something else"
    with pytest.raises(ResultFileError, match="holds no widefield kernels"):
        kernels(X, NETWORK, "gd", store=tmp_path / "other")


@pytest.mark.slow
def test_ten_thousand_points(tmp_path):
    """10,000 × 10,000 in float64 (0.8 GB) under a budget of 0.3 GB, to disk."""
    x = np.random.default_rng(4).standard_normal((10_000, 20))
    found = kernels(x, NETWORK, "gd", outputs=("entk",), memory_budget=300_000_000, store=tmp_path / "k", progress=True)
    rows = [0, 5000, 9999]
    expected = kernels(x[rows], NETWORK, "gd", x, outputs=("entk",)).entk
    np.testing.assert_allclose(np.stack([found.entk[i] for i in rows]), expected, rtol=1e-10, atol=1e-12)
