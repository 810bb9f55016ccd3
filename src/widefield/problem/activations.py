"""Activation functions φ with their derivatives φ̇."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..errors import InputError, one_line
from ..precision import double_precision
from .references import find_imported, load_reference, reduce_by_name

Elementwise = Callable[[Array], Array]


@dataclass(frozen=True)
class Activation:
    """An elementwise nonlinearity φ and its derivative φ̇; two are equal if name and functions are.

    `name` is what a TOML file and a pickle say: a built-in name or `module:attribute`.
    """

    name: str
    phi: Elementwise
    phi_dot: Elementwise

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduce_by_name(self, _named(self.name), as_activation)

    def __deepcopy__(self, memo: dict) -> Activation:
        return self


@dataclass(frozen=True)
class Derivative:
    """φ̇ by automatic differentiation; derivatives of one function are equal, so that they share compilations."""

    phi: Elementwise

    def __call__(self, h: Array) -> Array:
        # A jvp along ones is the elementwise derivative for any array shape.
        return jax.jvp(self.phi, (h,), (jnp.ones_like(h),))[1]


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
GELU = Activation("gelu", _gelu, Derivative(_gelu))
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


def _named(name: str) -> Activation | None:
    """What a name stands for, without importing anything."""
    found = ACTIVATIONS.get(name) or find_imported(name)
    return found if found is None or isinstance(found, Activation) else Activation(name, found, Derivative(found))


@double_precision
def _from_callable(phi: Elementwise, name: str) -> Activation:
    try:
        hash(phi)  # compiled functions are kept by it
        shape = jax.eval_shape(Derivative(phi), jax.ShapeDtypeStruct((2, 3), jnp.float64)).shape
    except Exception as error:
        raise InputError(
            f"activation is {name}; allowed: a callable that JAX can differentiate elementwise ({one_line(error)})"
        ) from error
    if shape != (2, 3):
        raise InputError(f"activation is {name}, which turns shape (2, 3) into {shape}; allowed: elementwise callables")
    return Activation(name, phi, Derivative(phi))
