"""Dense interpretation of `WideMatrix`: an N×N array. The ground truth. Cost O(N²k) per question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .sources import Source
from .wide_matrix import Answer, Ask, WideMatrix


class Dense(WideMatrix):
    """W/√N as an (in, out) array; W(0) is kept only where a rule asks for it."""

    weights: Array
    initial: Array | None
    velocity: Array | None
    scale: Array
    width: int = eqx.field(static=True)

    def forward(self, rows: Array, source: Source, key: Array) -> tuple[Dense, Source, Array, Array]:
        return self, source, rows @ self.weights, rows

    def backward(self, asks: Sequence[Ask], source: Source, key: Array) -> tuple[Dense, Source, list[Answer]]:
        answers = []
        for ask in asks:
            current = ask.rows @ self.weights.T if ask.current else None
            initial = None
            if ask.initial:
                assert self.initial is not None, "a rule that asks for W(0) must be known at the start"
                initial = ask.rows @ self.initial.T
            answers.append(Answer(current, initial))
        return self, source, answers

    def update(self, asked: Array, teaching: Array, decay: Array, keep: Array) -> Dense:
        change = asked.T @ (teaching / self.width)
        velocity = self.velocity
        if velocity is not None:
            velocity = change = keep * velocity + change
        weights = decay * self.weights + change
        return replace(self, weights=weights, velocity=velocity, scale=decay * self.scale)


def make_dense(key: Array, out: int, inside: int, width: int, dtype, keep_initial: bool, velocity: bool) -> Dense:
    """A fresh W with N(0,1) entries, shape (in, out)."""
    weights = jax.random.normal(key, (inside, out), dtype) / jnp.sqrt(jnp.asarray(width, dtype))
    return Dense(
        weights=weights,
        initial=weights if keep_initial else None,
        velocity=jnp.zeros_like(weights) if velocity else None,
        scale=jnp.ones((), dtype),
        width=width,
    )
