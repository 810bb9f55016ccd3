"""Candidates and recordings with a known law: Gaussian neurons whose kernels move from Φ₀ towards another kernel."""

from __future__ import annotations

import numpy as np

import widefield as wf
from widefield.identification.predictions import Prediction

STEPS = np.array([0.0, 10.0, 20.0, 40.0])
STIMULI, LAYERS = 4, 2
PAIRS = np.triu_indices(STIMULI)


def kernels(times: np.ndarray, target: np.ndarray, speed: float = 0.05) -> np.ndarray:
    """(time, layer, P, P): Φ₀ + (1 − e^(−speed·t))·(target per layer)."""
    start = np.eye(STIMULI) + 0.2
    moved = 1 - np.exp(-speed * times)
    return start + moved[:, None, None, None] * target


def target_of(strength: float, seed: int = 0) -> np.ndarray:
    """Rank one changes of both layers, along a direction that depends on `seed`."""
    direction = np.random.default_rng(seed).standard_normal((LAYERS, STIMULI))
    return strength * np.einsum("lp,lq->lpq", direction, direction)


def neurons_of(kernel: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Neurons with these kernels (stage, layer, P, P): (stage, layer, P, neuron), the same Gaussians at all stages."""
    fresh = rng.standard_normal((LAYERS, STIMULI, count))
    return np.einsum("slpq,lqn->slpn", np.linalg.cholesky(kernel), fresh)


def prediction(target: np.ndarray, labels: dict | None = None, error: float = 1e-4, seed: int = 0) -> Prediction:
    rng = np.random.default_rng(seed)
    times = np.arange(0, 81, 2.0)
    mean = kernels(times, target)[..., PAIRS[0], PAIRS[1]]
    errors = error * rng.standard_normal((4, *mean.shape))
    particles = neurons_of(kernels(STEPS, target), 1500, rng)
    return Prediction(times, mean, errors, labels or {}, None, particles)


def record(
    target: np.ndarray, neurons: int, seed: int, *, gain: float = 1.0, scale: float = 1.0, trials: int = 0,
    noise: float = 0.0,
) -> wf.Observation:  # fmt: skip
    """Activity of some neurons; with `trials`, each with independent noise of this variance."""
    rng = np.random.default_rng(seed)
    activity = np.sqrt(gain) * neurons_of(kernels(STEPS * scale, target), neurons, rng)
    if trials:
        activity = activity[..., None] + np.sqrt(noise) * rng.standard_normal((*activity.shape, trials))
    return wf.observe(activity, STEPS)
