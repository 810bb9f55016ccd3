"""What a training run asks of a hidden weight matrix: forward and backward questions, and a low-rank update."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jax import Array

from .sources import Source


class Ask(NamedTuple):
    """A block of backward questions `rows` (k, out) about a sum of W(t) ("current"), the N(0, 1) matrix that W started
    from ("initial") and the matrix V that follows W ("mirror"), with the given weights.

    Where `entrywise` is a function, an interpretation that has entries answers with entrywise(W(t)) instead.
    """

    rows: Array
    wants: Mapping[str, Any]
    entrywise: Callable[[Array], Array] | None = None


class Rates(NamedTuple):
    """How weights change in a step: W ← decay·W + move·V, V ← keep·V + (what was taught).

    Without momentum V is what was taught in this step. What follows W goes the share `follow` of its way to W before.
    """

    decay: Array
    move: Array
    keep: Array
    follow: Array


class WideMatrix(eqx.Module):
    """A Gaussian matrix W (out, in) with learning on top. Neurons are the last axis of every field.

    W(t) = scale·W(0) + what was learnt. All answers carry the factor 1/√N, N the width.
    """

    scale: eqx.AbstractVar[Array]
    heavy: ClassVar[bool]  # a question is much code, and takes a second to compile

    @abc.abstractmethod
    def forward(
        self, rows: Array, source: Source, key: Array, initial: bool = False
    ) -> tuple[WideMatrix, Source, Array, Any]:
        """Answers W(t)·rows/√N (k, out), and a record of the question that `update` takes back.

        `source` is the Gaussian source of the population on the out side. `initial` answers are those of the N(0, 1)
        matrix that W started from.
        """

    @abc.abstractmethod
    def backward(self, asks: Sequence[Ask], source: Source, key: Array) -> tuple[WideMatrix, Source, list[Array]]:
        """Answers (k, in) to backward questions; `source` belongs to the population on the in side."""

    @abc.abstractmethod
    def structured(self, asked: Any, added: Array, rho: Array) -> WideMatrix:
        """With Σ_k added_k ⊗ asked_k/N as a part of W(0)/√N, and ρ times that of what follows W."""

    @abc.abstractmethod
    def outliers(self, count: int) -> Array:
        """The `count` largest eigenvalues of W(t)/√N without the Gaussian part of W(0), (count, 2), in order of size:
        real and imaginary parts; 0 where there are fewer."""

    @abc.abstractmethod
    def update(self, asked: Any, rows: Array, teaching: Array, rates: Rates) -> WideMatrix:
        """W/√N changes by Σ_k teaching_k ⊗ asked_k/N, at these rates.

        `asked` are the records of the questions; the first of them are those of the `rows` of this step.
        """

    def for_rows(self, slots: Array, first: Array) -> WideMatrix:
        """As a step sees it that passes only some of the rows that teach: those of `slots`, which may come more than
        once; `first` (k,) is 1 where one has not come before, else 0."""
        return self

    def for_all(self, slots: Array) -> WideMatrix:
        """The inverse, after that step."""
        return self

    def for_few_rows(self) -> WideMatrix:
        """In a form that answers questions of few rows faster, for more memory."""
        return self

    def at_rest(self) -> WideMatrix:
        """The inverse: without what can be made again."""
        return self
