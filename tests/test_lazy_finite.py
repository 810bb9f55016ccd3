"""Static kernels against networks of finite width at initialisation, written here in NumPy and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.solvers.lazy import kernels

ACTIVATIONS: dict[str, tuple[Callable, Callable]] = {
    "relu": (lambda h: np.sqrt(2) * np.maximum(h, 0), lambda h: np.sqrt(2) * (h > 0)),
    "tanh": (np.tanh, lambda h: 1 - np.tanh(h) ** 2),
}


@dataclass(frozen=True)
class SignFA(wf.rules.Rule):
    """Signs of the fed-back signal only, and a part that ignores it; no closed form is stated."""

    rho: float = 0.7

    @property
    def feedback(self):  # type: ignore[override]
        return wf.rules.Weights(self.rho, learns=False)

    def local(self, site):
        return site.phi_dot * jnp.sign(site.signal) + 2.0 * site.phi


def pseudo(kind: str, phi, phi_dot, signal, rng):
    if kind in ("gd", "gln", "fa"):
        return phi_dot * signal
    if kind == "dfa":
        return phi_dot * rng.standard_normal(phi.shape[1])
    if kind == "hebb":
        return phi
    return phi_dot * np.sign(signal) + 2.0 * phi


def mlp(x, depth, activation, kind, width, rng, rho=1.0, residual=False):
    """One network's Φ, G, G̃ (L, P, P) and eNTK, rows the true gradient."""
    phi_of, dot_of = ACTIVATIONS[activation]
    n_in = x.shape[1]
    h, m, phi, dot, w = [], [], [], [], []
    signal_in, scale = x, np.sqrt(n_in)
    for layer in range(depth):
        weights = rng.standard_normal((width, signal_in.shape[1]))
        w.append(weights)
        new = signal_in @ weights.T / scale
        h.append(new + h[-1] if residual and layer else new)
        m.append(x @ rng.standard_normal((width, n_in)).T / np.sqrt(n_in) if kind == "gln" else h[-1])
        dot.append(dot_of(m[-1]))
        phi.append(dot[-1] * h[-1] if kind == "gln" else phi_of(h[-1]))
        signal_in, scale = phi[-1], np.sqrt(width)
    readout, other = rng.standard_normal((2, width))
    fixed = np.sqrt(1 - rho**2)
    g, tilde = [None] * depth, [None] * depth
    for layer in reversed(range(depth)):
        if layer == depth - 1:
            z, signal = np.tile(readout, (len(x), 1)), np.tile(rho * readout + fixed * other, (len(x), 1))
        else:
            feedback = rho * w[layer + 1] + fixed * rng.standard_normal((width, width))
            z, signal = g[layer + 1] @ w[layer + 1] / np.sqrt(width), tilde[layer + 1] @ feedback / np.sqrt(width)
        g[layer] = dot[layer] * z
        tilde[layer] = pseudo(kind, phi[layer], dot[layer], signal, rng)
        if residual and layer + 1 < depth:
            g[layer] = g[layer] + g[layer + 1]
            tilde[layer] = tilde[layer] + tilde[layer + 1] if kind in ("gd", "fa") else tilde[layer]
    features = [x @ x.T / n_in, *(p @ p.T / width for p in phi)]
    gram = [a @ b.T / width for a, b in zip(g, tilde, strict=True)]
    ntk = features[-1] + sum(a * b for a, b in zip(features, gram, strict=False))
    return {
        "phi": np.stack(features[1:]),
        "g": np.stack([a @ a.T / width for a in g]),
        "g_tilde": np.stack(gram),
        "entk": ntk,
    }


def agree(theory, draws: list[dict[str, np.ndarray]], names, bias: float) -> None:
    """Means over networks within 5 standard errors plus the O(1/N) bias; false alarms: < 1e-4 per test."""
    for name in names:
        values = np.stack([draw[name] for draw in draws])
        mean, error = values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))
        gap = np.abs(mean - getattr(theory, name))
        assert np.all(gap <= 5 * error + bias), (name, np.max(gap / (error + bias / 5)))


X = np.random.default_rng(3).standard_normal((4, 6))
RULES = [
    ("gd", "gd", 1.0),
    ("fa", wf.rules.FA(0.6), 0.6),
    ("dfa", "dfa", 1.0),
    ("gln", "gln", 1.0),
    ("hebb", "hebb", 1.0),
]


@pytest.mark.parametrize(("kind", "rule", "rho"), RULES, ids=[r[0] for r in RULES])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_every_rule_against_networks(kind, rule, rho, activation):
    rng = np.random.default_rng(11)
    draws = [mlp(X, 3, activation, kind, 256, rng, rho) for _ in range(40)]
    theory = kernels(X, wf.MLP(3, activation), rule)
    agree(theory, draws, ("phi", "g", "g_tilde", "entk"), bias=0.02)


@pytest.mark.parametrize(("kind", "rule", "rho"), [RULES[0], RULES[1], RULES[2]], ids=["gd", "fa", "dfa"])
def test_residual_networks(kind, rule, rho):
    rng = np.random.default_rng(5)
    draws = [mlp(X, 3, "relu", kind, 256, rng, rho, residual=True) for _ in range(40)]
    theory = kernels(X, wf.MLP(3, "relu", residual=True), rule)
    # Kernels double with each residual layer; the O(1/N) bias grows along.
    agree(theory, draws, ("phi", "g", "g_tilde", "entk"), bias=0.1)


