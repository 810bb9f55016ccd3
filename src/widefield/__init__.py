"""What very wide neural networks learn, and how their representations move, under any learning rule.

Importing this changes nothing in the process and loads nothing: what is used is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, errors, exact, fluctuations, rules
    from .compilation import compilation_cache
    from .expansion import FiniteWidth, finite_width
    from .identification import Candidates, Identification, Power, candidates, identify, power
    from .measurement import Observation, observe, rsa
    from .observables import Moment, Observable
    from .problem.dataset import Dataset
    from .problem.networks import CNN, MLP, RNN, RankOne
    from .problem.problem import Problem
    from .problem.training import Training
    from .results.comparison import compare
    from .results.files import load_result as load
    from .results.result import Result
    from .simulation import simulate
    from .solvers import lazy
    from .solvers.methods import solve
    from .sweeps.sweeping import sweep

    __version__: str

# Where public names live: "module:name", or a module. A function's module has another name than the function, because
# importing a module sets that name here.
_PLACES = {
    "CNN": "problem.networks:CNN",
    "MLP": "problem.networks:MLP",
    "RNN": "problem.networks:RNN",
    "Candidates": "identification:Candidates",
    "Dataset": "problem.dataset:Dataset",
    "FiniteWidth": "expansion:FiniteWidth",
    "Identification": "identification:Identification",
    "Moment": "observables:Moment",
    "Observable": "observables:Observable",
    "Observation": "measurement:Observation",
    "Power": "identification:Power",
    "Problem": "problem.problem:Problem",
    "RankOne": "problem.networks:RankOne",
    "Result": "results.result:Result",
    "Training": "problem.training:Training",
    "candidates": "identification:candidates",
    "compare": "results.comparison:compare",
    "compilation_cache": "compilation:compilation_cache",
    "datasets": "datasets",
    "errors": "errors",
    "exact": "exact",
    "finite_width": "expansion:finite_width",
    "fluctuations": "fluctuations",
    "identify": "identification:identify",
    "lazy": "solvers.lazy",
    "load": "results.files:load_result",
    "observe": "measurement:observe",
    "power": "identification:power",
    "rsa": "measurement.rsa",
    "rules": "rules",
    "simulate": "simulation:simulate",
    "solve": "solvers.methods:solve",
    "sweep": "sweeps.sweeping:sweep",
}

__all__ = [
    "CNN",
    "MLP",
    "RNN",
    "Candidates",
    "Dataset",
    "FiniteWidth",
    "Identification",
    "Moment",
    "Observable",
    "Observation",
    "Power",
    "Problem",
    "RankOne",
    "Result",
    "Training",
    "candidates",
    "compare",
    "compilation_cache",
    "datasets",
    "errors",
    "exact",
    "finite_width",
    "fluctuations",
    "identify",
    "lazy",
    "load",
    "observe",
    "power",
    "rsa",
    "rules",
    "simulate",
    "solve",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = _version()
    elif name in _PLACES:
        module, _, attribute = _PLACES[name].partition(":")
        loaded = import_module(f".{module}", __name__)
        value = getattr(loaded, attribute) if attribute else loaded
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("widefield")
    except PackageNotFoundError:
        return "0+unknown"  # run from a folder of sources that was never installed
