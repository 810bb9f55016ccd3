"""Plain NumPy training of a finite network, straight from the formulas: the judge of the training program.

Everything is written with explicit weights W_b[i, j] (offset b, neuron i above, neuron j below) and explicit loops over
positions and offsets; a fully connected network has one position and one offset. Fields are (P, positions, N),
gradients (P, C, positions, N). Slow on purpose: nothing is shared with the package.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
from scipy.special import erf

SQRT2 = np.sqrt(2.0)
PHI = {
    "tanh": (np.tanh, lambda h: 1 / np.cosh(h) ** 2),
    "relu": (lambda h: SQRT2 * h * (h > 0), lambda h: SQRT2 * (h > 0)),
    "linear": (lambda h: h, np.ones_like),
    "erf": (erf, lambda h: 2 / np.sqrt(np.pi) * np.exp(-(h**2))),
}


@dataclass
class LayerRule:
    """How one hidden layer learns: its feedback, and which factors its update carries."""

    # "transposed", "fixed", "follows" (fixed + every change of the forward weights), "signs" (of the forward weights),
    # "mirror" (goes the share rate·dt of its way to the forward weights in a step), "direct", "none"
    feedback: str
    rho: float = 0.0
    rate: float = 0.0
    output: str = "slope"  # g̃ = φ̇·signal; "phi": g̃ = φ; "error_phi": g̃ = Δφ; "zero"
    error: str = "delta"  # the update's factor: "delta", "target", "one"
    gated: bool = False


@dataclass
class Weights:
    """Initial weights. Hidden ones are (offsets, N, N), W⁰ and the gates' M (offsets, N, channels)."""

    first: np.ndarray
    hidden: list[np.ndarray]
    readout: np.ndarray  # (C, readout positions, N)
    hidden_tilde: list[np.ndarray | None] = field(default_factory=list)
    readout_tilde: np.ndarray | None = None
    direct: list[np.ndarray | None] = field(default_factory=list)  # (C, positions, N)
    gates: list[np.ndarray | None] = field(default_factory=list)


@dataclass
class Case:
    """A network, its data and its training."""

    x: np.ndarray  # (P, positions, channels)
    y: np.ndarray  # (P, C)
    rules: list[LayerRule]
    richness: float
    dt: float
    steps: int
    activation: str = "tanh"
    loss: str = "squared"
    decay: float = 0.0
    momentum: float = 0.0
    ab2: bool = False
    batches: tuple[tuple[int, ...], ...] = ()  # the points that teach, step by step; all where it is empty
    residual: bool = False
    grid: tuple[int, ...] = ()
    filter: int = 1
    circular: bool = True
    pooled: bool = False


def neighbours(case: Case) -> np.ndarray:
    """Where offset b leads from position a; −1 is padding."""
    if not case.grid:
        return np.zeros((1, 1), int)
    half = case.filter // 2
    table = []
    for place in np.ndindex(*case.grid):
        row = []
        for offset in itertools.product(range(-half, half + 1), repeat=len(case.grid)):
            moved = [p + o for p, o in zip(place, offset, strict=True)]
            outside = any(m < 0 or m >= n for m, n in zip(moved, case.grid, strict=True))
            moved = [m % n for m, n in zip(moved, case.grid, strict=True)]
            row.append(-1 if outside and not case.circular else int(np.ravel_multi_index(moved, case.grid)))
        table.append(row)
    return np.array(table)


