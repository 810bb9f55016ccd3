"""The labelled answer of every solver and simulation."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from ..errors import printable, require
from ..observables import Observable, look_up
from ..problem.dataset import Dataset
from ..problem.problem import Problem
from ..problem.toml import split_header, write_header
from .derived import points_at
from .labels import label
from .plots import Plots
from .replicates import SEED, moments_in, over_seeds, with_seeds
from .statistics import Moments
from .stored import StoredProblem, check_attributes


class Result:
    """The result of a run: labelled variables, the problem, and how it was solved.

    Args:
        runs: variables along `seed`, one entry per replicate or network; what has no sampling error has no `seed`.
            Attributes hold the problem without its data, the method, how the run went, versions and seed.
        problem: the problem with its data.
    """

    def __init__(self, runs: xr.Dataset, problem: Problem | StoredProblem | None = None):
        require(isinstance(runs, xr.Dataset), "runs", type(runs).__name__, "an xarray.Dataset")
        check_attributes(runs.attrs)
        if problem is None:
            header, data = split_header(runs.attrs["problem"])
            problem = StoredProblem(header, data or None)
        kinds = (Problem, StoredProblem)
        require(isinstance(problem, kinds), "problem", type(problem).__name__, "a widefield.Problem")
        self._runs, self._problem = runs, problem

    @classmethod
    def from_arrays(cls, problem: Problem, arrays: Mapping[str, ArrayLike], steps: ArrayLike | None = None) -> Result:
        """Label arrays of your own, e.g. of an experiment or another program, to hold them against theory.

        Loss, error signal, alignments and the like are added where their ingredients are there.

        Args:
            problem: what was trained, on which data.
            arrays: variables by name, with the axes they have in `Result.dataset`, e.g. f (time, sample) and phi (time,
                layer, sample, sample_); all of them with one more axis in front, over networks, or none.
            steps: the training steps at which they were recorded; default every step, 0 … `training.steps`.

        Example:
            >>> wf.Result.from_arrays(problem, {"f": outputs, "phi": kernels}, steps=[0, 10, 20])
        """
        from .arrays import label_arrays

        return label_arrays(problem, arrays, steps)

    @property
    def runs(self) -> xr.Dataset:
        """The variables as files hold them: of single runs along `seed`, and those without sampling error."""
        return self._runs

    @cached_property
    def dataset(self) -> xr.Dataset:
        """Means over `seed` and their standard errors `<name>_se`; single neurons of all seeds along `neuron`."""
        return over_seeds(self.runs)

    @property
    def replicates(self) -> xr.Dataset:
        """Every variable along `seed`, one entry per replicate or network.

        What has no sampling error, e.g. all of an exact solution, is the same in every entry (there is one entry where
        nothing is sampled).
        """
        return with_seeds(self.runs)

    def moments(self, name: str) -> Moments:
        """Mean, standard error and degrees of freedom of a variable.

        Args:
            name: of the variable, e.g. "phi".
        """
        count = self.info.get("seeds")
        return moments_in(self.runs, self.dataset, name, count if isinstance(count, int) else None)

    def __getitem__(self, name: str) -> xr.DataArray:
        return self.dataset[name]

    def __contains__(self, name: str) -> bool:
        return name in self.dataset

    @property
    def problem(self) -> Problem:
        """What was trained, on which data.

        Rules, activations and losses from outside widefield are imported only if the file was loaded with `trust=True`.
        """
        return self._problem if isinstance(self._problem, Problem) else self._problem.restore()

    @property
    def data(self) -> Dataset | None:
        """The points of the problem; None where they were not kept."""
        return self._problem.data

    @property
    def method(self) -> str:
        return printable(self.runs.attrs["method"])

    @property
    def info(self) -> dict[str, Any]:
        """How the run went: samples, seeds, ranks, times, iterations, …"""
        return json.loads(self.runs.attrs["info"])

    def rdm(self, name: str = "phi", layer: int | None = None) -> xr.Dataset:
        """Representational dissimilarities: squared Euclidean distances per neuron, d_ij = Φ_ii + Φ_jj − 2Φ_ij.

        Args:
            name: the kernel: "phi" for features, "g" for gradients, "g_tilde_tilde" for pseudo-gradients.
            layer: one layer, counted from 1; default all of them.

        Returns:
            `rdm` with dimensions time, sample and sample_ (and layer, if all were asked for), and its standard error
            `rdm_se` where the result keeps two or more replicates.

        Example:
            >>> wf.solve(problem).rdm("phi", layer=2)["rdm"].isel(time=-1)
        """
        from .dissimilarity import dissimilarities

        return dissimilarities(self.runs, name, layer)

    def save(self, path: str | Path) -> None:
        """Write to a netCDF file, atomically: an existing file is replaced whole or not at all.

        Args:
            path: the file; `wf.load(path)` reads it again.
        """
        from .files import save_result

        save_result(self, path)

    def summary(self) -> str:
        """What was learnt, in a few lines."""
        from .summary import summarise

        return summarise(self)

    @property
    def plot(self) -> Plots:
        """Pictures: `plot()` for everything at once, `plot.loss()`, `plot.kernels("phi")` and others: see `Plots`."""
        return Plots(self)

    def __repr__(self) -> str:
        return self.summary()

    def __getstate__(self) -> dict[str, Any]:
        # By name: a user's function may not be picklable. What is unpickled is trusted already.
        stored = StoredProblem(self.runs.attrs["problem"], self.data, trust=True)
        return {"_runs": self.runs, "_problem": stored}

    def _repr_html_(self) -> str:
        from .summary import summarise_html

        return summarise_html(self)


def make_result(
    problem: Problem,
    method: str,
    replicates: Mapping[str, np.ndarray] | None = None,
    exact: Mapping[str, np.ndarray] | None = None,
    *,
    steps: np.ndarray,
    seed: int | None = None,
    info: Mapping[str, Any] | None = None,
    coordinates: Mapping[str, np.ndarray] | None = None,
    observables: Iterable[Observable] = (),
) -> Result:
    """Label raw arrays, without copying them.

    Args:
        replicates: variables with a leading axis over independent runs; the other axes as in the table of variables,
            output axes included.
        exact: variables without sampling error, and without that axis.
        steps: the training steps at which time-dependent variables were recorded.
        coordinates: further coordinates, e.g. {"step": …} of two-time objects.
        observables: what describes variables that are not in the table.
    """
    own = {one.name: one for one in observables}

    def known(name: str) -> Observable:
        return own.get(name) or look_up(name)

    variables = {name: label(known(name), value, problem, (SEED,)) for name, value in (replicates or {}).items()}
    variables |= {name: label(known(name), value, problem) for name, value in (exact or {}).items()}
    coords: dict[str, Any] = {
        "time": (
            "time",
            np.asarray(steps) * problem.training.dt,
            {"long_name": "training time", "units": "steps × dt"},
        ),
        "layer": ("layer", np.arange(1, problem.network.depth + 1)),
    }
    wiring = problem.wiring
    if not wiring.feed_forward:
        frames = np.arange(1, len(wiring.stages) + 1)
        coords |= {name: (name, frames) for name in ("frame", "frame_", "read", "read_")}
    if problem.online and any("sample" in variable.dims for variable in variables.values()):
        coords["point"] = (("time", "sample"), points_at(problem, steps), {"long_name": "which training point"})
    coords.update({name: (name, np.asarray(value)) for name, value in (coordinates or {}).items()})
    runs = xr.Dataset(variables, coords=coords)
    runs.attrs.update(
        problem=write_header(problem),
        method=method,
        versions=json.dumps(_versions()),
        info=json.dumps(dict(info or {})),
    )
    if seed is not None:
        runs.attrs["seed"] = seed
    return Result(runs, problem)


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    from importlib.metadata import version

    from widefield import __version__

    names = ("jax", "jaxlib", "numpy", "scipy", "xarray")
    own = {"python": platform.python_version(), "widefield": __version__}
    return own | {name: version(name) for name in names}
