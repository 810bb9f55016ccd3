"""Fully connected networks, with or without residual connections."""

from __future__ import annotations

from typing import ClassVar

from ..activations import Activation, as_activation
from ..fields import checked, convert_fields, flag, frozen, whole
from .layout import Layout
from .network import MOST_LAYERS, Network
from .wiring import Wiring, feed_forward


@frozen()
class MLP(Network):
    """A fully connected network with `depth` hidden layers.

    h¹ = W⁰x/√D, h^{ℓ+1} = W^ℓφ(h^ℓ)/√N, f = w·φ(h^L)/(γ₀N). With `residual`,
    h^{ℓ+1} = h^ℓ + W^ℓφ(h^ℓ)/√N.

    Args:
        depth: L, the number of hidden layers.
        activation: φ: "relu" (which is √2·max(h, 0)), "tanh", "erf", "linear", "gelu", "softplus", `module:name` or a
            JAX-differentiable elementwise function.
        residual: skip connections between hidden layers.
    """

    depth: int = checked(whole(1, MOST_LAYERS))
    activation: Activation = checked(converter=as_activation, default="tanh")
    residual: bool = checked(flag, default=False)
    takes: ClassVar[str] = "(P, D) for an MLP"

    def __post_init__(self) -> None:
        convert_fields(self)

    def fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == 2

    def wiring(self, shape: tuple[int, ...]) -> Wiring:
        return feed_forward(self.depth, Layout(), skip=1.0 if self.residual else 0.0)
