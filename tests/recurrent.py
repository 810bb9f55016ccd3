"""Plain NumPy training of a recurrent network, one point and one frame at a time: the judge of the training program.

Nothing is shared with the package. h, outputs and pseudo-gradients of a point are (T, N); outputs f are (reads, C),
where with readout "last" the one read is that of the last frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from reference import PHI, errors


@dataclass
class Case:
    """A recurrent network, its weights, data, rule and training."""

    x: np.ndarray  # (P, T, D)
    y: np.ndarray  # (P, reads, C), NaN where there is no target
    every: bool
    leak: float
    u: np.ndarray  # (N, D)
    w: np.ndarray  # (N, N)
    readout: np.ndarray  # (C, N)
    feedback: str  # "transposed", "fixed", "follows", "signs", "mirror", "direct", "readout" (w(t), no chain) or "none"
    w_tilde: np.ndarray | None = None
    readout_tilde: np.ndarray | None = None
    direct: np.ndarray | None = None  # (C, N)
    gates: np.ndarray | None = None  # (P, T, N)
    rho: float = 0.0
    rate: float = 0.0
    output: str = "slope"  # local rule: φ̇·signal; "phi"; "error_phi"; "zero"
    error: str = "delta"  # e: "delta", "target", "one"
    reach: int | None = None  # an error goes back through so many frames at most
    richness: float = 1.0
    dt: float = 0.1
    steps: int = 3
    activation: str = "tanh"
    loss: str = "squared"
    decay: float = 0.0
    momentum: float = 0.0
    ab2: bool = False
    batches: tuple[tuple[int, ...], ...] = ()


class Network:
    def __init__(self, case: Case):
        self.case = case
        self.trained = [case.u.copy(), case.w.copy(), case.readout.copy()]
        self.matrix, self.vector = case.w, case.readout  # of the feedback
        if case.feedback in ("fixed", "follows", "mirror"):
            other = np.sqrt(1 - case.rho**2)
            self.matrix = case.rho * case.w + (0 if case.w_tilde is None else other * case.w_tilde)
            self.vector = case.rho * case.readout + (0 if case.readout_tilde is None else other * case.readout_tilde)
        self.velocity = [np.zeros_like(weights) for weights in self.trained]
        self.last: list[np.ndarray] | None = None
        self.f_start = [self.read(self.forward(point)[1]) for point in range(len(case.x))]

    def forward(self, point: int) -> tuple[np.ndarray, np.ndarray]:
        case, (u, w, _) = self.case, self.trained
        phi, slope = PHI[case.activation]
        hs: list[np.ndarray] = []
        outs: list[np.ndarray] = []
        for t, x in enumerate(case.x[point]):
            h = case.leak * (u @ x) / np.sqrt(len(x))
            if t > 0:
                h = h + (1 - case.leak) * hs[-1] + case.leak * (w @ outs[-1]) / np.sqrt(len(w))
            hs.append(h)
            outs.append(phi(h) if case.gates is None else slope(case.gates[point, t]) * h)
        return np.array(hs), np.array(outs)

    def frames_read(self) -> list[int]:
        frames = self.case.x.shape[1]
        return list(range(frames)) if self.case.every else [frames - 1]

    def read(self, outs: np.ndarray) -> np.ndarray:
        readout = self.trained[2]
        seen = [outs[t] for t in self.frames_read()]
        return np.array([readout @ out for out in seen]) / (self.case.richness * readout.shape[1])

    def slopes(self, point: int, hs: np.ndarray) -> np.ndarray:
        return PHI[self.case.activation][1](hs if self.case.gates is None else self.case.gates[point])

    def gradients(self, point: int, hs: np.ndarray) -> np.ndarray:
        """γ₀N ∂f/∂h, (reads, C, T, N)."""
        return self._chain(self.slopes(point, hs), self.trained[2], self.trained[1], None)

    def _chain(self, slope: np.ndarray, vector: np.ndarray, matrix: np.ndarray, reach: int | None) -> np.ndarray:
        """s_t = φ̇_t (v [t is read] + a Mᵀ s_{t+1}/√N) + (1−a) s_{t+1}, for every output on its own."""
        a, reads = self.case.leak, self.frames_read()
        found = np.zeros((len(reads), len(vector), *slope.shape))
        for r, frame in enumerate(reads):
            for c in range(len(vector)):
                s = np.zeros(slope.shape[1])
                for t in reversed(range(frame + 1)):
                    if reach is not None and t <= frame - reach:
                        break
                    signal = vector[c] if t == frame else a * (matrix.T @ s) / np.sqrt(len(matrix))
                    s = slope[t] * signal + (1 - a) * s
                    found[r, c, t] = s
        return found

    def pseudo_gradients(self, point: int, hs: np.ndarray, outs: np.ndarray, delta: np.ndarray) -> np.ndarray:
        """(reads, C, T, N)."""
        case, slope = self.case, self.slopes(point, hs)
        if case.output == "slope" and case.feedback == "transposed":
            return self._chain(slope, self.trained[2], self.trained[1], case.reach)
        if case.output == "slope" and case.feedback == "signs":
            return self._chain(slope, np.sign(self.trained[2]), np.sign(self.trained[1]), case.reach)
        if case.output == "slope" and case.feedback in ("fixed", "follows", "mirror"):
            return self._chain(slope, self.vector, self.matrix, case.reach)
        reads, outputs = delta.shape
        found = np.zeros((reads, outputs, *hs.shape))
        for r in range(reads):
            for c in range(outputs):
                for t in reversed(range(len(hs))):
                    if t + 1 < len(hs):
                        found[r, c, t] += (1 - case.leak) * found[r, c, t + 1]
                    if case.every and t != r:
                        continue  # a frame is taught by its own error
                    if case.output == "phi":
                        found[r, c, t] += outs[t]
                    elif case.output == "error_phi":
                        found[r, c, t] += delta[r, c] * outs[t]
                    elif case.output == "slope":
                        vector = case.direct if case.feedback == "direct" else self.trained[2]
                        found[r, c, t] += slope[t] * vector[c]
        return found

    def by_weights(self, point: int, outs: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
        """Σ over frames of s_t times what went into frame t: for U and W, for one output."""
        case = self.case
        u, w = np.zeros_like(self.trained[0]), np.zeros_like(self.trained[1])
        for t in range(len(s)):
            u += case.leak * np.outer(s[t], case.x[point, t]) / np.sqrt(u.shape[1])
            if t > 0:
                w += case.leak * np.outer(s[t], outs[t - 1]) / np.sqrt(len(w))
        return [u, w]

    def learn(self, flows: list[np.ndarray]) -> None:
        case = self.case
        changes = [case.dt * flow for flow in flows]
        if case.ab2:
            last, self.last = self.last, changes
            if last is not None:
                changes = [1.5 * a - 0.5 * b for a, b in zip(changes, last, strict=True)]
        if case.momentum:
            share = case.dt / case.momentum
            self.velocity = [q + share * (flow - q) for q, flow in zip(self.velocity, flows, strict=True)]
            changes = [case.dt * q for q in self.velocity]
        keep = 1 - case.dt * case.decay
        if case.feedback == "mirror":
            self.matrix = self.matrix + case.dt * case.rate * (self.trained[1] - self.matrix)
            self.vector = self.vector + case.dt * case.rate * (self.trained[2] - self.vector)
        self.trained = [keep * weights + change for weights, change in zip(self.trained, changes, strict=True)]
        if case.feedback == "follows":
            self.matrix, self.vector = keep * self.matrix + changes[1], keep * self.vector + changes[2]


def delta_of(case: Case, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Δ of one point, (reads, C); 0 at frames without a target."""
    found = np.zeros_like(f)
    for r in range(len(y)):
        if not np.isnan(y[r, 0]):
            found[r] = errors(case.loss, f[r : r + 1], y[r : r + 1])[1][0]
    return found


