"""Losses, summed over samples; Δ = −∂loss/∂f."""

from __future__ import annotations

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

PerSample = Callable[[Array, Array], Array]


def _any_targets(y: np.ndarray) -> str | None:
    return None


@dataclass(frozen=True)
class Loss:
    """A per-sample loss ℓ(f, y) of outputs f (P, C) and targets y (P, C), giving (P,).

    Two are equal if name and functions are.

    Attributes:
        name: what a TOML file and a pickle say: a built-in name or `module:attribute`.
        per_sample: ℓ(f, y).
        check: says what is wrong with targets that the loss cannot take, or None.
    """

    name: str
    per_sample: PerSample
    check: Callable[[np.ndarray], str | None] = _any_targets

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduce_by_name(self, _named(self.name), as_loss)

    def __deepcopy__(self, memo: dict) -> Loss:
        return self

    def total(self, f: Array, y: Array) -> Array:
        """Σ_μ ℓ(f_μ, y_μ).

        Args:
            f, y: outputs and targets, (P, C).
        """
        return jnp.sum(self.per_sample(f, y))

    def delta(self, f: Array, y: Array) -> Array:
        """Δ = −∂loss/∂f, shape (P, C).

        Args:
            f, y: outputs and targets, (P, C).
        """
        return -jax.grad(self.total)(f, y)


def _squared(f: Array, y: Array) -> Array:
    return 0.5 * jnp.sum((f - y) ** 2, axis=-1)


def _logistic(f: Array, y: Array) -> Array:
    return jnp.sum(jax.nn.softplus(-y * f), axis=-1)


def _cross_entropy(f: Array, y: Array) -> Array:
    return -jnp.sum(y * jax.nn.log_softmax(f, axis=-1), axis=-1)


def _signs_only(y: np.ndarray) -> str | None:
    return None if np.all(np.abs(y) == 1) else "targets y of −1 and +1 (one column per class)"


def _one_hot_like(y: np.ndarray) -> str | None:
    good = y.shape[1] > 1 and np.all(y >= 0) and np.allclose(y.sum(1), 1)
    return None if good else "targets y of shape (P, C), C > 1, with rows that are probabilities, e.g. one-hot"


SQUARED = Loss("squared", _squared)

LOSSES = {
    loss.name: loss
    for loss in (
        SQUARED,
        Loss("logistic", _logistic, _signs_only),
        Loss("cross_entropy", _cross_entropy, _one_hot_like),
    )
}


def as_loss(value: str | Loss | PerSample) -> Loss:
    """Turn a name, `module:attribute` or a callable ℓ(f, y) of arrays (P, C) giving (P,) into a `Loss`."""
    if isinstance(value, Loss):
        return value if LOSSES.get(value.name) is value else _checked(value)
    if isinstance(value, str) and value in LOSSES:
        return LOSSES[value]
    if isinstance(value, str) and ":" in value:
        loaded = load_reference("loss", value)
        return _checked(loaded) if isinstance(loaded, Loss) else _from_callable(loaded, value)
    if callable(value):
        return _from_callable(value, f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', '?')}")
    raise InputError(f"loss is {shown(value)}; allowed: one of {', '.join(LOSSES)}, 'module:name' or a callable (f, y)")


@dataclass(frozen=True)
class PerSampleSum:
    """A user's loss, which may give one number per sample or per output; both add up to the same total."""

    given: PerSample

    def __call__(self, f: Array, y: Array) -> Array:
        return self.given(f, y).reshape(f.shape[0], -1).sum(-1)


def _named(name: str) -> Loss | None:
    """What a name stands for, without importing anything."""
    found = LOSSES.get(name) or find_imported(name)
    return found if found is None or isinstance(found, Loss) else Loss(name, PerSampleSum(found))


def _from_callable(per_sample: PerSample, name: str) -> Loss:
    loss = Loss(name, PerSampleSum(per_sample))
    _probe(per_sample, loss)
    return loss


@lru_cache(maxsize=256)
def _checked(loss: Loss) -> Loss:
    """A loss of a user's own, tried out."""
    _probe(loss.per_sample, loss)
    return loss


@double_precision
def _probe(given: PerSample, loss: Loss) -> None:
    """Refuse what JAX cannot differentiate, and losses that are not real numbers per sample."""
    what, allowed = (
        f"loss is {cut(loss.name, MOST_SHOWN)}",
        "a JAX function of f and y (P, C) that gives (P,) or (P, C)",
    )
    f, y = jax.ShapeDtypeStruct((3, 2), jnp.float64), jax.ShapeDtypeStruct((3, 2), jnp.float64)
    hint = ""
    try:
        hash(loss)  # compiled functions are kept by it
        value = jax.eval_shape(given, f, y)
        if not hasattr(value, "dtype"):
            hint = type(value).__name__
        elif not jnp.issubdtype(value.dtype, jnp.floating):
            hint = f"numbers of type {value.dtype}"
        elif value.shape not in ((3,), (3, 1), (3, 2)):
            hint = f"shape {value.shape} for f of shape (3, 2)"
        else:
            jax.eval_shape(loss.delta, f, y)
    except Exception as error:  # a user's function may fail in any way
        raise InputError(f"{what}, which fails on a small example ({one_line(error)}); allowed: {allowed}") from error
    if hint:
        raise InputError(f"{what}, which gives {hint}; allowed: {allowed}")
