"""One hidden layer of a linear network: fields as combinations of Gaussian sources (App. E).

The single-site process of layer ℓ has the sources u (covariance Φ^{ℓ−1}), r (G^{ℓ+1}), and, where the rule has
them, v (G̃̃^{ℓ+1}, correlated with r by G̃^{ℓ+1}) and an independent one, `fresh` (ζ̃, or the z̃ of direct feedback).
With φ(h) = h every field is a linear combination of sources at no later times. A layer keeps these coefficients
(the matrices R of App. E) and grows them by one time at once; responses are coefficients and kernels are products
of coefficients with the source covariances. Rows and columns are ordered by time, then point, then output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...rules.rule import Rule

Combination = dict[str, np.ndarray]  # coefficients (rows, source entries) per source


@dataclass(eq=False)
class Kernels:
    """Two-time kernels of one layer; rows of G̃ are the true gradient's."""

    phi: np.ndarray
    g: np.ndarray
    g_tilde: np.ndarray
    g_tilde_tilde: np.ndarray

    @classmethod
    def zeros(cls, forward: int, backward: int) -> Kernels:
        return cls(np.zeros((forward, forward)), *(np.zeros((backward, backward)) for _ in range(3)))


@dataclass(frozen=True)
class Sizes:
    """Numbers of times, training points and outputs."""

    times: int
    points: int
    outputs: int

    @property
    def columns(self) -> int:
        """Entries of a backward field at one time, P·C."""
        return self.points * self.outputs


