"""A linear recurrent network of infinite width, trained in closed form (docs/recurrent.md).

The same program as a network's: forward in frames, error, backward in frames, update; only that neurons are the
coordinates of `coordinates.py`. Cost O(rank²·P·T) per step, where rank is the number of Gaussians that fields have
used.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ...errors import DivergenceError
from ...problem.problem import Problem
from ...problem.training import Training
from ...progress import Reporter
from ...rules.feedback import Past
from .coefficients import local_coefficients
from .coordinates import Matrix, Population, overlap, total


@dataclass
class Trained:
    """Weights as rows of coordinates, and what their optimiser remembers."""

    value: np.ndarray
    velocity: np.ndarray | None = None
    last: np.ndarray | None = None

    def learn(self, term: np.ndarray, training: Training) -> None:
        """W ← (1−dt·λ)W + dt·(gradient term), or its momentum, or 3/2 of it less 1/2 of the last one."""
        dt = training.dt
        if training.momentum > 0:
            share = dt / training.momentum
            before = np.zeros((0,) * term.ndim) if self.velocity is None else self.velocity
            term = self.velocity = total((1 - share) * before, share * term)
        elif training.integrator == "ab2":
            before, self.last = self.last, term
            term = term if before is None else total(1.5 * term, -0.5 * before)
        self.value = total((1 - dt * training.weight_decay) * self.value, dt * term)


@dataclass
class Pass:
    """One step's fields: h (frames of (samples, n)), g and g̃ (frames of (P, R·C, n)), and coordinates asked of W."""

    h: list[np.ndarray]
    asked: list[np.ndarray]
    g: list[np.ndarray]
    g_tilde: list[np.ndarray]


