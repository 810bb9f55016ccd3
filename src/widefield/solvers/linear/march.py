"""One pass in time through a linear network of infinite width."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ...errors import DivergenceError
from ...problem.problem import Problem
from ...progress import Reporter
from .coefficients import local_coefficients
from .layer import Kernels, LinearLayer, Sizes, output_kernels
from .schedule import weight_memory


@dataclass(eq=False)
class Trajectory:
    """Layers 1 … L with all their two-time objects, and outputs f (T+1, points, C) of training, then test points."""

    sizes: Sizes
    layers: list[LinearLayer]
    input_kernel: np.ndarray
    f: np.ndarray


class March:
    """The discrete dynamics as single-site equations (docs/theory.md), causally: forward, error, backward, next time.

    At time t every kernel and response that a layer needs has been made before: Φ^{ℓ−1}(t,·), A^{ℓ−1}(t,·) and
    C^{ℓ−1}(t,·) by layer ℓ−1 on the way up, G^{ℓ+1}(t,·), B^ℓ(t,·) and D^ℓ(t,·) by layer ℓ+1 on the way down.
    """

    def __init__(self, problem: Problem):
        data, depth = problem.data, problem.network.depth
        self.problem, self.richness, self.target = problem, problem.richness, data.y_columns
        self.sizes = sizes = Sizes(problem.training.steps + 1, data.points, data.outputs)
        self.decay, self.memory = weight_memory(problem.training)
        x = data.all_x
        self.inputs = x @ data.x.T / x.shape[1]
        self.layers: list[LinearLayer] = []
        rules = problem.layer_rules
        true_above, kernels = True, [Kernels.zeros(sizes.times * sizes.points, 0) for _ in range(depth)]
        kernels[0].phi = np.tile(self.inputs[: data.points], (sizes.times, sizes.times))
        above = output_kernels(sizes)
        for layer in reversed(range(depth)):
            site = LinearLayer(sizes, rules[layer], kernels[layer].phi, above, true_above)
            if layer + 1 < depth:
                # The layer above reads the kernel that this one will write.
                self.layers[0].covariance["u", "u"] = site.kernels.phi
            self.layers.insert(0, site)
            true_above, above = site.true_here, site.kernels
        self.errors = np.zeros((depth + 1, sizes.times, sizes.points, sizes.outputs))  # e of layers 1 … L, then Δ
        self.f = np.zeros((sizes.times, len(x), sizes.outputs))

    def run(self, progress: Reporter) -> Trajectory:
        for t in range(self.sizes.times):
            with np.errstate(over="ignore", invalid="ignore"):  # divergence is reported once, by `_read_out`
                self._forward(t)
                self._backward(t)
            progress.update(t + 1, self.sizes.times, "linear")
        return Trajectory(self.sizes, self.layers, self.inputs, self.f)

    def _forward(self, t: int) -> None:
        below = np.tile(self.inputs, (1, t + 1))
        inherited: dict[str, np.ndarray] = {}
        past = t * self.sizes.columns
        for number, layer in enumerate(self.layers):
            nothing = np.zeros((len(below), past))
            # Responses of all points, test points included, to the sources of the layer below.
            through_g = self.decay[t] * inherited.get("r", nothing)
            through_g_tilde = self.decay[t] * inherited.get("v", nothing) + self._learnt(number, t, below)
            below = layer.forward(t, below, through_g, through_g_tilde, self.decay[t])
            inherited = layer.inherited

    def _learnt(self, number: int, t: int, kernel: np.ndarray) -> np.ndarray:
        """γ₀ Σ_{s<t} k(t,s) kernel(t,s)·e(s) as a matrix on the backward entries (s, ν, c) of layer `number`+1."""
        points, outputs = self.sizes.points, self.sizes.outputs
        taught = self.memory[t, :t, None, None] * self.errors[number, :t]
        rows = kernel[:, : t * points].reshape(len(kernel), t, points, 1) * taught
        return self.richness * rows.reshape(len(kernel), t * points * outputs)

    def _taught(self, number: int, t: int, kernel: np.ndarray) -> np.ndarray:
        """γ₀ Σ_{s<t,c} k(t,s) kernel(t; s,ν,c)·e_νc(s) as a matrix on the forward entries (s ≤ t, ν)."""
        points, outputs = self.sizes.points, self.sizes.outputs
        taught = self.memory[t, :t, None, None] * self.errors[number, :t]
        rows = kernel[:, : t * points * outputs].reshape(len(kernel), t, points, outputs) * taught
        learnt = np.zeros((len(kernel), (t + 1) * points))
        learnt[:, : t * points] = self.richness * rows.sum(-1).reshape(len(kernel), t * points)
        return learnt

    def _backward(self, t: int) -> None:
        columns, top = self.sizes.columns, len(self.layers)
        now = slice(t * columns, (t + 1) * columns)
        responses: tuple[np.ndarray | float, np.ndarray | float] = (0.0, 0.0)
        for number in reversed(range(top)):
            layer, above = self.layers[number], self.layers[number].above
            learnt = self._taught(number + 1, t, above.g_tilde[now])
            shared = layer.pregradient(t, self.decay[t] * responses[0] + learnt)
            if number + 1 == top:
                self._read_out(t, layer.output(t, shared))
            decay = self.decay[t] if layer.learns else 1.0
            through_h = np.zeros_like(learnt) + decay * layer.rho * responses[1]
            if layer.learns:
                through_h += self._taught(number + 1, t, above.g_tilde_tilde[now])
            a, b = local_coefficients(layer.rule, self.errors[top, t], self.target)
            layer.pseudo_gradient(t, through_h, decay, a, b, shared)
            responses = (layer.response("g", "u", t), layer.response("g_tilde", "u", t))  # type: ignore[assignment]

    def _read_out(self, t: int, overlap: np.ndarray) -> None:
        self.f[t] = overlap / self.richness
        f = self.f[t, : self.sizes.points]
        delta = np.asarray(self.problem.training.loss.delta(jnp.asarray(f), jnp.asarray(self.target)))
        if not (np.all(np.isfinite(self.f[t])) and np.all(np.isfinite(delta))):
            raise DivergenceError(f"training produced NaN or infinity at step {t}; lower dt or richness")
        self.errors[-1, t] = delta
        for number, layer in enumerate(self.layers):
            self.errors[number, t] = np.asarray(layer.rule.teach(jnp.asarray(delta), jnp.asarray(self.target)))
