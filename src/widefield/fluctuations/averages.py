"""Gaussian averages behind the fluctuations: how kernels answer to the kernel below, and single-site fourth moments.

Derivatives by a covariance are taken of the Gaussian density, not of φ̇ (Stein's lemma), so that they are right for
ReLU, whose φ̈ automatic differentiation takes for 0.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ..numerics.quadrature import choose_resolution, elementwise, gaussian_line, polar_nodes
from ..numerics.sobol import sobol_normals
from ..problem.activations import Activation

# Pairs with 1−ρ² below this are one direction: their h are multiples of each other, at any width.
_COLLINEAR = 1e-9
_PANELS = 24


class Pairs(NamedTuple):
    """The P(P+1)/2 entries of a symmetric matrix: first and second point of each, and their places (P, P)."""

    first: np.ndarray
    second: np.ndarray
    place: np.ndarray

    @classmethod
    def of(cls, points: int) -> Pairs:
        first, second = np.triu_indices(points)
        place = np.zeros((points, points), int)
        place[first, second] = place[second, first] = np.arange(len(first))
        return cls(first, second, place)


class LayerAverages(NamedTuple):
    """⟨φφ⟩ and ⟨φ̇φ̇⟩ (pairs,), and their derivatives by the kernel below (pairs, pairs)."""

    phi: np.ndarray
    phi_dot: np.ndarray
    phi_slope: np.ndarray
    phi_dot_slope: np.ndarray


def layer_averages(activation: Activation, below: np.ndarray, pairs: Pairs) -> tuple[LayerAverages, float]:
    """Averages over h ~ N(0, below), below (P, P), by quadrature, and its estimated relative error.

    Cost O(P²) two-dimensional integrals.
    """
    count = len(pairs.first)
    averages = LayerAverages(*(np.zeros(count) for _ in range(2)), *(np.zeros((count, count)) for _ in range(2)))
    sigma = np.sqrt(np.diag(below))
    ends = np.unique([sigma.min(), sigma.max()])
    resolution, error = (24, 64), 0.0
    if len(below) > 1:
        slope = elementwise(activation.phi_dot)
        resolution, error = choose_resolution(slope, slope, ends, ends)
    for index, (m, n) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        own, other, mixed = pairs.place[m, m], pairs.place[n, n], pairs.place[m, n]
        cosine = _cosine(below, m, n)
        if m == n or 1 - cosine**2 < _COLLINEAR:
            # The longer of the two leads: the other may be 0.
            lead, follow = (m, n) if sigma[m] >= sigma[n] else (n, m)
            values = _line(activation, float(sigma[lead]), float(np.sign(cosine) * sigma[follow]))
            columns = [pairs.place[lead, lead]]
        else:
            values = _plane(activation, below[np.ix_([m, n], [m, n])], np.arccos(cosine), resolution)
            columns = [own, mixed, other]
        averages.phi[index], averages.phi_dot[index], by_phi, by_phi_dot = values
        averages.phi_slope[index, columns] = by_phi
        averages.phi_dot_slope[index, columns] = by_phi_dot
    return averages, error


def _cosine(covariance: np.ndarray, m: int, n: int) -> float:
    size = np.sqrt(covariance[m, m] * covariance[n, n])
    return float(np.clip(covariance[m, n] / size, -1, 1)) if size > 0 else 1.0


def _values(activation: Activation, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    at = jnp.asarray(h)
    return np.asarray(activation.phi(at)), np.asarray(activation.phi_dot(at))


def _line(activation: Activation, sigma: float, sigma_: float) -> tuple[float, float, list[float], list[float]]:
    """Both preactivations multiples of one Gaussian; the kernel below moves along with the first one's variance."""
    t, weights = gaussian_line(_PANELS)
    (phi, dot), (phi_, dot_) = _values(activation, sigma * t), _values(activation, sigma_ * t)
    variance = sigma**2
    # d/da⟨F(√a t)⟩ = ⟨t F'⟩/(2√a) where F is continuous, and by the density ⟨F (t²−1)⟩/(2a) where it may jump.
    slope = weights @ (t * (sigma * dot * phi_ + phi * sigma_ * dot_)) / (2 * variance) if variance > 0 else 0.0
    dot_slope = weights @ (dot * dot_ * (t**2 - 1)) / (2 * variance) if variance > 0 else 0.0
    return float(weights @ (phi * phi_)), float(weights @ (dot * dot_)), [float(slope)], [float(dot_slope)]


