"""One step of a run, as observables see it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from ..problem.networks.wiring import Wiring


class Fields(NamedTuple):
    """What a step computes on the way, per stage of the network (the layers 1 … L of a feed-forward one).

    Fields are (samples, positions, N), training points before test points; gradients (P, outputs, positions, N).
    """

    h: list[Array]
    phi: list[Array]
    signal: list[Array]  # what the rule's feedback delivers
    z: list[Array]  # pre-gradient fields, empty when the signal is them
    g: list[Array]  # true gradients, empty when g̃ is them
    g_tilde: list[Array]
    rows: list[Array | None]  # rows asked of a hidden matrix on the way to the stage, (samples·positions, in)
    f: Array  # (samples, reads, C)
    delta: Array  # (P, reads, C)
    matrices: tuple[Any, ...] = ()  # hidden matrices W(t)


class Moment(NamedTuple):
    """The fields of one step and what is needed to average them.

    A function of your own gets this. `h`, `phi`, `z`, `g` and `g_tilde` are those of the training points, with axes
    `(layer, point, [output,] [position,] neuron)`, outputs and positions only where there are several; `f` and `delta`
    are `(point, [output])`. Average over neurons with `.mean(-1)`.

    Attributes:
        fields: all fields of the step, per stage, test points included.
        x: coordinates of the inputs, (blocks, samples·positions, r).
        y: targets, (P, reads, C).
        points: P, the number of training points.
        wiring: how the network is wired.
        neurons: how many single neurons are kept.
    """

    fields: Fields
    x: Array  # (blocks, samples·positions, r), coordinates of the inputs
    y: Array  # (P, reads, C), targets
    points: int
    wiring: Wiring
    neurons: int  # how many single neurons are kept

    @property
    def h(self) -> Array:
        return self._of_points(self.fields.h)

    @property
    def phi(self) -> Array:
        return self._of_points(self.fields.phi)

    @property
    def z(self) -> Array:
        return self._of_outputs(self.pre_gradients)

    @property
    def g(self) -> Array:
        return self._of_outputs(self.true_gradients)

    @property
    def g_tilde(self) -> Array:
        return self._of_outputs(self.fields.g_tilde)

    @property
    def f(self) -> Array:
        return _squeezed(self.fields.f[: self.points], (1, 2))

    @property
    def delta(self) -> Array:
        return _squeezed(self.fields.delta, (1, 2))

    @property
    def true_gradients(self) -> list[Array]:
        """g per stage; g̃ where they are the same."""
        return self.fields.g or self.fields.g_tilde

    @property
    def pre_gradients(self) -> list[Array]:
        """z per stage, in the shape of g̃."""
        given = self.fields.z or self.fields.signal
        return [jnp.broadcast_to(z, t.shape) for z, t in zip(given, self.fields.g_tilde, strict=True)]

    def by_layer(self, values: list[Any]) -> list[Any]:
        """Values per stage, (points, …), as one array (points, frames, …) per layer.

        Args:
            values: one array per stage of the network: per layer, or per frame of a recurrent one.
        """
        layers = [[] for _ in range(self.wiring.populations)]
        for stage, value in zip(self.wiring.stages, values, strict=True):
            layers[stage.population].append(value)
        return [jnp.stack(layer, axis=1) for layer in layers]

    def _of_points(self, values: list[Array]) -> Array:
        return _squeezed(jnp.stack([value[: self.points] for value in values]), (2,))

    def _of_outputs(self, values: list[Array]) -> Array:
        return _squeezed(jnp.stack(values), (2, 3))


def _squeezed(array: Array, axes: tuple[int, ...]) -> Array:
    return jnp.squeeze(array, tuple(axis for axis in axes if array.shape[axis] == 1))
