"""The contract of an architecture."""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np

from ..activations import Activation
from .wiring import Wiring

# Every layer is compiled on its own, which takes minutes from here on.
MOST_LAYERS = 1000


class Network(abc.ABC):
    """What is wide and how its layers connect; final classes are frozen dataclasses.

    A network describes itself by its `wiring`, which networks of finite width, the infinite-width engine and the lazy
    limit all read.

    Attributes:
        depth: L, the number of hidden layers, each with a learning rule of its own.
        activation: φ.
        takes: the shape of inputs, for error messages.
    """

    depth: int
    activation: Activation
    takes: ClassVar[str]

    @abc.abstractmethod
    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether inputs may have this shape."""

    @abc.abstractmethod
    def wiring(self, shape: tuple[int, ...]) -> Wiring:
        """The wiring for inputs x of `shape`."""

    def target_frames(self, shape: tuple[int, ...]) -> int | None:
        """T where targets are (P, T) or (P, T, C) for inputs of `shape`; None where they are (P,) or (P, C)."""
        return None

    def check_sizes(self, inputs: int, outputs: int) -> None:
        """Raise an `InputError` where the network does not fit D inputs and C outputs."""
        return

    def blocks(self, x: np.ndarray) -> np.ndarray:
        """Inputs as (blocks, P, positions, D), one block per `Stage.input`."""
        return x.reshape(1, len(x), -1, x.shape[-1])