def convolve(w: np.ndarray, below: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Σ_b W_b φ_{a+b} at every position a."""
    out = np.zeros((len(below), len(near), w.shape[1]))
    for a, row in enumerate(near):
        for b, there in enumerate(row):
            if there >= 0:
                out[:, a] += below[:, there] @ w[b].T
    return out


def convolve_back(w: np.ndarray, above: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Σ_b W_bᵀ g_{a−b} at every position a; `above` is (P, C, positions, N)."""
    out = np.zeros((*above.shape[:3], w.shape[2]))
    for a, row in enumerate(near):
        for b, there in enumerate(row):
            if there >= 0:
                out[:, :, there] += above[:, :, a] @ w[b]
    return out


def weight_gradient(above: np.ndarray, below: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Σ_a g_a φ_{a+b}ᵀ per point and output, (P, C, offsets, N, n)."""
    points, outputs = above.shape[:2]
    out = np.zeros((points, outputs, near.shape[1], above.shape[-1], below.shape[-1]))
    for a, row in enumerate(near):
        for b, there in enumerate(row):
            if there >= 0:
                out[:, :, b] += above[:, :, a, :, None] * below[:, None, there, None, :]
    return out


def errors(loss: str, f: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss, summed over points, and Δ = −∂loss/∂f."""
    if loss == "squared":
        return 0.5 * float(np.sum((f - y) ** 2)), y - f
    if loss == "logistic":
        return float(np.sum(np.log1p(np.exp(-y * f)))), y / (1 + np.exp(y * f))
    p = np.exp(f) / np.exp(f).sum(1, keepdims=True)
    return -float(np.sum(y * np.log(p))), y - p


class Network:
    """Weights that learn, and the feedback weights that go with them."""

    def __init__(self, case: Case, start: Weights):
        self.case, self.near = case, neighbours(case)
        self.trained = [start.first.copy(), *[w.copy() for w in start.hidden], start.readout.copy()]
        self.direct, self.width = start.direct, start.readout.shape[-1]
        self.feedback: list[np.ndarray | None] = [None]  # of W¹ … W^{L−1} and w, as `trained`
        for forward, tilde, rule in zip(
            [*start.hidden, start.readout], [*start.hidden_tilde, start.readout_tilde], case.rules, strict=True
        ):
            made = None
            if rule.feedback in ("fixed", "follows", "mirror"):
                made = rule.rho * forward + (0 if tilde is None else np.sqrt(1 - rule.rho**2) * tilde)
            self.feedback.append(made)
        channels = case.x.shape[-1]
        self.gates = [
            None if m is None else convolve(m, case.x, self.near) / np.sqrt(channels)
            for m in (start.gates or [None] * len(case.rules))
        ]
        self.velocity = [np.zeros_like(w) for w in self.trained]
        self.last_change: list[np.ndarray] | None = None
        self.f_start = self.output(self.forward()[1])

    def forward(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """h and the neurons' outputs, layers 1 … L."""
        phi, _ = PHI[self.case.activation]
        hs, outs = [], []
        for layer in range(len(self.case.rules)):
            below = self.case.x if layer == 0 else outs[-1]
            h = convolve(self.trained[layer], below, self.near) / np.sqrt(below.shape[-1])
            if self.case.residual and layer > 0:
                h = h + hs[-1]
            hs.append(h)
            gate = self.gates[layer]
            outs.append(phi(h) if gate is None else PHI[self.case.activation][1](gate) * h)
        return hs, outs

    def seen(self, top: np.ndarray) -> np.ndarray:
        return top.mean(1, keepdims=True) if self.case.pooled else top

    def output(self, outs: list[np.ndarray]) -> np.ndarray:
        return np.einsum("can,man->mc", self.trained[-1], self.seen(outs[-1])) / (self.case.richness * self.width)

    def to_top(self, vector: np.ndarray) -> np.ndarray:
        """∂(what the readout sees)/∂φ: a pooled readout reaches every position with 1/positions."""
        positions = len(self.near)
        return np.repeat(vector, positions, axis=1) / positions if self.case.pooled else vector

    def gradients(
        self, hs: list[np.ndarray], outs: list[np.ndarray], delta: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """True gradients g = γ₀N ∂f/∂h and pseudo-gradients g̃, layers 1 … L."""
        case, depth = self.case, len(self.case.rules)
        _, phi_dot = PHI[case.activation]
        g: list = [None] * depth
        pseudo: list = [None] * depth
        for layer in reversed(range(depth)):
            rule, top = case.rules[layer], layer == depth - 1
            gate = self.gates[layer]
            slope = phi_dot(hs[layer] if gate is None else gate)[:, None]

            def through(weights: np.ndarray, above: np.ndarray | None, slope=slope) -> np.ndarray:
                if above is None:
                    return slope * self.to_top(weights)[None]
                back = slope * convolve_back(weights, above, self.near) / np.sqrt(self.width)
                return back + (above if case.residual else 0.0)

            g[layer] = through(self.trained[layer + 1], None if top else g[layer + 1])
            above = None if top else pseudo[layer + 1]
            if rule.output == "phi":
                made = outs[layer][:, None] * np.ones_like(delta)[:, :, None, None]
            elif rule.output == "error_phi":
                made = outs[layer][:, None] * delta[:, :, None, None]
            elif rule.output == "zero":
                made = np.zeros_like(g[layer])
            elif rule.feedback == "direct":
                made = slope * self.direct[layer][None]
            elif rule.feedback == "transposed":
                made = through(self.trained[layer + 1], above)
            elif rule.feedback == "signs":
                made = through(np.sign(self.trained[layer + 1]), above)
            else:
                made = through(self.feedback[layer + 1], above)
            pseudo[layer] = made
        return g, pseudo

    def learn(self, outs: list[np.ndarray], pseudo: list[np.ndarray], delta: np.ndarray, batch: np.ndarray) -> None:
        """One step of every trained weight, and of feedback weights that follow them; μ teaches `batch[μ]` times."""
        case = self.case
        flows = []
        for layer, rule in enumerate(case.rules):
            below = case.x if layer == 0 else outs[layer - 1]
            ones = np.full_like(delta, 1 / delta.shape[1])
            factor = {"delta": delta, "target": case.y, "one": ones}[rule.error]
            gradient = np.einsum("m,mc,mcbij->bij", batch, factor, weight_gradient(pseudo[layer], below, self.near))
            flows.append(case.richness / np.sqrt(below.shape[-1]) * gradient)
        flows.append(case.richness * np.einsum("m,mc,man->can", batch, delta, self.seen(outs[-1])))
        if case.ab2:
            changes = [case.dt * f for f in flows]
            last, self.last_change = self.last_change, changes
            if last is not None:
                changes = [1.5 * a - 0.5 * b for a, b in zip(changes, last, strict=True)]
        elif case.momentum:
            ratio = case.dt / case.momentum
            self.velocity = [q + ratio * (f - q) for q, f in zip(self.velocity, flows, strict=True)]
            changes = [case.dt * q for q in self.velocity]
        else:
            changes = [case.dt * f for f in flows]
        keep = 1 - case.dt * case.decay
        for layer, rule in enumerate(case.rules):
            if rule.feedback == "mirror":
                gap = self.trained[layer + 1] - self.feedback[layer + 1]
                self.feedback[layer + 1] = self.feedback[layer + 1] + case.dt * rule.rate * gap
        self.trained = [keep * w + change for w, change in zip(self.trained, changes, strict=True)]
        for layer, rule in enumerate(case.rules):
            if rule.feedback == "follows":
                self.feedback[layer + 1] = keep * self.feedback[layer + 1] + changes[layer + 1]


def kernels(net: Network, outs: list[np.ndarray], g: list[np.ndarray], pseudo: list[np.ndarray]) -> dict:
    """Kernels of one step; the eNTK from the gradients by all weights themselves."""
    n, positions, case = net.width, len(net.near), net.case
    phi = [np.einsum("man,kan->mk", o, o) / (n * positions) for o in outs]

    def gram(a: list[np.ndarray], b: list[np.ndarray]) -> np.ndarray:
        return np.stack([np.einsum("mcan,kdan->mkcd", p, q) / n for p, q in zip(a, b, strict=True)])

    seen = net.seen(outs[-1])
    outputs = g[0].shape[1]
    entk = np.einsum("man,kan->mk", seen, seen)[:, :, None, None] / n * np.eye(outputs)
    for layer in range(len(outs)):
        below = case.x if layer == 0 else outs[layer - 1]
        true, learnt = (weight_gradient(field, below, net.near) for field in (g[layer], pseudo[layer]))
        entk = entk + np.einsum("mcbij,kdbij->mkcd", true, learnt) / (n * below.shape[-1])
    return {
        "phi": np.stack(phi), "g": gram(g, g), "g_tilde": gram(g, pseudo), "g_tilde_tilde": gram(pseudo, pseudo),
        "entk": entk,
    }  # fmt: skip


def train(case: Case, start: Weights) -> dict[str, np.ndarray]:
    """f, Δ, the loss and all kernels at steps 0 … steps, before that step's update."""
    net = Network(case, start)
    record: list[dict] = []
    for now in range(case.steps + 1):
        hs, outs = net.forward()
        f = net.output(outs) - net.f_start
        loss, delta = errors(case.loss, f, case.y)
        g, pseudo = net.gradients(hs, outs, delta)
        record.append({"f": f, "delta": delta, "loss": loss, **kernels(net, outs, g, pseudo)})
        batch = np.ones(len(case.x))
        if now < len(case.batches):
            batch = np.bincount(case.batches[now], minlength=len(case.x)).astype(float)
        net.learn(outs, pseudo, delta, batch)
    return {name: np.stack([step[name] for step in record]) for name in record[0]}
