"""Fully connected networks, with or without residual connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...errors import require, require_integer
from ..activations import Activation, Elementwise, as_activation
from .layout import Layout
from .network import Network
from .wiring import Wiring, feed_forward


@dataclass(frozen=True)
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

    depth: int
    activation: Activation = "tanh"  # type: ignore[assignment]
    residual: bool = False
    takes: ClassVar[str] = "(P, D) for an MLP"

    def __init__(self, depth: int, activation: str | Activation | Elementwise = "tanh", residual: bool = False):
        require_integer("depth", depth, 1)
        require(isinstance(residual, bool), "residual", residual, "True or False")
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "activation", as_activation(activation))
        object.__setattr__(self, "residual", residual)

    def fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == 2

    def wiring(self, shape: tuple[int, ...]) -> Wiring:
        return feed_forward(self.depth, Layout(), skip=1.0 if self.residual else 0.0)
