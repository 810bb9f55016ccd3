"""Sign-symmetric feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from .feedback import Feedback, Signs
from .rule import Rule, Site


@dataclass(frozen=True)
class SignSymmetric(Rule):
    """Backpropagation through the signs of the weights: g̃^ℓ = φ̇(h^ℓ)⊙[sign(W^ℓ(t))ᵀ g̃^{ℓ+1}/√N], sign(w(t)) at the top.

    Networks of finite width take real signs, and so have to be dense; at infinite width see `Signs`.
    """

    feedback: ClassVar[Feedback] = Signs()
    linear: ClassVar[bool] = True

    def local(self, site: Site) -> Array:
        return site.phi_dot * site.signal

    def lazy_g_tilde(self, above: Array, phi_dot: Array) -> Array | None:
        return self.feedback.rho * above * phi_dot
