"""`wf.lazy.angle_kernel`: kernels as functions of the angle between two inputs (Figure 2 a–c)."""

from __future__ import annotations

import numpy as np

from ...errors import require
from ...problem.arrays import real_array
from ...problem.networks import MLP
from ...rules.rule import Rule
from .kernels import kernels


def angle_kernel(
    network: MLP, rule: str | Rule | type[Rule], angles: np.ndarray, *, accuracy: float = 1e-8
) -> np.ndarray:
    """eNTK of two inputs with |x|² = |x'|² = D at each angle, cos θ = x·x'/D; the shape of `angles`.

    Args:
        network: an `MLP`.
        rule: a rule, or its name, e.g. "fa".
        angles: in radians.
        accuracy: largest relative error of a Gaussian average.
    """
    require(isinstance(network, MLP), "network", type(network).__name__, "a widefield.MLP")
    theta = real_array("angles", angles)
    flat = theta.ravel()
    points = np.sqrt(2.0) * np.stack([np.cos(flat), np.sin(flat)], axis=1)
    first = np.sqrt(2.0) * np.array([[1.0, 0.0]])
    return kernels(first, network, rule, points, outputs=("entk",), accuracy=accuracy).entk[0].reshape(theta.shape)
