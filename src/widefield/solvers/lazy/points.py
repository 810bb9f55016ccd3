"""What the recursion needs of each single point: its standard deviations and equal-point averages, layer by layer."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ...numerics.quadrature import elementwise, moments
from ...problem.activations import Activation
from ...problem.networks import Network, Wiring
from ...rules.rule import Rule
from .closed_forms import CLOSED_FORMS
from .tables import check_error


class Points(NamedTuple):
    """Single-point numbers, each (layers, batch, rows).

    Attributes:
        sigma: standard deviation of the preactivation h^ℓ.
        pivot: of what φ̇ acts on: h^ℓ, or the gate m in a gated network.
        phi: ⟨φ²⟩.
        phi_dot: ⟨φ̇²⟩.
    """

    sigma: np.ndarray
    pivot: np.ndarray
    phi: np.ndarray
    phi_dot: np.ndarray


def single_point_averages(activation: Activation, sigma: np.ndarray, accuracy: float) -> tuple[np.ndarray, np.ndarray]:
    """(⟨φ²⟩, ⟨φ̇²⟩) at each σ."""
    closed = CLOSED_FORMS.get(activation)
    if closed is not None:
        phi, phi_dot = closed.moments(jnp.asarray(sigma))
        return np.asarray(phi), np.asarray(phi_dot)
    unique, back = np.unique(sigma.ravel(), return_inverse=True)
    values, error = moments((elementwise(activation.phi), elementwise(activation.phi_dot)), unique)
    check_error(error, accuracy, f"activation {activation.name}")
    phi, phi_dot = values[:, back].reshape(2, *sigma.shape)
    return phi, phi_dot


def describe_points(rows: np.ndarray, network: Network, rule: Rule, wiring: Wiring, accuracy: float) -> Points:
    """Points of inputs (batch, rows, channels)."""

    def spread(values: np.ndarray) -> np.ndarray:
        return np.asarray(wiring.layout.spread_points(jnp.asarray(values)))

    variance = gate = spread(np.sum(rows**2, axis=-1))
    layers: list[tuple[np.ndarray, ...]] = []
    for index in range(network.depth):
        sigma = np.sqrt(variance)
        pivot = np.sqrt(gate) if rule.gated else sigma
        phi, phi_dot = single_point_averages(network.activation, pivot, accuracy)
        if rule.gated:
            phi = phi_dot * variance
        layers.append((sigma, pivot, phi, phi_dot))
        skip = wiring.stages[index + 1].carry ** 2 if index + 1 < network.depth else 0.0
        variance = skip * variance + spread(phi)
    return Points(*(np.stack(column) for column in zip(*layers, strict=True)))
