"""Convolutional networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...errors import require, require_integer
from ..activations import Activation, Elementwise, as_activation
from .layout import Layout
from .network import Network
from .wiring import Wiring, feed_forward


@dataclass(frozen=True)
class CNN(Network):
    """A convolutional network with `depth` hidden layers of infinitely many channels (App. C.2).

    Inputs are (P, positions, channels) or (P, height, width, channels). The first layer is
    divided by √channels, later ones by √N, none by the filter size; stride is 1.

    Args:
        depth: L, the number of hidden layers.
        filter: odd width k of the filter, the same in each spatial direction.
        activation: φ, as for `MLP`.
        padding: "circular" or "zero".
        readout: "position" has one weight per channel and position,
            f = Σ_{i,a} w_{i,a} φ(h_{i,a})/(γ₀N); "pool" averages φ over positions first.
    """

    depth: int
    filter: int = 3
    activation: Activation = "tanh"  # type: ignore[assignment]
    padding: str = "circular"
    readout: str = "position"
    takes: ClassVar[str] = "(P, positions, channels) or (P, height, width, channels) for a CNN"

    def __init__(
        self,
        depth: int,
        filter: int = 3,
        activation: str | Activation | Elementwise = "tanh",
        padding: str = "circular",
        readout: str = "position",
    ):
        require_integer("depth", depth, 1)
        require_integer("filter", filter, 1)
        require(filter % 2 == 1, "filter", filter, "an odd whole number")
        require(padding in ("circular", "zero"), "padding", padding, "'circular' or 'zero'")
        require(readout in ("position", "pool"), "readout", readout, "'position' or 'pool'")
        for name, value in (("depth", depth), ("filter", filter), ("padding", padding), ("readout", readout)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "activation", as_activation(activation))

    def fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) in (3, 4)

    def wiring(self, shape: tuple[int, ...]) -> Wiring:
        layout = Layout(shape[1:-1], self.filter // 2, self.padding == "circular", self.readout == "pool")
        return feed_forward(self.depth, layout)
