"""Dense interpretation of `WideMatrix`: an N×N array. The ground truth. Cost O(N²k) per question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .eigenvalues import largest
from .sources import Source
from .wide_matrix import Ask, Rates, WideMatrix

DIRECTIONS = 64  # that what was learnt has at most, as far as its largest eigenvalues are concerned


class Dense(WideMatrix):
    """W/√N as an (in, out) array; what follows W, and the N(0, 1) matrix `initial` that W(0) is a multiple of, are kept
    only where they are asked for."""

    weights: Array
    initial: Array | None
    mirror: Array | None
    velocity: Array | None
    scale: Array
    width: int = eqx.field(static=True)
    heavy: ClassVar[bool] = False

    def forward(
        self, rows: Array, source: Source, key: Array, initial: bool = False
    ) -> tuple[Dense, Source, Array, Array]:
        array = self.initial if initial else self.weights
        assert array is not None, "a step that asks for W(0) must be known at the start"
        return self, source, rows @ array, rows

    def backward(self, asks: Sequence[Ask], source: Source, key: Array) -> tuple[Dense, Source, list[Array]]:
        return self, source, [self._answer(ask) for ask in asks]

    def _answer(self, ask: Ask) -> Array:
        if ask.entrywise is not None:
            root = jnp.sqrt(jnp.asarray(self.width, self.weights.dtype))
            return ask.rows @ (ask.entrywise(self.weights * root) / root).T
        answer = jnp.zeros((), self.weights.dtype)
        for name, weight in ask.wants.items():
            array = {"current": self.weights, "initial": self.initial, "mirror": self.mirror}[name]
            assert array is not None, f"a rule that asks for {name} must be known at the start"
            answer = answer + weight * (ask.rows @ array.T)
        return answer

    def structured(self, asked: Array, added: Array, rho: Array) -> Dense:
        change = asked.T @ (added / self.width)
        mirror = None if self.mirror is None else self.mirror + rho * change
        return replace(self, weights=self.weights + change, mirror=mirror)

    def outliers(self, count: int) -> Array:
        assert self.initial is not None, "an observable that asks for what was learnt must be known at the start"
        learnt = self.weights - self.scale * self.initial
        # All but rounding of it lies in few directions, which a few products with random vectors find.
        probes = jax.random.normal(jax.random.key(0), (len(learnt), min(DIRECTIONS, len(learnt))), learnt.dtype)
        basis, _ = jnp.linalg.qr(learnt @ (learnt.T @ (learnt @ probes)))
        return largest(basis.T @ (learnt @ basis), count)

    def update(self, asked: Array, rows: Array, teaching: Array, rates: Rates) -> Dense:
        change = asked.T @ (teaching / self.width)
        velocity, mirror = self.velocity, self.mirror
        if velocity is not None:
            velocity = change = rates.keep * velocity + change
        if mirror is not None:
            mirror = mirror + rates.follow * (self.weights - mirror)
        weights = rates.decay * self.weights + rates.move * change
        return replace(self, weights=weights, mirror=mirror, velocity=velocity, scale=rates.decay * self.scale)


def make_dense(
    key: Array, out: int, inside: int, width: int, dtype, parts: frozenset[str], rho: Array, velocity: bool,
    start: float = 1.0,
) -> Dense:  # fmt: skip
    """A fresh W, start·N(0,1), shape (in, out); `parts` are what is asked about besides W(t), V(0) is ρW(0)."""
    unit = jax.random.normal(key, (inside, out), dtype) / jnp.sqrt(jnp.asarray(width, dtype))
    weights = start * unit
    return Dense(
        weights=weights,
        initial=unit if "initial" in parts else None,
        mirror=rho * weights if "mirror" in parts else None,
        velocity=jnp.zeros_like(weights) if velocity else None,
        scale=jnp.full((), start, dtype),
        width=width,
    )
