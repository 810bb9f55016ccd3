"""Gaussian averages of any activation by quadrature.

Two Gaussians of correlation cos θ are h = σ r cos ψ, h' = σ' r cos(ψ−θ), with r e^{−r²/2} dr dψ/2π. The lines
h = 0 and h' = 0 cut the plane into four sectors; Gauss–Legendre rules inside each converge geometrically for
functions that are smooth on either side of 0 (tanh, softplus, and also leaky ReLU, ELU, |h|). Gauss–Legendre nodes
crowd at the sectors' edges, where steep activations turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import jax
import numpy as np
from jax import Array

# The Gaussian weight at this radius is e^{−72}: below rounding, also after growth such as e^{2h}.
RADIUS = 12.0
# (angular nodes per sector, radial nodes), from cheap to careful.
RESOLUTIONS = ((24, 64), (48, 96), (96, 192), (192, 384))
# What tables and rules aim for; far below the tolerance that callers are promised.
GOAL = 1e-12

PIECE = 2**15

Function = Callable[[Array], Array]
NumpyFunction = Callable[[np.ndarray], np.ndarray]


def legendre(nodes: int, panels: int = 1, low: float = 0.0, high: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Composite Gauss–Legendre nodes and weights on [low, high]."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    edges = np.linspace(low, high, panels + 1)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (t + 1)).ravel(), (half * w).ravel()


def gaussian_line(panels: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the standard normal on a line, with a panel edge at 0."""
    r, w = legendre(16, panels, 0.0, RADIUS)
    w = w * np.exp(-(r**2) / 2) / np.sqrt(2 * np.pi)
    return np.concatenate([-r[::-1], r]), np.concatenate([w[::-1], w])


def polar_nodes(theta: np.ndarray, resolution: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """r cos ψ, r cos(ψ−θ) and weights, each (len(theta), nodes); exact up to the rule's order for every θ in [0, π]."""
    angular, radial = resolution
    t, wt = legendre(angular)
    r, wr = legendre(radial, 1, 0.0, RADIUS)
    wr = wr * r * np.exp(-(r**2) / 2) / (2 * np.pi)
    theta = np.asarray(theta, float)[:, None, None]
    starts = np.concatenate(
        [0 * theta - np.pi / 2, theta - np.pi / 2, 0 * theta + np.pi / 2, theta + np.pi / 2], axis=1
    )
    widths = np.concatenate([theta, np.pi - theta, theta, np.pi - theta], axis=1)
    psi = (starts + widths * t).reshape(len(theta), -1, 1)
    weights = (widths * wt).reshape(len(theta), -1, 1) * wr
    first, second = np.cos(psi) * r, np.cos(psi - theta) * r
    return tuple(a.reshape(len(theta), -1) for a in (first, second, weights))  # type: ignore[return-value]


@partial(jax.jit, static_argnums=0)
def _apply(function: Function, values: Array) -> Array:
    return function(values)


def elementwise(function: Function) -> NumpyFunction:
    """`function` on NumPy arrays of any shape, compiled once: values go through in pieces of one size."""

    def apply(values: np.ndarray) -> np.ndarray:
        flat = np.ravel(values)
        pieces = np.zeros(-(-flat.size // PIECE) * PIECE)
        pieces[: flat.size] = flat
        done = [np.asarray(_apply(function, piece)) for piece in pieces.reshape(-1, PIECE)]
        return np.concatenate(done)[: flat.size].reshape(np.shape(values))

    return apply


def pair_products(
    left: NumpyFunction,
    right: NumpyFunction,
    theta: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    resolution: tuple[int, int],
) -> np.ndarray:
    """⟨left(a ξ) right(b ξ')⟩ for all angles θ and scales a, b: (len(theta), len(a), len(b))."""

    def one(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return (left(a[:, None] * first) * weights) @ right(b[:, None] * second).T

    # One angle at a time keeps memory small.
    return np.stack([one(*nodes) for nodes in zip(*polar_nodes(theta, resolution), strict=True)])


def choose_resolution(
    left: NumpyFunction, right: NumpyFunction, a: np.ndarray, b: np.ndarray
) -> tuple[tuple[int, int], float]:
    """The cheapest resolution that is good to GOAL at probe angles, and its error relative to the largest average."""
    theta = np.pi * np.array([0.003, 0.05, 0.25, 0.5, 0.8, 0.99])
    before = pair_products(left, right, theta, a, b, RESOLUTIONS[0])
    error = np.inf
    for coarse, fine in pairwise(RESOLUTIONS):
        after = pair_products(left, right, theta, a, b, fine)
        scale = np.max(np.abs(after))
        error = float(np.max(np.abs(after - before)) / scale) if scale > 0 else 0.0
        if error < GOAL:
            return coarse, error
        before = after
    return RESOLUTIONS[-1], error


def moments(functions: tuple[NumpyFunction, ...], sigma: np.ndarray) -> tuple[np.ndarray, float]:
    """⟨f(σξ)²⟩ for each function and σ, (functions, len(sigma)), and the relative error estimate."""
    found = []
    for panels in (12, 24):
        nodes, weights = gaussian_line(panels)
        # σ in pieces, so that memory stays small for many points.
        pieces = np.array_split(sigma, -(-sigma.size * nodes.size // 2**24))
        found.append(
            np.concatenate([[f(s[:, None] * nodes) ** 2 @ weights for f in functions] for s in pieces], axis=1)
        )
    coarse, fine = found
    scale = np.maximum(np.max(np.abs(fine), axis=1, keepdims=True), np.finfo(float).tiny)
    return fine, float(np.max(np.abs(fine - coarse) / scale))