class LinearLayer:
    """Fields h, g and g̃ of layer ℓ up to the present time. Cost per time t: O(P·(Pt)²) per pair of fields."""

    def __init__(self, sizes: Sizes, rule: Rule, below: np.ndarray, above: Kernels, true_above: bool):
        feedback = rule.feedback
        self.sizes, self.rule, self.above = sizes, rule, above
        self.true_here = true_above and rule.is_gradient
        self.chained = feedback.chained
        self.rho = feedback.rho
        self.learns = feedback.learns
        self.kernels = Kernels.zeros(sizes.times * sizes.points, sizes.times * sizes.columns)
        self.covariance = {("u", "u"): below, ("r", "r"): above.g}
        self.signal_source = "r" if true_above else "v"
        if self.rho != 0 and not true_above:
            self.covariance |= {
                ("r", "v"): above.g_tilde,
                ("v", "r"): above.g_tilde.T,
                ("v", "v"): above.g_tilde_tilde,
            }
        if feedback.direct:
            self.fresh = 1.0
            self.covariance["fresh", "fresh"] = _per_output(sizes)
        else:
            self.fresh = math.sqrt(1 - self.rho**2) if self.chained else 0.0
            if self.fresh:
                self.covariance["fresh", "fresh"] = above.g_tilde_tilde
        self.width = {a: sizes.points if a == "u" else sizes.columns for a, b in self.covariance if a == b}
        rows = {"h": sizes.points, "g": sizes.columns, "g_tilde": sizes.columns}
        self.fields: dict[str, Combination] = {
            name: {kind: np.zeros((sizes.times * n, sizes.times * w)) for kind, w in self.width.items()}
            for name, n in rows.items()
            if not (name == "g_tilde" and self.true_here)
        }
        if self.true_here:
            self.fields["g_tilde"] = self.fields["g"]

    def past(self, name: str, until: int) -> Combination:
        """Coefficients of a field at times before `until` on sources at times before `until`."""
        rows = until * (self.sizes.points if name == "h" else self.sizes.columns)
        return {kind: value[:rows, : until * self.width[kind]] for kind, value in self.fields[name].items()}

    def response(self, name: str, kind: str, t: int) -> np.ndarray | None:
        """⟨∂field(t)/∂source(s)⟩ of the training points for s ≤ t, or None where there is no such source."""
        if kind not in self.width:
            return None
        rows = self.sizes.points if name == "h" else self.sizes.columns
        return self.fields[name][kind][t * rows : (t + 1) * rows, : (t + 1) * self.width[kind]]

    def with_sources(self, combination: Combination, until: int) -> Combination:
        """Covariance of a combination with all sources at times before `until`."""
        out = {kind: np.zeros((len(combination["u"]), until * w)) for kind, w in self.width.items()}
        for (a, b), covariance in self.covariance.items():
            out[b] += combination[a] @ covariance[: combination[a].shape[1], : out[b].shape[1]]
        return out

    def forward(self, t: int, below: np.ndarray, through_g: np.ndarray, through_g_tilde: np.ndarray, decay: float):
        """h(t) = decay·u(t) + Σ_{s<t} [through_g·g(s) + through_g_tilde·g̃(s)] for training, then test points.

        Args:
            below: Φ^{ℓ−1}(t, s ≤ t), (points, (t+1)·P).

        Returns Φ^ℓ(t, s ≤ t), (points, (t+1)·P), and keeps h(t) of the training points.
        """
        points, now = self.sizes.points, slice(t * self.sizes.points, (t + 1) * self.sizes.points)
        g, g_tilde = self.past("g", t), self.past("g_tilde", t)
        # Test points' own u(t) is no source of any other field, so only its covariance with the others is needed.
        self.inherited = {kind: through_g @ g[kind] + through_g_tilde @ g_tilde[kind] for kind in self.width}
        for kind, value in self.inherited.items():
            self.fields["h"][kind][now, : value.shape[1]] = value[:points]
        self.fields["h"]["u"][now, now] += decay * np.eye(points)
        shared = self.with_sources(self.inherited, t + 1)
        shared["u"] += decay * below
        rows = _product(shared, self.past("h", t + 1))
        fill(self.kernels.phi, rows[:points], t)
        self.below, self.decay = below, decay
        return rows

    def pregradient(self, t: int, through_h: np.ndarray) -> Combination:
        """g(t) = decay·r(t) + Σ_{s≤t} through_h·h(s), with the decay of `forward`; returns its covariances."""
        columns = self.sizes.columns
        now = slice(t * columns, (t + 1) * columns)
        self._combine("g", now, through_h, t)
        self.fields["g"]["r"][now, now] += self.decay * np.eye(columns)
        shared = self.with_sources(self._rows("g", now, t), t + 1)
        fill(self.kernels.g, _product(shared, self.past("g", t + 1)), t)
        return shared

    def output(self, t: int, shared: Combination) -> np.ndarray:
        """⟨z(t)h(t)⟩, (points, C), of training, then test points, at the last layer, where z knows no point."""
        outputs, columns = self.sizes.outputs, self.sizes.columns
        now = slice(t * columns, (t + 1) * columns)
        own = self.decay * self.below @ self._rows("g", now, t)["u"][:outputs].T
        return own + sum(value @ shared[kind][:outputs, : value.shape[1]].T for kind, value in self.inherited.items())  # type: ignore[return-value]

    def pseudo_gradient(
        self, t: int, through_h: np.ndarray, decay: float, a: np.ndarray, b: np.ndarray, shared: Combination
    ) -> None:
        """g̃(t) = a·h(t) + b·[decay·(ρv(t) + fresh(t)) + Σ_{s≤t} through_h·h(s)], with its kernels.

        Args:
            shared: what `pregradient` returned.
            a, b: (P, C).
        """
        points, columns, outputs = self.sizes.points, self.sizes.columns, self.sizes.outputs
        now = slice(t * columns, (t + 1) * columns)
        if self.true_here:
            fill(self.kernels.g_tilde, self.kernels.g[now, : now.stop], t)
            fill(self.kernels.g_tilde_tilde, self.kernels.g[now, : now.stop], t)
            return
        weights = b.reshape(-1, 1) * through_h
        weights[np.arange(columns), t * points + np.arange(columns) // outputs] += a.reshape(-1)
        self._combine("g_tilde", now, weights, t)
        diagonal = np.diag(decay * b.reshape(-1))
        if self.rho != 0:
            self.fields["g_tilde"][self.signal_source][now, now] += self.rho * diagonal
        if self.fresh:
            self.fields["g_tilde"]["fresh"][now, now] += self.fresh * diagonal
        mine = self.with_sources(self._rows("g_tilde", now, t), t + 1)
        kernel, past = self.kernels.g_tilde, self.past("g_tilde", t + 1)
        kernel[now, : now.stop] = _product(shared, past)
        kernel[: now.stop, now] = _product(mine, self.past("g", t + 1)).T
        fill(self.kernels.g_tilde_tilde, _product(mine, past), t)

    def _combine(self, name: str, now: slice, through_h: np.ndarray, t: int) -> None:
        for kind, h in self.past("h", t + 1).items():
            self.fields[name][kind][now, : h.shape[1]] = through_h @ h

    def _rows(self, name: str, now: slice, t: int) -> Combination:
        return {kind: value[now, : (t + 1) * self.width[kind]] for kind, value in self.fields[name].items()}


def fill(kernel: np.ndarray, rows: np.ndarray, t: int) -> None:
    """Write kernel(t, s ≤ t) and its mirror image."""
    block = len(rows)
    now = slice(t * block, (t + 1) * block)
    kernel[now, : now.stop] = rows
    kernel[: now.stop, now] = rows.T


def _product(shared: Combination, fields: Combination) -> np.ndarray:
    return sum(shared[kind] @ value.T for kind, value in fields.items())  # type: ignore[return-value]


def _per_output(sizes: Sizes) -> np.ndarray:
    """δ_cc' for all times and points: the covariance of one fixed N(0,1) vector per output."""
    every = np.ones((sizes.times * sizes.points,) * 2)
    return np.kron(every, np.eye(sizes.outputs))


def output_kernels(sizes: Sizes) -> Kernels:
    """Layer L+1, the outputs themselves: g = g̃ = one per output."""
    ones = _per_output(sizes)
    return Kernels(np.zeros((0, 0)), ones, ones, ones)