def _plane(activation: Activation, covariance: np.ndarray, angle: float, resolution: tuple[int, int]):
    """Two correlated preactivations; derivatives by (variance, covariance, other variance)."""
    first, second, weights = (nodes[0] for nodes in polar_nodes(np.array([angle]), resolution))
    a, c, b = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    h, h_ = np.sqrt(a) * first, np.sqrt(b) * second
    (phi, dot), (phi_, dot_) = _values(activation, h), _values(activation, h_)
    both = dot * dot_
    mean = float(weights @ both)
    # ⟨φ̈φ'⟩ from one integration by parts: ⟨hφ̇φ'⟩ = a⟨φ̈φ'⟩ + c⟨φ̇φ̇'⟩.
    by_phi = [
        float(weights @ (h * dot * phi_) - c * mean) / (2 * a),
        mean,
        float(weights @ (h_ * dot_ * phi) - c * mean) / (2 * b),
    ]
    precision = np.linalg.inv(covariance)
    q, q_ = precision @ np.stack([h, h_])
    by_dot = [
        float(weights @ (both * (q * q - precision[0, 0]))) / 2,
        float(weights @ (both * (q * q_ - precision[0, 1]))),
        float(weights @ (both * (q_ * q_ - precision[1, 1]))) / 2,
    ]
    return float(weights @ (phi * phi_)), mean, by_phi, by_dot


def site_nodes(covariance: np.ndarray, samples: int, seeds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Nodes h (nodes, P) and weights for averages over N(0, covariance): quadrature for one and two points, else
    `seeds` independent scrambled Sobol sets."""
    points = len(covariance)
    sigma = np.sqrt(np.diag(covariance))
    if points == 1:
        t, weights = gaussian_line(_PANELS)
        return [(sigma * t[:, None], weights)]
    if points == 2:
        angle = np.arccos(_cosine(covariance, 0, 1))
        first, second, weights = (nodes[0] for nodes in polar_nodes(np.array([angle]), (48, 96)))
        return [(np.stack([sigma[0] * first, sigma[1] * second], axis=1), weights)]
    values, vectors = np.linalg.eigh(covariance)
    # Largest directions first: the leading Sobol coordinates are the most even.
    factor = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1]
    sets = []
    for replicate in range(seeds):
        h = sobol_normals([seed, replicate], points, samples).T @ factor.T
        sets.append((h, np.full(samples, 1 / samples)))
    return sets


def site_covariance(
    activation: Activation,
    nodes: tuple[np.ndarray, np.ndarray],
    averages: LayerAverages,
    above: np.ndarray,
    pairs: Pairs,
) -> np.ndarray:
    """Covariance (2·pairs, 2·pairs) of φφ, then gg, of a single neuron, with z ~ N(0, above) independent of h.

    ⟨gggg⟩ = ⟨φ̇φ̇φ̇φ̇⟩⟨zzzz⟩, the latter by Wick's theorem.
    """
    h, weights = nodes
    phi, dot = _values(activation, h)
    m, n = pairs.first, pairs.second
    features, slopes = phi[:, m] * phi[:, n] - averages.phi, dot[:, m] * dot[:, n]
    signal = above[m, n]
    wick = (
        np.outer(signal, signal) + above[np.ix_(m, m)] * above[np.ix_(n, n)] + above[np.ix_(m, n)] * above[np.ix_(n, m)]
    )
    feature_part = features.T @ (weights[:, None] * features)
    mixed = features.T @ (weights[:, None] * (slopes - averages.phi_dot)) * signal
    mean = averages.phi_dot * signal
    gradient_part = slopes.T @ (weights[:, None] * slopes) * wick - np.outer(mean, mean)
    return np.block([[feature_part, mixed], [mixed.T, gradient_part]])