@pytest.mark.slow
def test_a_rule_without_closed_form_against_networks():
    rng = np.random.default_rng(6)
    draws = [mlp(X, 3, "relu", "sign", 1000, rng, 0.7) for _ in range(40)]
    agree(kernels(X, wf.MLP(3, "relu"), SignFA(0.7)), draws, ("g_tilde", "entk"), bias=0.004)


def test_squared_error_falls_as_one_over_width():
    """Figure 2 (d)–(f). The slope of log error over log N, 60 networks per width, scatters by about 0.06."""
    rng = np.random.default_rng(8)
    theory = kernels(X, wf.MLP(2, "relu"), wf.rules.FA(0.5))
    widths = np.array([40, 80, 160, 320])
    for name in ("phi", "g", "entk"):
        errors = []
        for width in widths:
            draws = [mlp(X, 2, "relu", "fa", width, rng, 0.5)[name] for _ in range(60)]
            errors.append(np.mean([np.sum((d - getattr(theory, name)) ** 2) for d in draws]))
        slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
        assert abs(slope + 1) < 0.25, (name, slope)


def conv(field, weights, circular):
    """Σ_b W_b φ_{a+b}: field (P, H, W, channels), weights {offset: (out, channels)}."""
    out = 0
    _, height, breadth, _ = field.shape
    for (di, dj), matrix in weights.items():
        shifted = np.roll(field, (-di, -dj), (1, 2))
        if not circular:
            rows = (np.arange(height) + di >= 0) & (np.arange(height) + di < height)
            columns = (np.arange(breadth) + dj >= 0) & (np.arange(breadth) + dj < breadth)
            shifted = shifted * (rows[:, None] & columns)[None, :, :, None]
        out = out + shifted @ matrix.T
    return out


def cnn_entk(x, network, kind, width, rng, rho):
    """eNTK of one two-layer-deep CNN: ⟨∂f/∂θ, what the rule puts in its place⟩, parameter by parameter."""
    phi_of, dot_of = ACTIVATIONS[network.activation.name]
    circular, k = network.padding == "circular", network.filter // 2
    offsets = list(product(range(-k, k + 1), repeat=2))
    positions = x.shape[1] * x.shape[2]
    w = [{b: rng.standard_normal((width, c)) for b in offsets} for c in (x.shape[-1], width)]
    h1 = conv(x, w[0], circular) / np.sqrt(x.shape[-1])
    m1 = h1
    gates = [
        conv(x, {b: rng.standard_normal((width, x.shape[-1])) for b in offsets}, circular) / np.sqrt(x.shape[-1])
        for _ in range(2)
    ]
    if kind == "gln":
        m1 = gates[0]
    dot1 = dot_of(m1)
    phi1 = dot1 * h1 if kind == "gln" else phi_of(h1)
    h2 = conv(phi1, w[1], circular) / np.sqrt(width)
    dot2 = dot_of(gates[1] if kind == "gln" else h2)
    phi2 = dot2 * h2 if kind == "gln" else phi_of(h2)
    pooled = network.readout == "pool"
    shape = (1, 1, width) if pooled else (*x.shape[1:3], width)
    pull, other = (rng.standard_normal(shape) / (positions if pooled else 1) for _ in range(2))
    fixed = np.sqrt(1 - rho**2)
    z2, s2 = np.broadcast_to(pull, h2.shape), np.broadcast_to(rho * pull + fixed * other, h2.shape)
    g2, t2 = dot2 * z2, dot2 * s2
    # Backwards the offsets turn round: z_a = Σ_b W_bᵀ g_{a−b}.
    back = {(-i, -j): m.T for (i, j), m in w[1].items()}
    feedback = {b: rho * m + fixed * rng.standard_normal(m.shape) for b, m in back.items()}
    g1, t1 = dot1 * conv(g2, back, circular) / np.sqrt(width), dot1 * conv(t2, feedback, circular) / np.sqrt(width)
    if kind == "dfa":
        t1, t2 = (d * rng.standard_normal((*x.shape[1:3], width)) for d in (dot1, dot2))
    total = (phi2.mean((1, 2)) @ phi2.mean((1, 2)).T if pooled else np.einsum("mabi,nabi->mn", phi2, phi2)) / width
    for b in offsets:
        for g, t, field, scale in ((g2, t2, phi1, width**2), (g1, t1, x, width * x.shape[-1])):
            moved = conv(field, {b: np.eye(field.shape[-1])}, circular)
            grads = [np.einsum("mabi,mabj->mij", one, moved) for one in (g, t)]
            total = total + np.einsum("mij,nij->mn", *grads) / scale
    return total


FA = wf.rules.FA(0.6)
CNN_CASES = [
    ("gd", "gd", 1.0, "circular", "position"),
    ("gd", "gd", 1.0, "zero", "pool"),
    ("fa", FA, 0.6, "circular", "pool"),
    ("fa", FA, 0.6, "zero", "position"),
    ("dfa", "dfa", 1.0, "zero", "position"),
    ("gln", "gln", 1.0, "circular", "pool"),
]


@pytest.mark.parametrize(
    ("kind", "rule", "rho", "padding", "readout"), CNN_CASES, ids=["-".join((c[0], *c[3:])) for c in CNN_CASES]
)
def test_convolutions_against_networks(kind, rule, rho, padding, readout):
    rng = np.random.default_rng(21)
    x = rng.standard_normal((2, 4, 3, 2))
    network = wf.CNN(2, 3, "relu", padding, readout)
    draws = [{"entk": cnn_entk(x, network, kind, 48, rng, rho)} for _ in range(30)]
    theory = kernels(x, network, rule)
    agree(theory, draws, ("entk",), bias=0.03 * np.max(np.abs(theory.entk)))