def train(case: Case) -> dict[str, np.ndarray]:
    """f (times, P, reads, C) and the kernels, as results have them before labels of outputs are dropped."""
    net, kept = Network(case), []
    points, width = len(case.x), len(case.w)
    for step in range(case.steps + 1):
        runs = [net.forward(point) for point in range(points)]
        f = np.array([net.read(outs) - start for (_, outs), start in zip(runs, net.f_start, strict=True)])
        delta = np.array([delta_of(case, f[m], case.y[m]) for m in range(points)])
        true = [net.gradients(m, hs) for m, (hs, _) in enumerate(runs)]
        pseudo = [net.pseudo_gradients(m, hs, outs, delta[m]) for m, (hs, outs) in enumerate(runs)]
        kept.append(kernels(net, [outs for _, outs in runs], true, pseudo) | {"f": f})
        flows = [np.zeros_like(weights) for weights in net.trained]
        taught = case.batches[step] if case.batches and step < case.steps else range(points)
        for m in taught:
            outs = runs[m][1]
            for r, frame in enumerate(net.frames_read()):
                for c in range(f.shape[-1]):
                    if np.isnan(case.y[m, r, c]):
                        continue
                    e = {"delta": delta[m, r, c], "target": case.y[m, r, c], "one": 1 / f.shape[-1]}[case.error]
                    for flow, made in zip(flows, net.by_weights(m, outs, pseudo[m][r, c]), strict=False):
                        flow += case.richness * e * made
                    flows[2][c] += case.richness * delta[m, r, c] * outs[frame]
        net.learn(flows)
    found = {name: np.array([one[name] for one in kept]) for name in kept[0]}
    return found | {"width": np.array(width)}


def kernels(net: Network, outs: list[np.ndarray], true: list[np.ndarray], pseudo: list[np.ndarray]) -> dict:
    """Φ (P, P, T, T), G, G̃, G̃̃ (P, P, T, T, reads, reads, C, C) and K (P, P, reads, reads, C, C) from weights."""
    width, points = len(net.trained[1]), len(outs)
    o, g, s = np.array(outs), np.array(true), np.array(pseudo)  # (P, T, N), (P, R, C, T, N)

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.einsum("mrctn,ksdun->mkturscd", a, b) / width

    reads, outputs = g.shape[1:3]
    frames = net.frames_read()
    entk = np.zeros((points, points, reads, reads, outputs, outputs))
    for m, r, c in np.ndindex(points, reads, outputs):
        left = net.by_weights(m, outs[m], true[m][r, c])
        for k, q, d in np.ndindex(points, reads, outputs):
            right = net.by_weights(k, outs[k], pseudo[k][q, d])
            value = sum(np.sum(a * b) for a, b in zip(left, right, strict=True))
            if c == d:
                value += outs[m][frames[r]] @ outs[k][frames[q]]
            entk[m, k, r, q, c, d] = value / width
    return {
        "phi": np.einsum("mtn,kun->mktu", o, o) / width,
        "g": kernel(g, g), "g_tilde": kernel(g, s), "g_tilde_tilde": kernel(s, s), "entk": entk,
    }  # fmt: skip
