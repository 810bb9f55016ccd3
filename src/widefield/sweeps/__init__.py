"""Many runs: cells that are named by what they compute, run here or on a Dask cluster, and gathered with labels."""

from .cells import Cell, Failure, Outcome, by_compilation
from .store import Folder
from .sweeping import run_cells, sweep

__all__ = ["Cell", "Failure", "Folder", "Outcome", "by_compilation", "run_cells", "sweep"]