class RecurrentMarch:
    """Training of a linear recurrent network, step by step."""

    def __init__(self, problem: Problem):
        self.problem, self.training = problem, problem.training
        stages, wiring = problem.wiring.stages, problem.wiring
        self.frames, self.a, self.b, self.gain = len(stages), stages[0].gain, stages[-1].carry, wiring.start
        self.reads, self.outputs = wiring.reads, problem.outputs
        self.points, [self.rule] = problem.data.points, problem.layer_rules
        x = problem.data.all_x
        self.x = np.moveaxis(x, 1, 0) / np.sqrt(x.shape[-1])
        self.y = problem.targets
        self.taught = ~np.isnan(self.y[..., 0])
        self.y = np.where(self.taught[..., None], self.y, self.y[self.taught][0])
        population = Population()
        self.matrix, self.tilde = Matrix(population), Matrix(population)
        self.readout = Trained(population.fresh(self.outputs))
        self.initial, self.fresh, self.direct = (self.readout.value, *(population.fresh(self.outputs) for _ in "ab"))
        self.inputs = Trained(population.fresh(x.shape[-1]))
        self.structure = self._low_rank_parts(population)
        self.learnt = Trained(np.zeros((0, 0)))  # what W/√N has learnt, as its answers to the rows asked forward
        self.scale = 1.0
        self.start: np.ndarray | None = None

    def run(self, progress: Reporter) -> dict[str, np.ndarray]:
        """f (times, samples, R, C), and the kernels as results have them."""
        kept = []
        for step in range(self.training.steps + 1):
            with np.errstate(over="ignore", invalid="ignore"):  # divergence is reported once
                kept.append(self._step(step))
            progress.update(step + 1, self.training.steps + 1, "linear")
        return {name: np.stack([one[name] for one in kept]) for name in kept[0]}

    def _step(self, step: int) -> dict[str, np.ndarray]:
        h, asked = self._forward(step)
        raw = np.stack([overlap(h[k], self.readout.value) for k in self._read()], axis=1) / self.problem.richness
        self.start = raw if self.start is None else self.start
        f = raw - self.start
        delta = self._per_read(self.training.loss.delta, f[: self.points])
        g, g_tilde = self._backward(h, delta, step)
        done = Pass(h, asked, g, g_tilde)
        found = {"f": f} | self._kernels(done)
        self._learn(done, delta)
        return found

    def _read(self) -> list[int]:
        return [k for k, stage in enumerate(self.problem.wiring.stages) if stage.read is not None]

    def _per_read(self, function, f: np.ndarray) -> np.ndarray:
        """Δ, or what a rule makes of it, (P, R, C); 0 at frames without a target."""
        rows = (jnp.asarray(value.reshape(-1, self.outputs)) for value in (f, self.y))
        return np.asarray(function(*rows)).reshape(f.shape) * self.taught[..., None]

    def _low_rank_parts(self, population: Population) -> tuple[np.ndarray, np.ndarray]:
        """θm and n, (parts, n), of the structure of W(0)."""
        m, n = [], []
        for part in self.problem.wiring.structure:
            ours, theirs = np.array(part.readout), np.array(part.input)
            left, right = (np.sqrt(max(0.0, 1 - size)) for size in (ours @ ours, part.overlap**2 + theirs @ theirs))
            made = [left * population.fresh(1)]
            made += [ours[None] @ self.readout.value] if len(ours) else []
            m.append(total(*made))
            made = [part.overlap * m[-1], right * population.fresh(1)]
            made += [theirs[None] @ self.inputs.value] if len(theirs) else []
            n.append(total(*made))
            m[-1] = part.strength * m[-1]
        if not m:
            return np.zeros((0, 0)), np.zeros((0, 0))
        return np.concatenate([_even(row, m) for row in m]), np.concatenate([_even(row, n) for row in n])

    # Forward

    def _forward(self, step: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        h, asked = [], []
        for k in range(self.frames):
            parts = [self.a * self.x[k] @ self.inputs.value]
            if k:
                answer, known = self.matrix.ask(h[-1], 0)
                learnt = self.learnt.value
                parts += [self.a * self.scale * self.gain * answer, self.a * known[:, : len(learnt)] @ learnt]
                parts += [self.b * h[-1], self.a * self.scale * overlap(h[-1], self.structure[1]) @ self.structure[0]]
                asked.append(known)
            h.append(total(*parts))
            self._check_finite(h[-1], step, k)
        return h, asked

    def _check_finite(self, field: np.ndarray, step: int, frame: int) -> None:
        if not np.isfinite(np.sum(field**2)):
            place = f"step {step}, frame {frame + 1} of {self.frames}"
            raise DivergenceError(f"training diverged at {place}; lower dt, richness or gain")

    # Backward

    def _backward(self, h: list[np.ndarray], delta: np.ndarray, step: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        stages, feedback = self.problem.wiring.stages, self.rule.feedback
        error, target = delta.reshape(self.points, -1), self.y.reshape(self.points, -1)
        own, through = local_coefficients(self.rule, error, target)
        numbers = feedback.coefficients(Past(self.scale, step, self.training.dt, self.gain))
        numbers = {name: float(value) for name, value in numbers.items()}
        g: list[np.ndarray] = [np.zeros((0, 0, 0))] * self.frames
        g_tilde = list(g)
        for k in reversed(range(self.frames)):
            stage, last = stages[k], k + 1 == self.frames
            z, signal = [self._of_output(stage.read, self.readout.value)], []
            if not last:
                z += [self.b * g[k + 1], self._through(g[k + 1], {"current": 1.0})]
            if feedback.direct or feedback.readout:
                signal.append(self._of_output(stage.taught, self.direct if feedback.direct else self.readout.value))
            elif feedback.chained:
                top = {"current": self.readout.value, "initial": self.initial, "fresh": self.fresh}
                vector = total(*(number * top[name] for name, number in numbers.items()))
                signal.append(self._of_output(stage.read, vector))
                if not last:
                    signal.append(self._through(g_tilde[k + 1], numbers))
            g[k] = total(*z)
            self._check_finite(g[k], step, k)
            if self.rule.is_gradient:
                g_tilde[k] = g[k]
                continue
            local = total(own[..., None] * h[k][: self.points, None], *(through[..., None] * part for part in signal))
            g_tilde[k] = self._reached(k, False) * local
            if not last:
                g_tilde[k] = total(g_tilde[k], self._reached(k, True) * self.b * g_tilde[k + 1])
        return g, g_tilde

    def _of_output(self, read: int | None, vector: np.ndarray) -> np.ndarray:
        """A vector (C, n) as the signal of the outputs of block `read`, (P, R·C, n)."""
        found = np.zeros((self.points, self.reads, *vector.shape))
        if read is not None:
            found[:, read] = vector
        return found.reshape(self.points, -1, vector.shape[-1])

    def _through(self, g: np.ndarray, numbers: dict[str, float]) -> np.ndarray:
        """a·Bᵀg/√N, B = current·W(t) + initial·W(0) + fresh·W̃, for g (P, R·C, n)."""
        rows = g.reshape(-1, g.shape[-1])
        parts = [np.zeros((len(rows), 1))]
        current, initial = (numbers.get(name, 0.0) for name in ("current", "initial"))
        share = current * self.scale + initial
        if share:
            parts.append(share * self.gain * self.matrix.ask(rows, 1)[0])
            parts.append(share * overlap(rows, self.structure[0]) @ self.structure[1])
        if current:
            learnt = self.learnt.value
            parts.append(current * overlap(rows, learnt) @ self.matrix.asked[0][: len(learnt)])
        if numbers.get("fresh"):
            parts.append(numbers["fresh"] * self.gain * self.tilde.ask(rows, 1)[0])
        answer = self.a * total(*parts)
        return answer.reshape(*g.shape[:2], -1)

    def _reached(self, k: int, past: bool) -> np.ndarray:
        """(R·C, 1): 1 for outputs whose error reaches frame k, or (`past`) what a neuron itself carries back to it."""
        stages, feedback = self.problem.wiring.stages, self.rule.feedback
        if feedback.chained:
            within = {stage.read for stage in stages[k : k + feedback.reach if feedback.reach else None]}
        else:
            within = set(range(self.reads)) if past else {stages[k].taught}
        return np.repeat([float(read in within) for read in range(self.reads)], self.outputs)[:, None]

    # Update

    def _learn(self, done: Pass, delta: np.ndarray) -> None:
        points, rate = self.points, self.problem.richness
        error = self._per_read(self.rule.teach, delta).reshape(points, -1)
        taught = [rate * self.a * np.einsum("mo,mon->mn", error, g_tilde) for g_tilde in done.g_tilde]
        self.inputs.learn(total(*(x[:points].T @ rows for x, rows in zip(self.x, taught, strict=True))), self.training)
        if self.frames > 1:
            pairs = zip(done.asked, taught[1:], strict=True)
            self.learnt.learn(total(*(known[:points].T @ rows for known, rows in pairs)), self.training)
        seen = [done.h[k][:points] for k in self._read()]
        self.readout.learn(rate * total(*(delta[:, r].T @ rows for r, rows in enumerate(seen))), self.training)
        self.scale *= 1 - self.training.dt * self.training.weight_decay

    # Kernels

    def _kernels(self, done: Pass) -> dict[str, np.ndarray]:
        """Φ (1, P, P, T, T) and K (P, P[, R, R], C, C); G, G̃ and G̃̃ (1, P, P, T, T, C, C) where one frame is read."""
        points = self.points
        h = np.stack([_even(rows[:points], done.h) for rows in done.h], axis=1)  # (P, T, n)
        g, g_tilde = (np.stack([_even(rows, made) for rows in made], axis=2) for made in (done.g, done.g_tilde))

        def gram(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            flat = overlap(a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1]))
            return flat.reshape(*a.shape[:-1], *b.shape[:-1])

        phi = gram(h, h).transpose(0, 2, 1, 3)  # (P, P, T, T)
        mixed = gram(g, g_tilde)  # (P, R·C, T, P, R·C, T)
        below = np.einsum("tmd,snd->mnts", self.x[:, :points], self.x[:, :points], optimize=True)
        below[:, :, 1:, 1:] += phi[:, :, :-1, :-1]
        entk = self.a**2 * np.einsum("mctnds,mnts->mncd", mixed, below, optimize=True)
        entk = entk.reshape(points, points, *(self.reads, self.outputs) * 2).swapaxes(3, 4)
        read = np.ix_(range(points), range(points), self._read(), self._read())
        entk = entk + phi[read][..., None, None] * np.eye(self.outputs)
        found = {"phi": phi[None], "entk": entk if self.reads > 1 else entk[:, :, 0, 0]}
        if self.reads == 1:
            kernels = {"g": gram(g, g), "g_tilde": mixed, "g_tilde_tilde": gram(g_tilde, g_tilde)}
            found |= {name: value.transpose(0, 3, 2, 5, 1, 4)[None] for name, value in kernels.items()}
        return found


def _even(rows: np.ndarray, others: list[np.ndarray]) -> np.ndarray:
    """`rows` with as many coordinates as the longest of `others`."""
    return total(rows, np.zeros((*rows.shape[:-1], max(other.shape[-1] for other in others))))
