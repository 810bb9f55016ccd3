"""Measurements: recorded activity, kernels and dissimilarities of a network or a brain, with their errors."""

from .observation import Observation
from .observing import observe

__all__ = ["Observation", "observe"]
