"""How kernels at initialisation fluctuate from network to network, to leading order in 1/N (App. H).

Kernels of a wide network are averages over neurons of kernels that already fluctuate:

    δΦ^ℓ = (∂Φ^ℓ/∂Φ^{ℓ−1}) δΦ^{ℓ−1} + ε_Φ^ℓ
    δG^ℓ = (∂G^ℓ/∂G^{ℓ+1}) δG^{ℓ+1} + (∂G^ℓ/∂Φ^{ℓ−1}) δΦ^{ℓ−1} + ε_G^ℓ

ε is the fluctuation of a mean over N independent neurons: its covariance is 1/N that of φφ and gg of a single one, ε_Φ
and ε_G of one layer are correlated, those of different layers are not. That W^ℓ is used on the way up and on the way
down changes G^ℓ by a product of two quantities of order 1/√N: the mean at order 1/N, the covariance only beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError, NotConvergedError, plain, require, require_integer, shown
from ..numerics.memory import check_memory
from ..precision import double_precision
from ..problem.arrays import real_array
from ..problem.networks import MLP
from .averages import LayerAverages, Pairs, layer_averages, site_covariance, site_nodes

# Relative error of the two-dimensional integrals above which there is no answer.
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class KernelCovariance:
    """Infinite-width kernels and covariances between networks of their finite-width versions, P points, L layers.

    Attributes:
        phi, g: Φ^ℓ and G^ℓ, (L, P, P); entk: K of gradient descent, (P, P).
        phi_phi, g_g, phi_g: Cov(Φ^ℓ_μν, Φ^ℓ'_αβ) and so on, (L, L, P, P, P, P) in the order ℓ, ℓ', μ, ν, α, β.
        entk_entk: Cov(K_μν, K_αβ), (P, P, P, P).
        errors: standard errors of these four by name, 0 where quadrature was used (one and two points).
    """

    phi: np.ndarray
    g: np.ndarray
    entk: np.ndarray
    phi_phi: np.ndarray
    g_g: np.ndarray
    phi_g: np.ndarray
    entk_entk: np.ndarray
    errors: dict[str, np.ndarray]


@double_precision
def kernel_covariance(
    network: MLP, x: ArrayLike, *, width: int = 1, samples: int = 2**14, seeds: int = 8, seed: int = 0
) -> KernelCovariance:
    """Leading covariance of Φ^ℓ, G^ℓ and the eNTK over random initialisations, for any activation.

    One and two points are solved by quadrature. Three and more take their fourth moments from `seeds` scrambled Sobol
    sets of `samples` nodes, which give the standard errors. Cost O(L·samples·seeds·P⁴ + L³P⁶).

    Args:
        network: an `MLP`.
        x: inputs (P, D).
        width: N. The default leaves N·Cov, the coefficient of 1/N.
        samples: nodes of one Sobol set, a power of 2.
        seeds: how many Sobol sets.
        seed: the same seed gives the same numbers.
    """
    width, samples, seeds, seed = (plain(value) for value in (width, samples, seeds, seed))
    points = _check(network, x, width, samples, seeds, seed)
    pairs = Pairs.of(len(points))
    averages, phi, g = _kernels(network, points, pairs)
    entries = (network.depth * len(points) ** 2) ** 2
    check_memory(8 * (2 * seeds + 8) * 3 * entries, "kernel_covariance", "take fewer points")
    runs: list[dict[str, np.ndarray]] = []
    sets = [site_nodes(phi[layer], samples, seeds, 1000 * seed + layer) for layer in range(network.depth)]
    for nodes in zip(*sets, strict=True):
        sites = [
            site_covariance(network.activation, nodes[layer], averages[layer], g[layer + 2], pairs)
            for layer in range(network.depth)
        ]
        runs.append(_propagate(averages, sites, phi, g, pairs, width))
    means = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
    spread = {
        name: np.std([run[name] for run in runs], axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0 * mean
        for name, mean in means.items()
    }
    entk = np.sum(phi * g[1:], axis=0)
    return KernelCovariance(phi[1:], g[1:-1], entk, **means, errors=spread)


def _check(network: MLP, x: ArrayLike, width: int, samples: int, seeds: int, seed: int) -> np.ndarray:
    if not isinstance(network, MLP) or network.residual:
        raise InputError(f"network is {shown(network)}; allowed: an MLP without residual connections")
    points = real_array("x", x)
    good = points.ndim == 2 and 0 not in points.shape
    require(bool(good), "x", f"of shape {points.shape}", "finite numbers of shape (P, D)")
    require_integer("width", width, 1)
    require_integer("samples", samples, 2)
    require(samples & (samples - 1) == 0, "samples", samples, "a power of 2")
    require_integer("seeds", seeds, 2)
    require_integer("seed", seed, 0)
    nodes = seeds * samples * (len(points) + 1) if len(points) > 2 else 0
    check_memory(8 * network.depth * (nodes + seeds), "kernel_covariance", "lower samples or seeds")
    return points


def _kernels(network: MLP, x: np.ndarray, pairs: Pairs) -> tuple[list[LayerAverages], np.ndarray, np.ndarray]:
    """Averages of layers 1 … L, Φ^0 … Φ^L as (L+1, P, P), and G^0 … G^{L+1} as (L+2, P, P), G^0 unused."""
    depth, count = network.depth, len(x)
    phi, g = np.zeros((depth + 1, count, count)), np.ones((depth + 2, count, count))
    phi[0] = x @ x.T / x.shape[1]
    averages = []
    for layer in range(1, depth + 1):
        found, error = layer_averages(network.activation, phi[layer - 1], pairs)
        if not error <= _TOLERANCE:
            raise NotConvergedError(
                f"Gaussian averages of {network.activation!r} have an estimated relative error of {error:.1e}; use an "
                "activation that is smooth but for a kink at 0"
            )
        averages.append(found)
        phi[layer] = found.phi[pairs.place]
    for layer in range(depth, 0, -1):
        g[layer] = g[layer + 1] * averages[layer - 1].phi_dot[pairs.place]
    return averages, phi, g


def _propagate(
    averages: list[LayerAverages], sites: list[np.ndarray], phi: np.ndarray, g: np.ndarray, pairs: Pairs, width: int
) -> dict[str, np.ndarray]:
    """Cov = U⁻¹ V U⁻ᵀ/N over (Φ¹ … Φ^L, G¹ … G^L), U = 1 − sensitivities, V the single-site covariances."""
    depth, count = len(sites), len(pairs.first)
    half = depth * count
    sensitivity, noise = np.eye(2 * half), np.zeros((2 * half, 2 * half))
    for layer in range(depth):
        up, down = (slice(start + layer * count, start + (layer + 1) * count) for start in (0, half))
        both = np.r_[up, down]
        noise[np.ix_(both, both)] = sites[layer]
        if layer > 0:
            below = slice((layer - 1) * count, layer * count)
            above = g[layer + 2][pairs.first, pairs.second]
            sensitivity[up, below] -= averages[layer].phi_slope
            sensitivity[down, below] -= above[:, None] * averages[layer].phi_dot_slope
        if layer + 1 < depth:
            over = slice(down.start + count, down.stop + count)
            sensitivity[down, over] -= np.diag(averages[layer].phi_dot)
    spread = np.linalg.solve(sensitivity, np.linalg.solve(sensitivity, noise).T) / width
    # δK = Σ_ℓ G^{ℓ+1}δΦ^ℓ + Φ^{ℓ−1}δG^ℓ, entry by entry.
    entk = np.zeros((count, 2 * half))
    for layer in range(depth):
        entk[:, layer * count : (layer + 1) * count] = np.diag(g[layer + 2][pairs.first, pairs.second])
        start = half + layer * count
        entk[:, start : start + count] = np.diag(phi[layer][pairs.first, pairs.second])
    blocks = spread.reshape(2, depth, count, 2, depth, count)

    def full(one: int, other: int) -> np.ndarray:
        block = blocks[one, :, :, other].transpose(0, 2, 1, 3)
        return block[:, :, pairs.place][..., pairs.place]

    return {
        "phi_phi": full(0, 0),
        "g_g": full(1, 1),
        "phi_g": full(0, 1),
        "entk_entk": (entk @ spread @ entk.T)[pairs.place][:, :, pairs.place],
    }
