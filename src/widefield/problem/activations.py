"""Activation functions φ with their derivatives φ̇."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import MOST_SHOWN, InputError, cut, one_line, shown
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
        return value if ACTIVATIONS.get(value.name) is value else _checked(value)
    if isinstance(value, str) and value in ACTIVATIONS:
        return ACTIVATIONS[value]
    if isinstance(value, str) and ":" in value:
        loaded = load_reference("activation", value)
        if isinstance(loaded, Activation):
            return _checked(loaded)
        return _from_callable(loaded, value)
    if callable(value):
        module, name = getattr(value, "__module__", "?"), getattr(value, "__qualname__", repr(value))
        return _from_callable(value, f"{module}:{name}")
    raise InputError(
        f"activation is {shown(value)}; allowed: one of {', '.join(ACTIVATIONS)}, 'module:name' or a JAX callable"
    )


def _named(name: str) -> Activation | None:
    """What a name stands for, without importing anything."""
    found = ACTIVATIONS.get(name) or find_imported(name)
    return found if found is None or isinstance(found, Activation) else Activation(name, found, Derivative(found))


def _from_callable(phi: Elementwise, name: str) -> Activation:
    _probe(phi, name, "it")
    derivative = Derivative(phi)
    _probe(derivative, name, "its derivative")
    return Activation(name, phi, derivative)


@lru_cache(maxsize=256)
def _checked(activation: Activation) -> Activation:
    """An activation of a user's own, tried out."""
    _probe(activation.phi, activation.name, "its phi")
    _probe(activation.phi_dot, activation.name, "its phi_dot")
    return activation


@double_precision
def _probe(function: Elementwise, name: str, part: str) -> None:
    """Refuse what JAX cannot trace, and functions of several neurons at once."""
    what, allowed = f"activation is {cut(name, MOST_SHOWN)}", "an elementwise function that JAX can differentiate"
    try:
        hash(function)  # compiled functions are kept by it
        h = jnp.asarray([[0.58, -1.7, 2.1], [-0.94, 1.34, -0.18]])  # in no order, for functions that sort
        value, single = jax.jit(lambda h: (function(h), jax.vmap(function)(h.reshape(-1, 1, 1))))(h)
        single = np.asarray(single).reshape(-1)
    except Exception as error:  # a user's function may fail in any way
        raise InputError(f"{what}; {part} fails on a small example ({one_line(error)}); allowed: {allowed}") from error
    good = hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)
    got = f"numbers of type {value.dtype}" if hasattr(value, "dtype") else type(value).__name__
    gives = f"{what}; {part} gives"
    if not good:
        raise InputError(f"{gives} {got}; allowed: {allowed}")
    if value.shape != h.shape:
        raise InputError(f"{gives} shape {value.shape} for shape {h.shape}; allowed: {allowed}, elementwise")
    if not np.allclose(np.ravel(value), single, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise InputError(f"{gives} other values for single neurons than for many; allowed: {allowed}")
    if not np.all(np.isfinite(value)):
        raise InputError(f"{gives} {float(value[~jnp.isfinite(value)][0])} between −1.7 and 2.1; allowed: {allowed}")
