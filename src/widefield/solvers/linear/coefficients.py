"""A rule's pseudo-gradient as a linear function of what a neuron has."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...errors import InputError
from ...rules.rule import Rule, Site

# (h, signal): the origin, the two unit inputs, and others that only a linear rule answers as these foretell.
_PROBES = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-2.0, 0.0], [0.0, -3.0], [0.7, 1.9], [-40.0, 25.0]])


@partial(jax.jit, static_argnames="rule")
def _answers(rule: Rule, error: Array, target: Array) -> Array:
    h, signal = (jnp.asarray(column)[:, None, None] for column in _PROBES.T)
    one = jnp.ones_like(h)
    answer = rule.local(Site(h=h, phi=h, phi_dot=one, signal=signal, error=error, target=target, gate=0 * one))
    return jnp.broadcast_to(answer, (len(_PROBES), *error.shape))


def local_coefficients(rule: Rule, error: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a and b (P, C) of g̃ = a·h + b·signal at error Δ and target y (P, C), by probing `rule.local`.

    Raises an `InputError` where the rule is not linear: its fields are then not Gaussian and nothing closes.
    """
    answers = np.asarray(_answers(rule, jnp.asarray(error), jnp.asarray(target)))
    a, b = answers[1], answers[2]
    expected = _PROBES[:, :1, None] * a + _PROBES[:, 1:, None] * b
    if not np.allclose(answers, expected, rtol=1e-10, atol=1e-12):
        raise InputError(
            f"rule is {rule!r}, whose g̃ is not linear in (h, signal); allowed with method 'linear': rules that are. "
            "Use method 'mean_field' for this one"
        )
    return a, b
