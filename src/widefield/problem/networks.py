"""Architectures: what is wide, and how layers connect."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import require, require_integer
from .activations import Activation, Elementwise, as_activation


@dataclass(frozen=True)
class MLP:
    """A fully connected network with `depth` hidden layers (design §1).

    h¹ = W⁰x/√D, h^{ℓ+1} = W^ℓφ(h^ℓ)/√N, f = w·φ(h^L)/(γ₀N). With `residual`,
    h^{ℓ+1} = h^ℓ + W^ℓφ(h^ℓ)/√N.
    """

    depth: int
    activation: Activation = "tanh"  # type: ignore[assignment]
    residual: bool = False

    def __init__(self, depth: int, activation: str | Activation | Elementwise = "tanh", residual: bool = False):
        require_integer("depth", depth, 1)
        require(isinstance(residual, bool), "residual", residual, "True or False")
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "activation", as_activation(activation))
        object.__setattr__(self, "residual", residual)


@dataclass(frozen=True)
class CNN:
    """A convolutional network with `depth` hidden layers of infinitely many channels (App. C.2).

    Inputs are (P, positions, channels) or (P, height, width, channels). The first layer is
    divided by √channels, later ones by √N, none by the filter size; stride is 1.

    Args:
        filter: odd width k of the filter, the same in each spatial direction.
        padding: "circular" or "zero".
        readout: "position" has one weight per channel and position,
            f = Σ_{i,a} w_{i,a} φ(h_{i,a})/(γ₀N); "pool" averages φ over positions first.
    """

    depth: int
    filter: int = 3
    activation: Activation = "tanh"  # type: ignore[assignment]
    padding: str = "circular"
    readout: str = "position"

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


Network = MLP | CNN
NETWORKS = {"mlp": MLP, "cnn": CNN}
