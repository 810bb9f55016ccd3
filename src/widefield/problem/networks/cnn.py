"""Convolutional networks."""

from __future__ import annotations

from typing import ClassVar

from ...errors import require
from ..activations import Activation, as_activation
from ..fields import checked, convert_fields, frozen, one_of, whole
from .layout import Layout
from .network import MOST_LAYERS, Network
from .wiring import Wiring, feed_forward


@frozen()
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

    depth: int = checked(whole(1, MOST_LAYERS))
    filter: int = checked(whole(1), default=3)
    activation: Activation = checked(converter=as_activation, default="tanh")
    padding: str = checked(one_of(("circular", "zero")), default="circular")
    readout: str = checked(one_of(("position", "pool")), default="position")
    takes: ClassVar[str] = "(P, positions, channels) or (P, height, width, channels) for a CNN"

    def __post_init__(self) -> None:
        convert_fields(self)
        require(self.filter % 2 == 1, "filter", self.filter, "an odd whole number")

    def fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) in (3, 4)

    def wiring(self, shape: tuple[int, ...]) -> Wiring:
        # Beyond, a filter would see nothing but copies or zeros of what it has seen.
        widest = max(3, 2 * max(shape[1:-1]) - 1)
        require(self.filter <= widest, "filter", self.filter, f"up to {widest} for x of shape {shape}")
        layout = Layout(shape[1:-1], self.filter // 2, self.padding == "circular", self.readout == "pool")
        return feed_forward(self.depth, layout)
