"""Linear networks written from docs/theory.md, nothing of the package but the rule: plain, and of infinite width."""

import numpy as np

import widefield as wf
from widefield.rules import Weights


class Dense:
    """W(0) of a plain network: every Gaussian drawn, every matrix held."""

    def __init__(self, width, seed):
        self.width, self.random = width, np.random.default_rng(seed)

    def vectors(self, layer, count):
        return self.random.normal(size=(count, self.width))

    def matrix(self, layer):
        weights = self.random.normal(size=(self.width, self.width)) / np.sqrt(self.width)
        return lambda rows: rows @ weights.T, lambda rows: rows @ weights


class Infinite:
    """W(0) at infinite width, exact for linear networks: neurons become coordinates along orthonormal Gaussians.

    A matrix knows what it was asked and answers by the conditional law; fresh Gaussians are unused coordinates.
    """

    def __init__(self, width, depth):
        self.width, self.used = width, [0] * (depth + 1)

    def vectors(self, layer, count):
        rows = np.sqrt(self.width) * np.eye(self.width)[self.used[layer] : self.used[layer] + count]
        self.used[layer] += count
        assert self.used[layer] < self.width
        return rows

    def matrix(self, layer):
        """From layer to layer + 1."""
        empty = np.zeros((0, self.width))
        asked, answered = [empty, empty], [empty, empty]  # forward, backward

        def ask(rows, way):
            out = []
            for row in rows:
                share = asked[way] @ row / self.width
                rest = row - share @ asked[way]
                again = asked[way] @ rest / self.width
                share, rest = share + again, rest - again @ asked[way]
                size = np.sqrt(rest @ rest / self.width)
                if size > 1e-11 * np.sqrt(row @ row / self.width):
                    rest = rest / size
                    response = (answered[1 - way] @ rest / self.width) @ asked[1 - way]
                    fresh = self.vectors(layer + 1 - way, 1)[0]
                    asked[way] = np.vstack([asked[way], rest])
                    answered[way] = np.vstack([answered[way], fresh + response])
                    share = np.append(share, size)
                out.append(share @ answered[way])
            return np.array(out)

        return lambda rows: ask(rows, 0), lambda rows: ask(rows, 1)


def train(problem, weights):
    """One network, from docs/theory.md with nothing of the package but the rule; `weights` says what W(0) is."""
    data, depth, gamma, training = problem.data, problem.network.depth, problem.richness, problem.training
    x, y, points, outputs, dt = (
        data.all_x / np.sqrt(data.x.shape[1]),
        data.y_columns,
        data.points,
        data.outputs,
        training.dt,
    )
    width, rules = weights.width, problem.layer_rules
    first, last = weights.vectors(0, x.shape[1]), weights.vectors(depth - 1, outputs)
    matrices = [weights.matrix(layer) for layer in range(depth - 1)]
    tilde = [weights.matrix(layer) for layer in range(depth - 1)]
    last_tilde = weights.vectors(depth - 1, outputs)
    direct = [weights.vectors(layer, outputs) for layer in range(depth)]
    # What was learnt on top of W(0), as (out, in); the first and last matrix have a thin side.
    learnt = [
        np.zeros((width, x.shape[1])),
        *(np.zeros((width, width)) for _ in range(depth - 1)),
        np.zeros((outputs, width)),
    ]
    velocity, previous, left = [0 * m for m in learnt], None, 1.0
    record = {name: [] for name in ("f", "phi", "g", "g_tilde", "g_tilde_tilde")}
    f_start = 0.0

    def across(function, rows):
        return function(rows.reshape(-1, width)).reshape(rows.shape)

    def pull_back(number, field, rho, fixed):
        """Rows through [ρW(0) + √(1−ρ²)W̃]ᵀ, plus all that was learnt unless the feedback is fixed."""
        left_now = 1.0 if fixed else left
        fresh = np.sqrt(1 - rho**2)
        if number == depth:
            return np.broadcast_to(left_now * (rho * last + fresh * last_tilde) + (0 if fixed else learnt[-1]),
                                   (points, outputs, width))  # fmt: skip
        signal = left_now * rho * across(matrices[number - 1][1], field)
        if fresh:
            signal = signal + left_now * fresh * across(tilde[number - 1][1], field)
        return signal if fixed else signal + field @ learnt[number]

    for step in range(training.steps + 1):
        h = [x @ (left * first + learnt[0].T)]
        for layer in range(1, depth):
            h.append(left * matrices[layer - 1][0](h[-1]) + h[-1] @ learnt[layer].T)
        f = h[-1] @ (left * last + learnt[-1]).T / (gamma * width) - f_start
        if step == 0:
            f_start, f = f, np.zeros_like(f)
        delta = np.asarray(training.loss.delta(f[:points], y))
        g, g_tilde = [None] * (depth + 1), [None] * (depth + 1)
        for layer in reversed(range(depth)):
            g[layer] = pull_back(layer + 1, g[layer + 1], 1.0, False)
            source = rules[layer].feedback
            if isinstance(source, Weights):
                signal = pull_back(layer + 1, g_tilde[layer + 1], source.rho, not source.learns)
            else:
                signal = direct[layer][None] if isinstance(source, wf.rules.Direct) else np.zeros((1, 1, 1))
            field = h[layer][:points, None]
            site = wf.rules.Site(field, field, np.ones_like(field), signal, delta[..., None], y[..., None], 0 * field)
            g_tilde[layer] = np.broadcast_to(np.asarray(rules[layer].local(site)), (points, outputs, width))
        record["f"].append(f)
        record["phi"].append([a[:points] @ a[:points].T / width for a in h])
        for name, ones, others in (("g", g, g), ("g_tilde", g, g_tilde), ("g_tilde_tilde", g_tilde, g_tilde)):
            record[name].append(
                [np.einsum("mcn,vdn->mvcd", a, b) / width for a, b in zip(ones[:depth], others[:depth], strict=True)]
            )
        taught = [np.einsum("mc,mcn->mn", np.asarray(rules[i].teach(delta, y)), g_tilde[i]) for i in range(depth)]
        changes = [dt * gamma * taught[0].T @ x[:points]]
        changes += [dt * gamma / width * taught[i].T @ h[i - 1][:points] for i in range(1, depth)]
        changes += [dt * gamma * delta.T @ h[-1][:points]]
        if training.integrator == "ab2":
            now = changes
            changes = changes if previous is None else [1.5 * c - 0.5 * p for c, p in zip(now, previous, strict=True)]
            previous = now
        if training.momentum:
            velocity = [v + dt / training.momentum * (c - v) for v, c in zip(velocity, changes, strict=True)]
            changes = velocity
        kept = 1 - dt * training.weight_decay
        learnt, left = [kept * m + c for m, c in zip(learnt, changes, strict=True)], kept * left
    return {name: np.array(value) for name, value in record.items()}
