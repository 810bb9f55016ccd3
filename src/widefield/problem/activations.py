"""Activation functions φ with their derivatives φ̇."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from ..errors import InputError, one_line
from .references import load_reference

Elementwise = Callable[[Array], Array]


@dataclass(frozen=True)
class Activation:
    """An elementwise nonlinearity φ and its derivative φ̇.

    `name` is what a TOML file says: a built-in name or `module:attribute`.
    """

    name: str
    phi: Elementwise
    phi_dot: Elementwise

    def __repr__(self) -> str:
        return self.name


def _elementwise_derivative(phi: Elementwise) -> Elementwise:
    # A jvp along ones is the elementwise derivative for any array shape.
    return lambda h: jax.jvp(phi, (h,), (jnp.ones_like(h),))[1]


def _relu(h: Array) -> Array:
    return math.sqrt(2.0) * jnp.maximum(h, 0.0)


def _relu_dot(h: Array) -> Array:
    return math.sqrt(2.0) * (h > 0).astype(h.dtype)


def _gelu(h: Array) -> Array:
    return jax.nn.gelu(h, approximate=False)


RELU = Activation("relu", _relu, _relu_dot)
TANH = Activation("tanh", jnp.tanh, lambda h: 1.0 - jnp.tanh(h) ** 2)
ERF = Activation("erf", jax.lax.erf, lambda h: 2.0 / math.sqrt(math.pi) * jnp.exp(-h * h))
LINEAR = Activation("linear", lambda h: h, jnp.ones_like)
GELU = Activation("gelu", _gelu, _elementwise_derivative(_gelu))
SOFTPLUS = Activation("softplus", jax.nn.softplus, jax.nn.sigmoid)

ACTIVATIONS = {a.name: a for a in (RELU, TANH, ERF, LINEAR, GELU, SOFTPLUS)}


def as_activation(value: str | Activation | Elementwise) -> Activation:
    """Turn a name, `module:attribute` or a JAX-differentiable callable into an `Activation`."""
    if isinstance(value, Activation):
        return value
    if isinstance(value, str) and value in ACTIVATIONS:
        return ACTIVATIONS[value]
    if isinstance(value, str) and ":" in value:
        loaded = load_reference("activation", value)
        if isinstance(loaded, Activation):
            return loaded
        return _from_callable(loaded, value)
    if callable(value):
        module, name = getattr(value, "__module__", "?"), getattr(value, "__qualname__", repr(value))
        return _from_callable(value, f"{module}:{name}")
    raise InputError(
        f"activation is {value!r}; allowed: one of {', '.join(ACTIVATIONS)}, 'module:name' or a JAX callable"
    )


def _from_callable(phi: Elementwise, name: str) -> Activation:
    try:
        shape = jax.eval_shape(_elementwise_derivative(phi), jax.ShapeDtypeStruct((2, 3), jnp.float64)).shape
    except Exception as error:
        raise InputError(
            f"activation is {name}; allowed: a callable that JAX can differentiate elementwise ({one_line(error)})"
        ) from error
    if shape != (2, 3):
        raise InputError(f"activation is {name}, which turns shape (2, 3) into {shape}; allowed: elementwise callables")
    return Activation(name, phi, _elementwise_derivative(phi))
