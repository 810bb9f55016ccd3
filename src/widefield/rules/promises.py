"""What a rule says about itself, tried out on numbers before any run."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import InputError, one_line
from ..precision import double_precision
from .feedback import Feedback
from .rule import Rule, Site

# Points, outputs, positions and neurons of the probe: all different, so that no axis can stand in for another.
POINTS, OUTPUTS, POSITIONS, NEURONS = 4, 3, 2, 5
ROUNDING = 1e-3  # promises are kept to single precision or broken by far


@double_precision
def check_rule(rule: Rule, depth: int) -> tuple[Rule, ...]:
    """The rules of layers 1..depth, each of them checked; raises an `InputError` that names what is wrong."""
    layers = rule.layers(depth)
    for one in (rule, *layers):
        _check_class(one)
    for one in dict.fromkeys(layers):
        if not type(one).__module__.startswith("widefield.rules."):  # those of the table are checked by its tests
            check_functions(one)
    return layers


def _check_class(rule: Rule) -> None:
    """A rule is compared, hashed and compiled by its fields: it must hold nothing else."""
    name = type(rule).__name__
    known = {field.name for field in dataclasses.fields(rule)}
    others = sorted(set(vars(rule)) - known)
    hidden = [field.name for field in dataclasses.fields(rule) if not field.compare or field.hash is False]
    if others:
        raise InputError(
            f"rule is {name}, which holds {', '.join(others)} outside its fields; allowed: a class with "
            "@dataclass(frozen=True) whose parameters are fields, such as `gain: float = 1.0`"
        )
    if not type(rule).__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise InputError(f"rule is {name}, which can be changed; allowed: a class with @dataclass(frozen=True)")
    if hidden:
        raise InputError(
            f"rule is {name}, whose {', '.join(hidden)} is left out when rules are compared, so that one would "
            "pass for another; allowed: fields without compare=False and hash=False"
        )
    try:
        hash(rule)
    except TypeError as error:
        raise InputError(
            f"rule is {name} with a field that cannot be hashed ({one_line(error)}); allowed: numbers, text, tuples"
        ) from error
    if not isinstance(rule.feedback, Feedback):
        raise InputError(
            f"feedback of {name} is {rule.feedback!r}; allowed: an instance such as Weights(), Direct() or Silent()"
        )


def probe_site(seed: int = 0) -> Site:
    rng = np.random.default_rng(seed)

    def draw(outputs: int, positions: int, neurons: int) -> Array:
        return jnp.asarray(rng.standard_normal((POINTS, outputs, positions, neurons)))

    field = (1, POSITIONS, NEURONS)
    return Site(
        h=draw(*field), phi=draw(*field), phi_dot=draw(*field), signal=draw(OUTPUTS, POSITIONS, NEURONS),
        error=draw(OUTPUTS, 1, 1), target=draw(OUTPUTS, 1, 1), gate=draw(*field),
    )  # fmt: skip


def _local(rule: Rule, site: Site) -> np.ndarray:
    """g̃ of the probe, or an error that says what `local` must give."""
    name, shape = f"{type(rule).__name__}.local", (POINTS, OUTPUTS, POSITIONS, NEURONS)
    allowed = "a JAX function of single neurons: an array that broadcasts with site.h and site.signal"
    try:
        value = jax.jit(rule.local)(site)
    except Exception as error:  # a user's function may fail in any way
        raise InputError(f"{name} fails on a small example ({one_line(error)}); allowed: {allowed}") from error
    if not hasattr(value, "dtype") or not jnp.issubdtype(value.dtype, jnp.floating):
        raise InputError(f"{name} gives {_what(value)}; allowed: {allowed}, of real numbers")
    try:
        return np.broadcast_to(np.asarray(value), shape)
    except ValueError as error:
        raise InputError(f"{name} gives shape {value.shape} where {shape} is needed; allowed: {allowed}") from error


def _check_single(rule: Rule, site: Site, answer: np.ndarray) -> None:
    """Refuse a `local` that reads other points, outputs, positions or neurons than its own."""
    places = (0, 0, 0, 0), (POINTS - 1, OUTPUTS - 1, POSITIONS - 1, NEURONS - 1)
    for place in places:

        def cut(field: Array, place: tuple[int, ...] = place) -> Array:
            starts = (0 if size == 1 else at for at, size in zip(place, field.shape, strict=True))
            return field[tuple(slice(start, start + 1) for start in starts)]

        try:
            alone = np.asarray(rule.local(Site(*map(cut, site))))
        except Exception as error:  # a user's function may fail in any way
            raise InputError(
                f"{type(rule).__name__}.local fails for a single neuron and point ({one_line(error)}); allowed: a JAX "
                "function of single neurons"
            ) from error
        if alone.size != 1 or not _close(alone.ravel()[0], answer[place]):
            raise InputError(
                f"{type(rule).__name__}.local gives another value for a single neuron and point than among others; "
                "allowed: a JAX function of single neurons, elementwise"
            )


def _what(value: object) -> str:
    return f"an array of {value.dtype}" if hasattr(value, "dtype") else type(value).__name__  # type: ignore[attr-defined]


def check_functions(rule: Rule) -> None:
    """Try out `local`, `teach` and what `rule` says about itself."""
    name, site = type(rule).__name__, probe_site()
    answer = _local(rule, site)
    _check_single(rule, site, answer)
    error, target = site.error[:, :, 0, 0], site.target[:, :, 0, 0]
    try:
        taught = jax.jit(rule.teach)(error, target)
        fits = taught.shape == error.shape and jnp.issubdtype(taught.dtype, jnp.floating)
    except Exception as reason:
        raise InputError(
            f"{name}.teach fails on a small example ({one_line(reason)}); allowed: a JAX function of Δ and y (P, C)"
        ) from reason
    if not fits:
        raise InputError(
            f"{name}.teach gives {_what(taught)} of shape {taught.shape} where {error.shape} is needed; allowed: a JAX "
            "function of Δ and y (P, C) that gives (P, C)"
        )
    if rule.linear:
        other = probe_site(1)
        unlike = _local(rule, site._replace(error=other.error, target=other.target))
        summed = _local(rule, site._replace(signal=site.signal + 2 * other.signal))
        expected = answer + 2 * _local(rule, site._replace(signal=other.signal))
        if not (_close(unlike, answer) and _close(summed, expected)):
            raise InputError(
                f"rule is {name}, which says linear = True, but its local is not proportional to the signal or reads "
                "the error or target; allowed: linear = False for this rule"
            )
    if rule.is_gradient and not (_close(answer, site.phi_dot * site.signal) and rule.feedback.transposed):
        raise InputError(
            f"rule is {name}, which says is_gradient = True, but its local is not phi_dot * signal through the "
            "transposed weights; allowed: is_gradient = False for this rule"
        )


def _close(a: np.ndarray, b: np.ndarray | Array) -> bool:
    return bool(np.allclose(a, b, rtol=ROUNDING, atol=ROUNDING, equal_nan=True))


def share_one_sweep(layers: tuple[Rule, ...]) -> bool:
    """Whether one backward sweep can carry Σ_c e_c·(signal of output c): linear rules that share their error e."""
    plain = all(type(rule).teach is Rule.teach for rule in layers)
    return all(rule.linear for rule in layers) and (plain or len(set(layers)) == 1)
