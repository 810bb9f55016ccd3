"""Where a layer's teaching signal comes from. The engine knows this contract, and no rule by name.

A chained feedback sends g̃^{ℓ+1} down through a matrix B, signal^ℓ = B^ℓᵀ g̃^{ℓ+1}/√N, and B is made of four parts:

    B = current·W(t) + initial·W(0) + fresh·W̃ + mirror·V(t),        V ← V + dt·λ(W − V),  V(0) = ρW(0)

with W̃ a fixed matrix of its own, N(0, 1) as W(0), or N(0, g²) where W(0) has a gain g. The last layer gets the vector
that `top` makes of the readout's counterparts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from ..errors import require_number

PARTS = ("current", "initial", "fresh", "mirror")


class Past(NamedTuple):
    """What the coefficients of a feedback may depend on: weight decay has left `scale` of W(0) after `step` steps.

    Entries of W(0), and of W̃, have standard deviation `start`.
    """

    scale: Any
    step: Any
    dt: Any
    start: float = 1.0


class Vectors(NamedTuple):
    """The readout w and its counterparts, (C, positions, N) each; None where there is none."""

    current: Array
    initial: Array
    fresh: Array | None = None
    mirror: Array | None = None


class Feedback:
    """Contract of a feedback; final classes are frozen dataclasses.

    Attributes:
        chained: the signal comes from the layer above, through a matrix.
        direct: the signal is a fixed N(0, 1) vector per layer and output.
        readout: the signal is the readout w(t), for neurons that are read, and does not come through a matrix.
        reach: how many stages (frames, layers) of a chain an error passes, its own included; None: all.
        learns: the feedback matrix gets every change that W gets.
        static: its correlation with W(t) changes only by learning, so that the lazy limit has a static kernel.
        closed: B is ρW(0) + √(1−ρ²)W̃, with or without W's changes, in every layer and at the top: what Algorithm 1 and
            the closed algebra of linear networks are derived for.
        follow: λ, the rate at which V follows W.
        entrywise: None, or the function of single entries of W that a network of finite width sends signals through;
            the parts then describe its infinite-width law.
    """

    chained: ClassVar[bool] = False
    direct: ClassVar[bool] = False
    readout: ClassVar[bool] = False
    reach: int | None = None
    learns: bool = False
    static: ClassVar[bool] = True
    closed: ClassVar[bool] = True
    rho: float = 0.0
    follow: float = 0.0

    @property
    def entrywise(self) -> Callable[[Array], Array] | None:
        return None

    @property
    def uses(self) -> frozenset[str]:
        """Names of the parts that this feedback is made of."""
        return frozenset()

    @property
    def transposed(self) -> bool:
        """Whether B is W(t) itself, as the true gradient has it."""
        return False

    def coefficients(self, past: Past) -> dict[str, Any]:
        """Numbers in front of the parts in `uses`.

        Args:
            past: how far training is, and what weight decay has left of W(0).
        """
        return {}

    def top(self, w: Vectors, past: Past) -> Array:
        """The signal of the last layer, of the shape of w.

        Args:
            w: the readout and its counterparts.
            past: as for `coefficients`.
        """
        numbers = self.coefficients(past)
        mixed = [numbers[part] * value for part, value in w._asdict().items() if part in numbers and value is not None]
        total = mixed[0]
        for part in mixed[1:]:
            total = total + part
        return total


@dataclass(frozen=True)
class Weights(Feedback):
    """The signal comes from the layer above through a feedback matrix.

    signal^ℓ = [ρW^ℓ(0) + √(1−ρ²)W̃^ℓ]ᵀ g̃^{ℓ+1}/√N, and for ℓ=L the vector ρw(0) + √(1−ρ²)w̃, with
    W̃ and w̃ fresh N(0,1). With `learns` the feedback weights get every change that the forward
    weights get: ρ=1 is then the transposed weights themselves, ρ=0 is Kolen–Pollack.

    Args:
        rho: ρ, from −1 to 1.
        learns: whether the feedback weights change as the forward weights do.
    """

    rho: float = 1.0
    learns: bool = True
    chained: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.rho, Array):
            require_number("rho", self.rho, "a number in [−1, 1]", at_least=-1, at_most=1)

    @property
    def uses(self) -> frozenset[str]:
        parts = {
            "current": self.learns,
            "initial": self.rho != 1 if self.learns else self.rho != 0,
            "fresh": abs(self.rho) != 1,
        }
        return frozenset(name for name, used in parts.items() if used)

    @property
    def transposed(self) -> bool:
        return self.learns and self.rho == 1

    def coefficients(self, past: Past) -> dict[str, Any]:
        fresh = jnp.sqrt(1 - jnp.asarray(self.rho) ** 2)
        if self.learns:
            return {"current": 1.0, "initial": past.scale * (self.rho - 1.0), "fresh": past.scale * fresh}
        return {"initial": self.rho, "fresh": fresh}


@dataclass(frozen=True)
class Truncated(Feedback):
    """The signal comes through the transposed weights, but from `reach` stages at most, the output's own included."""

    reach: int = 1
    rho: ClassVar[float] = 1.0
    learns: ClassVar[bool] = True
    chained: ClassVar[bool] = True
    static: ClassVar[bool] = False
    closed: ClassVar[bool] = False

    @property
    def uses(self) -> frozenset[str]:
        return frozenset({"current"})

    def coefficients(self, past: Past) -> dict[str, Any]:
        return {"current": 1.0}


