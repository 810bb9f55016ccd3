"""Exact dynamics of two-layer linear networks on whitened data (App. F).

With one hidden layer, φ(h) = h and K^x = 1, gradient flow closes on a handful of numbers: the error Δ and the
feature kernel H_y along ŷ, and the alignment G̃. For GD, FA and DFA, y is the norm |y|; Hebb decouples over samples and
y is one sample's target. Two formulas differ from the paper's main text, where they are misprinted: GD has
dΔ/dt = −2H_yΔ, and the roots of Hebb's dΔ/dt are ½[y ± √(y² + 4H/γ₀)].
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import dawsn

from .errors import DivergenceError, InputError, NotConvergedError, require, require_number
from .precision import double_precision
from .problem.arrays import LARGEST, real_array
from .rules.dfa import DFA
from .rules.fa import FA
from .rules.gd import GD
from .rules.gln import GLN
from .rules.hebb import Hebb
from .rules.lookup import as_rule
from .rules.rule import Rule

TOLERANCE = 1e-10
_MAX_STEPS = 1_000_000


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of an increasing function between low and high, to rounding."""
    return float(brentq(function, low, high, xtol=1e-16, maxiter=500))  # pyright: ignore[reportArgumentType]


class Point(NamedTuple):
    """Error Δ, feature kernel H_y and alignment G̃ at one time."""

    delta: float
    h_y: float
    g_tilde: float


class PowerLaw(NamedTuple):
    """coefficient · γ₀^exponent."""

    coefficient: float
    exponent: float

    def __call__(self, richness: ArrayLike) -> np.ndarray:
        return self.coefficient * np.asarray(richness, float) ** self.exponent


@dataclass(frozen=True, eq=False)
class TwoLayer:
    """Trajectories, one entry per time.

    Attributes:
        times: training times.
        delta: error Δ along the targets.
        h_y: feature kernel H_y along the targets.
        g_tilde: alignment G̃ of gradient and pseudo-gradient.
        conserved: quantities the flow conserves, by formula; each would be exactly 0 at all times.
        fixed_point: where the flow ends, t → ∞.
    """

    times: np.ndarray
    delta: np.ndarray
    h_y: np.ndarray
    g_tilde: np.ndarray
    conserved: dict[str, np.ndarray]
    fixed_point: Point


