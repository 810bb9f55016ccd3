"""A cell: one run of a sweep, named by what it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xarray as xr

from ..digest import code_version, digest
from ..errors import DivergenceError, InputError, NotConvergedError, TooFewSamplesError, one_line
from ..problem.problem import Problem
from ..progress import Progress
from ..results.result import Result

# Errors that the same run would end with anywhere and always; others may be the machine's.
LASTING = (DivergenceError, InputError, NotConvergedError, TooFewSamplesError)
OK = "ok"


@dataclass(frozen=True)
class Cell:
    """`run(problem, **options)`; `run` is `wf.solve`, `wf.simulate` or anything that also takes `progress`."""

    run: Callable[..., Result | xr.Dataset]
    problem: Problem
    options: Mapping[str, Any]

    @cached_property
    def name(self) -> str:
        """Hash of the run, the problem with all its data, the options and the code."""
        return digest(self.run, self.problem, dict(self.options), code_version())

    def compute(self, progress: bool | Progress = False) -> Result | xr.Dataset:
        return self.run(self.problem, **self.options, progress=progress)


@dataclass(frozen=True)
class Failure:
    """What a cell ended with in place of numbers."""

    message: str  # one line
    lasting: bool

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        return cls(f"{type(error).__name__}: {one_line(error)}", isinstance(error, LASTING))


Outcome = Result | xr.Dataset | Failure


def shares(cell: Cell) -> str:
    """Equal for cells that may share compiled programs: the same shapes, and rules that differ only in numbers."""
    problem, training = cell.problem, cell.problem.training
    rules = [(type(rule).__qualname__, sorted(rule.feedback.uses)) for rule in problem.layer_rules]
    shapes = [problem.data.x.shape, problem.data.y.shape, problem.data.test_points]
    compiled = [training.steps, training.loss, training.integrator, training.momentum > 0, training.batch_size]
    compiled += [training.evaluate, training.weight_decay > 0]
    options = sorted((name, value) for name, value in cell.options.items() if name not in ("seed", "seeds"))
    return repr((_name(cell.run), problem.network, rules, shapes, compiled, options))


def by_compilation(cells: Mapping[Any, Cell]) -> list[Any]:
    """The keys of `cells`, in their order, but those that share compiled programs next to each other."""
    groups: dict[str, list[Any]] = {}
    for key, cell in cells.items():
        groups.setdefault(shares(cell), []).append(key)
    return [key for group in groups.values() for key in group]


def _name(run: Callable[..., Any]) -> str:
    return getattr(run, "__qualname__", repr(run))
