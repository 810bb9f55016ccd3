"""Static kernels of recurrent networks: a recursion over frames that share their weights.

At the start h is Gaussian over frames and points. With drives d_t = W φ(h_{t−1})/√N + U x_t/√D,

    ⟨d_t d_s⟩ = g² Φ(t−1, s−1) + x_t·x_s/D,   h_t = a Σ_{u≤t} (1−a)^{t−u} d_u,   Φ(t, s) = ⟨φ(h_t)φ(h_s)⟩

Gradients are odd in the readout, so that W has no response, and pre-gradients z_t^r of the output at frame r are
centred, Gaussian and independent of h:

    ⟨z_t^r z_s^q⟩ = [t=r][s=q] + a²g² G(t+1 r, s+1 q)
    G(t r, s q) = Σ_{u≥t, v≥s} (1−a)^{u−t+v−s} Φ̇(u, v) ⟨z_u^r z_v^q⟩
    K(r, q) = Φ(r, q) + a² Σ_{t,s} G̃(t r, s q) [Φ(t−1, s−1) + x_t·x_s/D]

Arrays have the axes (frame, frame_[, read, read_], …, rows, columns). Cost O(T²·(T + R²)) per pair of points, R being
the number of frames that are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...errors import InputError
from ...numerics.memory import check_memory
from ...problem.activations import Activation
from ...problem.networks import Network, Wiring
from ...rules.feedback import Feedback, Past
from ...rules.rule import Rule
from .closed_forms import CLOSED_FORMS
from .points import single_point_averages
from .recursion import correlation
from .tables import PairTable, build_table, evaluate


class Averages:
    """⟨φ(h)φ(h')⟩ and ⟨φ̇(h)φ̇(h')⟩: closed forms, or tables up to the largest standard deviation seen."""

    def __init__(self, activation: Activation, accuracy: float):
        self.activation, self.accuracy = activation, accuracy
        self._high, self._tables = 0.0, ()

    def __call__(self, covariance: np.ndarray, sigma: np.ndarray, sigma_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For covariances (…, n, m) and standard deviations (…, n) and (…, m)."""
        if self.activation in CLOSED_FORMS:
            return jax.device_get(_closed(self.activation, covariance, sigma, sigma_))
        self._reach(float(max(sigma.max(), sigma_.max())))
        coefficients = tuple(jnp.asarray(table.coefficients) for table in self._tables)
        rows, columns = (tuple(table.basis(s) for table in self._tables) for s in (sigma, sigma_))
        return jax.device_get(_tabled(coefficients, covariance, sigma, sigma_, rows, columns))

    def equal(self, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """⟨φ²⟩ and ⟨φ̇²⟩."""
        return single_point_averages(self.activation, sigma, self.accuracy)

    def _reach(self, sigma: float) -> None:
        if sigma <= self._high:
            return
        self._high = max(1.0, 2.0 ** math.ceil(math.log2(sigma)))
        name = f"activation {self.activation.name}"
        functions = (self.activation.phi, self.activation.phi_dot)
        self._tables: tuple[PairTable, ...] = tuple(
            build_table(function, 0.0, self._high, self.accuracy, name)[0] for function in functions
        )


@partial(jax.jit, static_argnames="activation")
def _closed(activation: Activation, covariance: Array, sigma: Array, sigma_: Array) -> tuple[Array, Array]:
    across, along = sigma[..., None], sigma_[..., None, :]
    return CLOSED_FORMS[activation].pair(correlation(covariance, across, along), across, along)


@jax.jit
def _tabled(coefficients, covariance: Array, sigma: Array, sigma_: Array, rows, columns) -> tuple[Array, ...]:
    rho = correlation(covariance, sigma[..., None], sigma_[..., None, :])
    return tuple(evaluate(*one) for one in zip(coefficients, (rho, rho), rows, columns, strict=True))


class Forward(NamedTuple):
    """Of a set of pairs: x_t·x_s/D, Φ and Φ̇ (T, T, …, n, m), and σ of what φ̇ acts on, (T, …, n) and (T, …, m)."""

    inner: np.ndarray
    phi: np.ndarray
    phi_dot: np.ndarray
    sigma: np.ndarray
    sigma_: np.ndarray


@dataclass(frozen=True)
class Frames:
    """A recurrent network as the recursion sees it: a is the leak, b = 1 − a, g the gain."""

    count: int
    a: float
    b: float
    g: float
    reads: tuple[int, ...]
    taught: tuple[int, ...]

    @staticmethod
    def of(network: Network, wiring: Wiring) -> Frames:
        first, later = wiring.stages[0], {(s.gain, s.carry, s.matrix, s.population) for s in wiring.stages[1:]}
        alike = wiring.populations == 1 and len(later) <= 1 and not wiring.layout.grid
        if wiring.structure:
            raise InputError("structure is not (); allowed in the lazy limit: recurrent networks without structure")
        if not alike:
            raise InputError(f"network is {network!r}; allowed in the lazy limit: feed-forward networks and RNNs")
        reads = tuple(k for k, stage in enumerate(wiring.stages) if stage.read is not None)
        b = wiring.stages[-1].carry
        return Frames(
            len(wiring.stages), first.gain, b, wiring.start, reads, tuple(stage.taught for stage in wiring.stages)
        )

    def forward(self, gated: bool, averages: Averages, inner: np.ndarray, known: Forward | None = None) -> Forward:
        """Frame by frame. Without `known` standard deviations the pairs are points with themselves, (T, T, n, 1, 1)."""
        shape, frames = inner.shape, self.count
        leaked = self.a * np.tril(self.b ** np.maximum(np.subtract.outer(np.arange(frames), np.arange(frames)), 0))
        drive, h, phi, phi_dot = (np.zeros(shape) for _ in range(4))
        sigma, sigma_ = (np.zeros((frames, *shape[2:-1])),) * 2 if known is None else (known.sigma, known.sigma_)
        for t in range(frames):
            past = slice(t + 1)
            drive[t, past], drive[past, t] = inner[t, past], inner[past, t]
            if t:
                drive[t, 1 : t + 1] += self.g**2 * phi[t - 1, :t]
                drive[1:t, t] += self.g**2 * phi[: t - 1, t - 1]
            weights = leaked[past, past]
            h[t, past] = np.tensordot(weights, np.tensordot(weights[t], drive[past, past], 1), 1)
            h[past, t] = np.tensordot(weights, np.tensordot(weights[t], drive[past, past], (0, 1)), 1)
            acts_on = inner if gated else h
            if known is None:
                sigma[t] = np.sqrt(np.maximum(acts_on[t, t, ..., 0], 0.0))
            # Frames to come have σ = 0, so that all rounds have one shape and one compilation.
            row = averages(acts_on[t], np.broadcast_to(sigma[t], sigma.shape), sigma_)
            column = averages(acts_on[:, t], sigma, np.broadcast_to(sigma_[t], sigma_.shape))
            for kernel, across, along in zip((phi, phi_dot), row, column, strict=True):
                kernel[t, past], kernel[past, t] = across[past], along[past]
            if known is None:
                phi[t, t, ..., 0], phi_dot[t, t, ..., 0] = averages.equal(sigma[t])
            if gated:
                phi[t, past], phi[past, t] = phi_dot[t, past] * h[t, past], phi_dot[past, t] * h[past, t]
        return Forward(inner, phi, phi_dot, sigma, sigma_)

    def pairs(self, gated: bool, averages: Averages, x: np.ndarray, x2: np.ndarray | None) -> Forward:
        """All points x (n, T, D) against x2, or against themselves."""
        alone = [self._alone(gated, averages, points) for points in ([x] if x2 is None else [x, x2])]
        left, right = alone[0], alone[-1]
        other = x if x2 is None else x2
        inner = np.einsum("ntd,msd->tsnm", x, other, optimize=True) / x.shape[-1]
        sigma, sigma_ = (one.sigma[..., 0] for one in (left, right))
        found = self.forward(gated, averages, inner, Forward(inner, inner, inner, sigma, sigma_))
        if x2 is None:  # a point with itself as it is alone, where equal frames are exact
            index = np.arange(len(x))
            for kernel, exact in ((found.phi, left.phi), (found.phi_dot, left.phi_dot)):
                kernel[:, :, index, index] = exact[..., 0, 0]
        return found

    def _alone(self, gated: bool, averages: Averages, x: np.ndarray) -> Forward:
        inner = np.einsum("ntd,nsd->tsn", x, x, optimize=True)[..., None, None] / x.shape[-1]
        return self.forward(gated, averages, inner)

    def backward(
        self, phi_dot: np.ndarray, local: Callable[[np.ndarray, np.ndarray], np.ndarray], chain: float,
        tops: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:  # fmt: skip
        """A gradient kernel (T, T, R, R, n, m).

        Args:
            local: makes its part of the present frames from that of the signals and Φ̇.
            chain: share of the later frames' kernel in that of the signals.
            tops: (T, R) each, for rows and columns: 1 where a signal comes from the output itself.
        """
        frames, b = self.count, self.b
        g = np.zeros((frames + 1, frames + 1, len(self.reads), len(self.reads), *phi_dot.shape[2:]))
        for t in reversed(range(frames)):
            for s in reversed(range(frames)):
                above = np.multiply.outer(tops[0][t], tops[1][s])[..., None, None] + chain * g[t + 1, s + 1]
                carried = b * (g[t + 1, s] + g[t, s + 1]) - b**2 * g[t + 1, s + 1]
                g[t, s] = local(above, np.broadcast_to(phi_dot[t, s], above.shape)) + carried
        return g[:-1, :-1]

    def from_readout(self) -> np.ndarray:
        """(T, R), 1 where the output is read."""
        return np.equal.outer(np.arange(self.count), np.asarray(self.reads)).astype(float)

    def from_error(self) -> np.ndarray:
        """(T, R), 1 where the output's error is sent straight."""
        return np.equal.outer(np.asarray(self.taught), np.arange(len(self.reads))).astype(float)


def frame_kernels(
    x: np.ndarray, network: Network, rule: Rule, x2: np.ndarray | None, outputs: frozenset[str], accuracy: float
) -> dict[str, np.ndarray]:
    """Kernels of sequences x (n, T, D) against x2 (m, T, D), or themselves.

    entk (n, m[, R, R]), parts (2, n, m[, R, R]) (all hidden weights, readout), phi and phi_dot (1, n, m, T, T); g,
    g_tilde and g_tilde_tilde (1, n, m, T, T[, R, R]), axes of R where several frames are read.
    """
    frames, [one] = Frames.of(network, network.wiring(x.shape)), rule.layers(1)
    if one.lazy_g_tilde(jnp.ones(1), jnp.ones(1)) is None:
        raise InputError(f"rule is {rule!r}; allowed in the lazy limit of a recurrent network: rules with lazy_g_tilde")
    columns, reads = len(x if x2 is None else x2), len(frames.reads)
    gradients = 2 + len(outputs & {"g", "g_tilde_tilde"})
    size = 8 * len(x) * columns * frames.count**2 * (6 + gradients * reads**2)
    check_memory(size, "the lazy limit of this recurrent network", "use fewer points or frames, or readout 'last'")
    made = frames.pairs(one.gated, Averages(network.activation, accuracy), x, x2)
    kernels = {"phi": made.phi, "phi_dot": made.phi_dot}
    ours, theirs = frames.from_readout(), frames.from_readout()
    size = _feedback_size(one.feedback, frames.g)

    def through(above: np.ndarray, phi_dot: np.ndarray) -> np.ndarray:
        return above * phi_dot

    def pseudo(above: np.ndarray, phi_dot: np.ndarray) -> np.ndarray:
        return np.asarray(one.lazy_g_tilde(above, phi_dot))  # type: ignore[arg-type]

    if "g" in outputs:
        kernels["g"] = frames.backward(made.phi_dot, through, (frames.a * frames.g) ** 2, (ours, theirs))
    if outputs & {"g_tilde", "entk", "parts"}:
        chain = frames.a**2 * frames.g * size
        kernels["g_tilde"] = frames.backward(made.phi_dot, pseudo, chain, (ours, theirs))
    if "g_tilde_tilde" in outputs:
        top = frames.from_error() if one.feedback.direct else theirs
        chain = (frames.a * size) ** 2 if one.feedback.chained else 0.0
        kernels["g_tilde_tilde"] = frames.backward(made.phi_dot, through, chain, (top, top))
    found = {name: _labelled(kernel)[None] for name, kernel in kernels.items() if name in outputs}
    if outputs & {"entk", "parts"}:
        parts = np.moveaxis(_parts(frames, made, kernels["g_tilde"]), (-2, -1), (1, 2))
        parts = parts if reads > 1 else parts[..., 0, 0]
        found |= {name: value for name, value in (("entk", parts.sum(0)), ("parts", parts)) if name in outputs}
    return found


def _parts(frames: Frames, made: Forward, g_tilde: np.ndarray) -> np.ndarray:
    """K of the hidden weights, then of the readout, (2, R, R, n, m)."""
    below = made.inner.copy()
    below[1:, 1:] += made.phi[:-1, :-1]
    hidden = frames.a**2 * np.einsum("tsrqnm,tsnm->rqnm", g_tilde, below, optimize=True)
    index = np.asarray(frames.reads)
    return np.stack([hidden, made.phi[np.ix_(index, index)]])


def _feedback_size(feedback: Feedback, start: float) -> float:
    """Standard deviation of the entries of the feedback matrix, W's being `start`."""
    if not feedback.chained:
        return 0.0
    numbers = feedback.coefficients(Past(1.0, 0, 0.0, start))
    aligned = sum(float(numbers.get(part, 0.0)) for part in ("current", "initial"))
    return start * math.hypot(aligned, float(numbers.get("fresh", 0.0)))


def _labelled(kernel: np.ndarray) -> np.ndarray:
    """(T, T[, R, R], n, m) to (n, m, T, T[, R, R]), without the axes of R where it is 1."""
    kernel = np.moveaxis(kernel, (-2, -1), (0, 1))
    return kernel[..., 0, 0] if kernel.ndim == 6 and kernel.shape[-1] == 1 else kernel