@dataclass(frozen=True)
class _Law(abc.ABC):
    """One rule's flow. The state is integrated in full, so that the conserved quantities test the integration."""

    richness: float
    y: float

    @abc.abstractmethod
    def initial(self) -> list[float]: ...

    @staticmethod
    @abc.abstractmethod
    def rate(t: ArrayLike, state: Array, constants: tuple[Array, Array]) -> Array:
        """d(state)/dt from (γ₀, y); a static function, so that every call of one rule shares one compilation."""

    @abc.abstractmethod
    def read(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Δ, H_y and G̃ from states (times, variables)."""

    @abc.abstractmethod
    def conserved(self, state: np.ndarray) -> dict[str, np.ndarray]:
        """Quantities whose exact value is 0 at all times."""

    @abc.abstractmethod
    def fixed_point(self) -> Point: ...

    @abc.abstractmethod
    def movement_laws(self) -> tuple[PowerLaw, PowerLaw]:
        """H_y(∞) − H_y(0) for small and for large richness."""


@dataclass(frozen=True)
class _GradientLaw(_Law):
    """dH/dt = 2γ₀²(y−Δ)Δ, dΔ/dt = −2HΔ, G̃ = H."""

    def initial(self) -> list[float]:
        return [self.y, 1.0]

    @staticmethod
    def rate(t: ArrayLike, state: Array, constants: tuple[Array, Array]) -> Array:
        (delta, h), (richness, y) = state, constants
        return jnp.stack([-2 * h * delta, 2 * richness**2 * (y - delta) * delta])

    def read(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return state[:, 0], state[:, 1], state[:, 1]

    def conserved(self, state: np.ndarray) -> dict[str, np.ndarray]:
        delta, h = state.T
        return {"H_y² − γ₀²(y−Δ)² − 1": h**2 - (self.richness * (self.y - delta)) ** 2 - 1}

    def fixed_point(self) -> Point:
        h = math.hypot(1.0, self.richness * self.y)
        return Point(0.0, h, h)

    def movement_laws(self) -> tuple[PowerLaw, PowerLaw]:
        return PowerLaw(self.y**2 / 2, 2.0), PowerLaw(abs(self.y), 1.0)


@dataclass(frozen=True)
class _FeedbackLaw(_Law):
    """dH/dt = 2γ₀aΔ, da/dt = γ₀Δ, dG̃/dt = γ₀aΔ, dΔ/dt = −(H+G̃)Δ, with a = ⟨g̃h⟩."""

    rho: float

    def initial(self) -> list[float]:
        return [self.y, 1.0, self.rho, 0.0]

    @staticmethod
    def rate(t: ArrayLike, state: Array, constants: tuple[Array, Array]) -> Array:
        delta, h, g_tilde, a = state
        move = constants[0] * delta
        return jnp.stack([-(h + g_tilde) * delta, 2 * a * move, a * move, move])

    def read(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return state[:, 0], state[:, 1], state[:, 2]

    def conserved(self, state: np.ndarray) -> dict[str, np.ndarray]:
        delta, h, g_tilde, a = state.T
        return {
            "H_y − 1 − a²": h - 1 - a**2,
            "2G̃ − 2ρ − a²": 2 * (g_tilde - self.rho) - a**2,
            "γ₀(Δ−y) + ½a³ + (1+ρ)a": self.richness * (delta - self.y) + a**3 / 2 + (1 + self.rho) * a,
        }

    def fixed_point(self) -> Point:
        drive = self.richness * abs(self.y)

        def cubic(a: float) -> float:
            return a**3 / 2 + (1 + self.rho) * a - drive

        a = _root(cubic, 0.0, (2 * drive) ** (1 / 3) * (1 + 1e-9) + 1e-12)
        return Point(0.0, 1 + a**2, self.rho + a**2 / 2)

    def movement_laws(self) -> tuple[PowerLaw, PowerLaw]:
        large = PowerLaw((2 * abs(self.y)) ** (2 / 3), 2 / 3)
        # At ρ = −1 the linear term of the cubic is gone, and the cube root holds for every richness.
        return large if self.rho == -1 else PowerLaw((self.y / (1 + self.rho)) ** 2, 2.0), large


# Where 2xD(x) = 1, D Dawson's function: the end of Hebb's trajectory at infinite richness.
_HEBB_END = _root(lambda x: 2 * x * float(dawsn(x)) - 1, 0.5, 1.5)


@dataclass(frozen=True)
class _HebbLaw(_Law):
    """dH/dt = 2γ₀HΔ², dΔ/dt = −[H + γ₀(y−Δ)Δ]Δ, G̃ = γ₀(y−Δ)Δ.

    The flow is integrable. With h = E·h(0), w = w(0) + b·h(0), so H = E² and γ₀(y−Δ) = bE, it obeys
    dE/db = y − bE/γ₀, which is linear: e^{x²}[E − √(2γ₀)·y·D(x)] = 1 with x = b/√(2γ₀), D Dawson's function.
    """

    def initial(self) -> list[float]:
        return [self.y, 1.0]

    @staticmethod
    def rate(t: ArrayLike, state: Array, constants: tuple[Array, Array]) -> Array:
        (delta, h), (richness, y) = state, constants
        return jnp.stack([-(h + richness * (y - delta) * delta) * delta, 2 * richness * h * delta**2])

    def read(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        delta, h = state.T
        return delta, h, self.richness * (self.y - delta) * delta

    def conserved(self, state: np.ndarray) -> dict[str, np.ndarray]:
        delta, h = state.T
        x = math.sqrt(self.richness / 2) * (self.y - delta) / np.sqrt(h)
        return {
            "e^{x²}[√H − √(2γ₀)yD(x)] − 1": np.exp(x**2)
            * (np.sqrt(h) - math.sqrt(2 * self.richness) * self.y * dawsn(x))
            - 1
        }

    def fixed_point(self) -> Point:
        scale = math.sqrt(self.richness / 2) * abs(self.y)

        def end(x: float) -> float:  # bE = γ₀y, that is Δ = 0
            return scale * (2 * x * float(dawsn(x)) - 1) + x * math.exp(-x * x)

        x = _root(end, 0.0, _HEBB_END)
        return Point(0.0, (math.exp(-x * x) + 2 * scale * float(dawsn(x))) ** 2, 0.0)

    def movement_laws(self) -> tuple[PowerLaw, PowerLaw]:
        return PowerLaw(self.y**2, 1.0), PowerLaw(self.y**2 / (2 * _HEBB_END**2), 1.0)


# The closed flows that are known. With φ(h) = h gates are 1, and with one hidden layer DFA is FA with ρ = 0.
_LAWS: dict[type[Rule], Callable[[float, float, Rule], _Law]] = {
    GD: lambda richness, y, rule: _GradientLaw(richness, y),
    GLN: lambda richness, y, rule: _GradientLaw(richness, y),
    FA: lambda richness, y, rule: _FeedbackLaw(richness, y, rule.rho),  # type: ignore[attr-defined]
    DFA: lambda richness, y, rule: _FeedbackLaw(richness, y, 0.0),
    Hebb: lambda richness, y, rule: _HebbLaw(richness, y),
}


def _law(rule: str | Rule, richness: float, y: float) -> _Law:
    rule = as_rule(rule)
    if type(rule) not in _LAWS:
        known = ", ".join(kind.__name__ for kind in _LAWS)
        raise InputError(f"rule is {rule!r}; allowed: one with a closed two-layer flow ({known})")
    require_number("richness", richness, f"a number above 0, up to {LARGEST:g}", above=0, at_most=LARGEST)
    whose = f"a number up to {LARGEST:g}: |y|, or for Hebb one sample's target"
    require_number("y", y, whose, at_least=-LARGEST, at_most=LARGEST)
    return _LAWS[type(rule)](float(richness), float(y), rule)


def two_layer_linear(rule: str | Rule, richness: float, y: float, times: ArrayLike) -> TwoLayer:
    """Solve App. F's flow at `times` (increasing, from 0 on) to a relative 1e-10.

    ```python
    wf.exact.two_layer_linear(wf.rules.FA(rho=0.5), richness=2.0, y=1.0, times=[0.0, 1.0, 2.0]).h_y
    ```

    Args:
        rule: "gd", "fa", "dfa", "gln" or "hebb", or the rule itself, e.g. `wf.rules.FA(rho=0.5)`.
        richness: γ₀, above 0.
        y: the norm |y| of the targets; for Hebb, one point's target.
        times: increasing training times, 0 or more.
    """
    law = _law(rule, richness, y)
    at = real_array("times", times)
    ordered = at.ndim == 1 and len(at) > 0 and at[0] >= 0 and np.all(np.diff(at) > 0)
    require(bool(ordered), "times", times, "finite numbers, 0 or more, in increasing order")
    state = _integrate(law, at)
    if not np.all(np.isfinite(state)):
        raise DivergenceError(f"the two-layer flow of {rule!r} produced NaN or infinity; lower richness or y")
    with np.errstate(over="ignore", invalid="ignore"):  # conserved quantities of large numbers may overflow
        delta, h_y, g_tilde = law.read(state)
        return TwoLayer(at, delta, h_y, g_tilde, law.conserved(state), law.fixed_point())


@double_precision
def _integrate(law: _Law, times: np.ndarray) -> np.ndarray:
    """States (times, variables) by Dormand–Prince 8(7)."""
    import diffrax  # here, because it takes half a second to import and fixed points do without

    start = np.asarray(law.initial())
    if times[-1] == 0:
        return start[None]
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(law.rate),
        diffrax.Dopri8(),
        t0=0.0,
        t1=float(times[-1]),
        dt0=None,
        y0=jnp.asarray(start),
        args=(jnp.asarray(law.richness), jnp.asarray(law.y)),
        saveat=diffrax.SaveAt(ts=jnp.asarray(times)),
        # Local errors add up over the run; a hundredth of the promise per step keeps the sum below it.
        stepsize_controller=diffrax.PIDController(rtol=TOLERANCE / 100, atol=TOLERANCE / 1000),
        max_steps=_MAX_STEPS,
        throw=False,
    )
    if solution.result != diffrax.RESULTS.successful:
        raise NotConvergedError(
            f"the two-layer flow did not reach time {times[-1]:g} in {_MAX_STEPS} steps; lower times, richness or y"
        )
    return np.asarray(solution.ys)


def fixed_point(rule: str | Rule, richness: float, y: float) -> Point:
    """Where the flow ends, in closed form or as the root of a scalar equation.

    Args:
        rule: "gd", "fa", "dfa", "gln" or "hebb", or the rule itself, e.g. `wf.rules.FA(rho=0.5)`.
        richness: γ₀, above 0.
        y: the norm |y| of the targets; for Hebb, one point's target.
    """
    return _law(rule, richness, y).fixed_point()


def feature_movement(rule: str | Rule, richness: float, y: float) -> float:
    """How far the feature kernel moves: ΔH_y = H_y(∞) − H_y(0).

    Args:
        rule: "gd", "fa", "dfa", "gln" or "hebb", or the rule itself, e.g. `wf.rules.FA(rho=0.5)`.
        richness: γ₀, above 0.
        y: the norm |y| of the targets; for Hebb, one point's target.
    """
    return fixed_point(rule, richness, y).h_y - 1


def feature_movement_laws(rule: str | Rule, y: float) -> tuple[PowerLaw, PowerLaw]:
    """The power laws of ΔH_y for γ₀ → 0 and γ₀ → ∞: γ₀² then γ₀ (GD), γ₀² then γ₀^{2/3} (FA), γ₀ and γ₀ (Hebb).

    Args:
        rule: "gd", "fa", "dfa", "gln" or "hebb", or the rule itself, e.g. `wf.rules.FA(rho=0.5)`.
        y: the norm |y| of the targets; for Hebb, one point's target.
    """
    return _law(rule, 1.0, y).movement_laws()


def hebb_error_roots(h: float, richness: float, y: float) -> tuple[float, float, float]:
    """The errors where Hebb's dΔ/dt vanishes at feature kernel h: 0 and ½[y ± √(y² + 4h/γ₀)].

    Args:
        h: the feature kernel H, above 0.
        richness: γ₀, above 0.
        y: one point's target.
    """
    for name, value in (("h", h), ("richness", richness)):
        require_number(
            name, value, f"a number above 0, from {1 / LARGEST:g} to {LARGEST:g}", at_least=1 / LARGEST, at_most=LARGEST
        )
    require_number("y", y, f"a number up to {LARGEST:g}", at_least=-LARGEST, at_most=LARGEST)
    root = math.sqrt(y**2 + 4 * h / richness)
    return 0.0, (y + root) / 2, (y - root) / 2
