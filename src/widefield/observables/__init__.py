"""What can be measured of a run. `OBSERVABLES` is the table of all of it, by the name that results use."""

from .moment import Fields, Moment
from .observable import Observable
from .table import ALIGNMENTS, DEFAULT_KERNELS, OBSERVABLES, as_observables, dims_in, long_name, look_up, measured

__all__ = [
    "ALIGNMENTS",
    "DEFAULT_KERNELS",
    "OBSERVABLES",
    "Fields",
    "Moment",
    "Observable",
    "as_observables",
    "dims_in",
    "long_name",
    "look_up",
    "measured",
]
