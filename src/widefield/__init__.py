"""What very wide neural networks learn, and how their representations move, under any learning rule."""

import jax as _jax

# The one place where precision is set: kernels of rich training lose their small directions in float32.
_jax.config.update("jax_enable_x64", True)

from . import datasets, exact, fluctuations, rules
from .observables import Observable
from .problem.dataset import Dataset
from .problem.networks import CNN, MLP
from .problem.problem import Problem
from .problem.training import Training
from .results.comparison import compare
from .results.files import load_result as load
from .results.result import Result
from .simulate import simulate
from .solve import solve
from .solvers import lazy

__version__ = "0.1.0"

__all__ = [
    "CNN",
    "MLP",
    "Dataset",
    "Observable",
    "Problem",
    "Result",
    "Training",
    "compare",
    "datasets",
    "exact",
    "fluctuations",
    "lazy",
    "load",
    "rules",
    "simulate",
    "solve",
]
