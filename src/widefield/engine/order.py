"""Order of work inside a compiled step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def after(value: Array, *earlier: Array) -> Array:
    """The number `value`, known only once `earlier` are.

    What is computed from it may then overwrite the buffers that `earlier` were read from; without this order
    XLA copies them, which was a fifth of the time of a step. It is a true dependence, because XLA drops optimisation
    barriers on the CPU before it decides about copies; numbers that are not finite pass through.
    """
    nothing = sum((0.0 * e[(0,) * e.ndim] for e in earlier if e.size), jnp.zeros(()))
    return value + nothing.astype(value.dtype)


def once(*numbers: Array) -> tuple[Array, ...]:
    """The same numbers, computed once.

    XLA repeats what a number is computed from inside every loop over neurons that uses it, once for each neuron, which
    makes such a loop five times as slow. It does not look into a sort; this one leaves the order as it is.
    """
    values = jnp.stack([number.astype(numbers[0].dtype) for number in (*numbers, numbers[0])])
    _, values = jax.lax.sort((jnp.arange(len(values)), values), num_keys=1)
    return tuple(values[k].astype(number.dtype) for k, number in enumerate(numbers))