@dataclass(frozen=True)
class Signs(Feedback):
    """The signal comes through the signs of the forward weights: sign(W(t))ᵀ, and sign(w(t)) at the last layer.

    Entries of a hidden matrix move by order 1/√N around N(0, scale²), so that at infinite width their signs act as
    √(2/π)·W(t)/scale + √(1−2/π)·W̃. Entries of the readout move by order one, and their signs are taken as they are.
    """

    rho: ClassVar[float] = math.sqrt(2 / math.pi)
    learns: ClassVar[bool] = True
    chained: ClassVar[bool] = True
    closed: ClassVar[bool] = False

    @property
    def entrywise(self) -> Callable[[Array], Array] | None:
        return jnp.sign

    @property
    def uses(self) -> frozenset[str]:
        return frozenset({"current", "fresh"})

    def coefficients(self, past: Past) -> dict[str, Any]:
        size = past.scale * past.start
        return {"current": self.rho / size, "fresh": math.sqrt(1 - self.rho**2) / past.start}

    def top(self, w: Vectors, past: Past) -> Array:
        return jnp.sign(w.current)


@dataclass(frozen=True)
class Mirror(Feedback):
    """The signal comes through a matrix that follows the forward weights: dB/dt = λ(W − B), B(0) = ρW(0) + √(1−ρ²)W̃.

    Args:
        rate: λ, in units of inverse training time; dt·λ may be at most 1.
        rho: correlation of B(0) with W(0).
    """

    rate: float = 1.0
    rho: float = 0.0
    chained: ClassVar[bool] = True
    static: ClassVar[bool] = False
    closed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Array):
            require_number("rate", self.rate, "a number above 0", above=0)
            require_number("rho", self.rho, "a number in [−1, 1]", at_least=-1, at_most=1)

    @property
    def follow(self) -> float:  # type: ignore[override]
        return self.rate

    @property
    def uses(self) -> frozenset[str]:
        return frozenset({"mirror", "fresh"} if abs(self.rho) != 1 else {"mirror"})

    def coefficients(self, past: Past) -> dict[str, Any]:
        forgotten = (1 - past.dt * self.rate) ** past.step
        return {"mirror": 1.0, "fresh": jnp.sqrt(1 - jnp.asarray(self.rho) ** 2) * forgotten}


@dataclass(frozen=True)
class Direct(Feedback):
    """The signal is one fixed N(0,1) vector z̃^ℓ per layer (and per output), straight from the output."""

    direct: ClassVar[bool] = True


@dataclass(frozen=True)
class Readout(Feedback):
    """The signal is the readout vector w(t), straight from the output; only neurons that are read have one."""

    readout: ClassVar[bool] = True
    static: ClassVar[bool] = False
    closed: ClassVar[bool] = False


@dataclass(frozen=True)
class Silent(Feedback):
    """There is no signal; the rule uses only what the neuron itself has."""
