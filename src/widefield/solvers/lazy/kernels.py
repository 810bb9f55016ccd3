"""`wf.lazy.kernels`: the static kernels of every rule as γ₀ → 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, plain, require, require_integer
from ...extras import require_extra
from ...precision import enable_x64
from ...problem.networks import Network
from ...problem.problem import Problem
from ...progress import Progress, make_progress
from ...rules.lookup import as_rule
from ...rules.rule import Rule
from .definition import UnknownSignalError
from .frames import frame_kernels
from .prepare import check_arguments, prepare
from .store import KernelStore, open_store
from .tiles import check_budget, choose_tile, in_memory, run_tiles

OUTPUTS = ("entk", "phi", "phi_dot", "g", "g_tilde")


@dataclass(frozen=True)
class LazyKernels:
    """Kernels of n points against m points; what was not asked for is None.

    Rows are the true gradient's points, columns the pseudo-gradient's. Arrays are NumPy, or
    Zarr when they were made into a store.

    Attributes:
        entk: K = Σ_{ℓ=0..L} G̃^{ℓ+1} ∘ Φ^ℓ, (n, m).
        phi, phi_dot, g, g_tilde: Φ^ℓ, Φ̇^ℓ, G^ℓ, G̃^ℓ for ℓ = 1..L, (L, n, m). In a CNN the positions
            follow: one set of axes (equal positions) with a readout weight per position, two with average pooling.
            In an RNN the frames of the neurons follow, (1, n, m, T, T), and with readout "every", in g, g_tilde and
            entk, those of the outputs, (…, T, T).
    """

    entk: Any = None
    phi: Any = None
    phi_dot: Any = None
    g: Any = None
    g_tilde: Any = None


def kernels(
    x: np.ndarray,
    network: Network,
    rule: str | Rule | type[Rule],
    x2: np.ndarray | None = None,
    *,
    outputs: Sequence[str] = OUTPUTS,
    error: np.ndarray | None = None,
    target: np.ndarray | None = None,
    accuracy: float = 1e-8,
    memory_budget: int | None = None,
    store: str | Path | None = None,
    progress: bool | Progress | None = False,
) -> LazyKernels:
    """Static kernels at initialisation, which govern training as γ₀ → 0 (§3.1, Table 2, App. D).

    Args:
        x: (n, D), (n, positions…, channels) for a CNN, or (n, T, D) for an RNN.
        network: an `MLP`, a `CNN` or an `RNN`.
        rule: a rule, or its name, e.g. "fa".
        x2: columns, if they are other points than the rows.
        outputs: which of entk, phi, phi_dot, g and g_tilde to make.
        error, target: Δ and y of the columns' points, only for rules that read them and state no closed form.
        accuracy: largest relative error of a Gaussian average; closed forms (relu, erf, linear) have none.
        memory_budget: bytes that the kernels and the work on them may take; tiles are made as small as that needs.
        store: path of a Zarr store to write to, tile by tile; an interrupted run goes on where it was.
        progress: as in `wf.solve`, but silent by default.

    Returns:
        A `LazyKernels`. Cost O(n·m·depth); with a CNN times the positions, and times positions² with pooling; with an
        RNN times T³, and times T⁴ with readout "every".
    """
    if store is not None:
        require_extra("zarr", "store=")
        require(isinstance(store, (str, PathLike)), "store", store, "the path of a folder")
    rule, accuracy, memory_budget = as_rule(rule), plain(accuracy), plain(memory_budget)
    if memory_budget is not None:
        require_integer("memory_budget", memory_budget, 1)
    outputs = (outputs,) if isinstance(outputs, str) else outputs
    listed = isinstance(outputs, (Sequence, set, frozenset)) and len(outputs) > 0
    good = listed and all(isinstance(name, str) and name in OUTPUTS for name in outputs)
    require(good, "outputs", outputs, f"some of {', '.join(OUTPUTS)}")
    with enable_x64(True), make_progress(progress) as bar:
        left, right = check_arguments(x, network, rule, x2, accuracy)
        if not network.wiring(left.shape).feed_forward:
            for name, value in (("store", store), ("memory_budget", memory_budget)):
                require(value is None, name, value, "None for a recurrent network")
            columns = None if x2 is None else right
            return LazyKernels(**frame_kernels(left, network, rule, columns, frozenset(outputs), accuracy))
        prepared = prepare(x, network, rule, x2, frozenset(outputs), error, target, accuracy)
        check_budget(prepared, memory_budget, stored=store is not None)
        tile = choose_tile(prepared, memory_budget, stored=store is not None)
        if store is None:
            return LazyKernels(**in_memory(prepared, tile, bar))
        opened: KernelStore = open_store(store, prepared, tile, (accuracy, error, target))
        run_tiles(prepared, opened.tile, opened.write, bar, opened.finished)
        return LazyKernels(**opened.arrays())


def problem_kernels(
    problem: Problem, outputs: Sequence[str], accuracy: float, progress: bool | Progress | None
) -> dict[str, np.ndarray]:
    """Kernels of all points of a problem (rows) against its training points (columns).

    `parts` are the eNTK's terms, layer by layer. A rule whose G̃ reads the error has no static kernel and is refused.
    """
    data, wanted = problem.data, frozenset(outputs)
    if not problem.wiring.feed_forward:
        return _frame_kernels(problem, wanted, accuracy)
    target = data.y_columns[:, 0] if data.outputs == 1 else None
    try:
        train = prepare(data.x, problem.network, problem.rule, None, wanted, None, target, accuracy)
    except UnknownSignalError as error:
        raise InputError(
            f"rule is {problem.rule!r}, whose pseudo-gradient reads the error (or, with several outputs, the target): "
            "its kernel is not static as γ₀ → 0; allowed: other rules, or method 'mean_field'"
        ) from error
    pieces = [train]
    if data.x_test is not None:
        pieces.append(prepare(data.x_test, problem.network, problem.rule, data.x, wanted, None, target, accuracy))
    with make_progress(progress) as bar:
        made = [in_memory(piece, choose_tile(piece, None, stored=False), bar) for piece in pieces]
    return {name: np.concatenate([one[name] for one in made], axis=int(name != "entk")) for name in made[0]}


def _frame_kernels(problem: Problem, wanted: frozenset[str], accuracy: float) -> dict[str, np.ndarray]:
    data, network, rule = problem.data, problem.network, problem.rule
    check_arguments(data.x, network, rule, None, accuracy)
    made = [frame_kernels(data.x, network, rule, None, wanted, accuracy)]
    if data.x_test is not None:
        made.append(frame_kernels(data.x_test, network, rule, data.x, wanted, accuracy))
    return {name: np.concatenate([one[name] for one in made], axis=int(name != "entk")) for name in made[0]}
