"""The learning rule: a small plug-in."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from jax import Array

from .feedback import Feedback, Weights


class Site(NamedTuple):
    """What one neuron can use; all fields broadcast against each other elementwise.

    Attributes:
        h: preactivation.
        phi: output of the neuron, φ(h), or φ̇(m)⊙h in a gated network.
        phi_dot: its derivative by h, φ̇(h), or φ̇(m) in a gated network.
        signal: what the rule's feedback delivers (0 where it is `Silent`).
        error: Δ of the sample and output.
        target: y of the sample and output.
        gate: m of a gated network, 0 otherwise.
    """

    h: Array
    phi: Array
    phi_dot: Array
    signal: Array
    error: Array
    target: Array
    gate: Array


@dataclass(frozen=True)
class Rule(abc.ABC):
    """How hidden layers learn: W^ℓ += dt γ₀/√N Σ_μ e_μ g̃^{ℓ+1}_μ φ(h^ℓ_μ)ᵀ.

    A rule says where the signal comes from (`feedback`) and makes the pseudo-gradient g̃ from
    it (`local`). The error e is Δ unless `teach` says otherwise. The readout always follows
    its true gradient. Any frozen dataclass that fills these in works in every solver:

        @dataclass(frozen=True)
        class SignDFA(wf.rules.Rule):
            feedback = wf.rules.Direct()

            def local(self, site):
                return site.phi_dot * jnp.sign(site.signal)

    `linear`, `is_gradient` and `lazy_g_tilde` are promises about `local` and `feedback`, which let solvers take shorter
    ways. They are checked before a run. A subclass that overrides `local` or `feedback` makes none unless it says so.
    """

    feedback: ClassVar[Feedback] = Weights()  # an instance property where it depends on the rule's parameters
    gated: ClassVar[bool] = False  # φ(h) becomes φ̇(m)⊙h with fixed gates m
    linear: ClassVar[bool] = False  # g̃ = c·signal, c independent of error and target: all outputs can share one sweep
    is_gradient: ClassVar[bool] = False  # g̃ is the true gradient: one backward sweep serves both

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls)
        if "local" in own and "linear" not in own:
            cls.linear = False
        if ("local" in own or "feedback" in own) and "is_gradient" not in own:
            cls.is_gradient = False
        if ("local" in own or "feedback" in own) and "lazy_g_tilde" not in own:
            cls.lazy_g_tilde = Rule.lazy_g_tilde

    @abc.abstractmethod
    def local(self, site: Site) -> Array:
        """The pseudo-gradient g̃ of one neuron, elementwise.

        Args:
            site: what the neuron can use.
        """

    def teach(self, error: Array, target: Array) -> Array:
        """The factor e of the hidden layers' update, (P, C).

        Args:
            error: Δ (P, C).
            target: y (P, C).
        """
        return error

    def layers(self, depth: int) -> tuple[Rule, ...]:
        """The rules of hidden layers 1 … L; the same everywhere unless it is a mixture.

        Args:
            depth: L.
        """
        return (self,) * depth

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        """G̃^ℓ at initialisation in closed form; None where there is none, and it is computed from the definition.

        Args:
            above: G̃^{ℓ+1} of the layer above.
            phi_dot: Φ̇^ℓ = ⟨φ̇φ̇⟩.
        """
        return None


@dataclass(frozen=True)
class Gradient(Rule):
    """Rules whose pseudo-gradient is the true gradient: g̃ = φ̇⊙signal through the transposed weights."""

    feedback: ClassVar[Feedback] = Weights(rho=1.0, learns=True)
    linear: ClassVar[bool] = True
    is_gradient: ClassVar[bool] = True

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return above * phi_dot
