"""The table of observables: one entry each, with its dimensions, its meaning and how it is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from ..errors import InputError, one_line, require
from ..problem.problem import Problem
from . import kernels
from .moment import Moment
from .observable import Observable

_KERNEL = ("time", "layer", "sample", "sample_")
_FRAMES = ("frame", "frame_")
_READS = ("read", "read_")
_OUTPUTS = ("output", "output_")
_TWO_TIME = ("layer", "step", "step_", "sample", "sample_")
_RESPONSE = ("inner_layer", "step", "step_", "sample", "sample_")
_NEURON = ("time", "layer", "sample", "frame", "neuron")


def _kernel(name: str, meaning: str, gradients: bool = True) -> Observable:
    dims = _KERNEL + _FRAMES + (_READS + _OUTPUTS if gradients else ())
    return Observable(name, getattr(kernels, name), dims, meaning, gradients)


def _neuron(name: str, meaning: str, gradients: bool = True) -> Observable:
    return Observable(name, getattr(kernels, name), _NEURON, meaning, gradients, draws=True)


def _outliers(name: str, which: str) -> Observable:
    meaning = f"{which} of the largest eigenvalues of W(t)/√N without the Gaussian part of W(0)"
    return Observable(name, getattr(kernels, name), ("time", "eigenvalue"), meaning, gradients=False, weights=True)


OBSERVABLES: dict[str, Observable] = {
    entry.name: entry
    for entry in (
        # Kernels, recorded by default.
        Observable(
            "entk", kernels.entk, ("time", "sample", "sample_", *_FRAMES, *_OUTPUTS),
            "effective neural tangent kernel K; row: true gradient, column: pseudo-gradient",
        ),
        _kernel("phi", "feature kernel ⟨φφ⟩", gradients=False),
        _kernel("g", "gradient kernel ⟨gg⟩"),
        _kernel("g_tilde", "gradient/pseudo-gradient kernel ⟨g g̃⟩"),
        _kernel("g_tilde_tilde", "pseudo-gradient kernel ⟨g̃g̃⟩"),
        # On request.
        Observable(
            "phi_test", kernels.phi_test, ("time", "layer", "test_sample", "test_sample_", *_FRAMES),
            "feature kernel ⟨φφ⟩ of the test points", gradients=False,
        ),
        Observable(
            "phi_positions", kernels.phi_positions, (*_KERNEL, "position", "position_"),
            "feature kernel ⟨φφ⟩ between positions of a CNN", gradients=False,
        ),
        Observable(
            "g_tilde_positions", kernels.g_tilde_positions, (*_KERNEL, "position", "position_", *_OUTPUTS),
            "gradient/pseudo-gradient kernel ⟨g g̃⟩ between positions of a CNN",
        ),
        _neuron("h_particles", "preactivations h of some neurons", gradients=False),
        _neuron("z_particles", "pre-gradient fields z of some neurons"),
        _neuron("g_tilde_particles", "pseudo-gradients g̃ of some neurons"),
        _outliers("outliers_real", "real parts"),
        _outliers("outliers_imaginary", "imaginary parts"),
        # Always there: f is recorded by every run, the rest follows from what was recorded.
        Observable("f", None, ("time", "sample", "frame", "output"), "network output"),
        Observable("delta", None, ("time", "sample", "frame", "output"), "error signal, −∂loss/∂f"),
        Observable("loss", None, ("time",), "loss, summed over training points"),
        Observable("accuracy", None, ("time",), "fraction of training points classified rightly"),
        Observable("f_test", None, ("time", "test_sample", "frame", "output"), "network output on test points"),
        Observable("test_loss", None, ("time",), "loss, summed over test points"),
        Observable("test_accuracy", None, ("time",), "fraction of test points classified rightly"),
        # These follow from kernels where those are recorded; by themselves they take little memory.
        Observable("entk_alignment", kernels.entk_alignment, ("time",), "cosine similarity of K with yyᵀ"),
        Observable(
            "phi_alignment", kernels.phi_alignment, ("time", "layer", "frame"), "cosine similarity of Φ with yyᵀ",
            gradients=False,
        ),
        Observable(
            "gradient_cosine", kernels.gradient_cosine, ("time", "layer", "frame", "read"),
            "cosine of gradient and pseudo-gradient, mean over points",
        ),
        Observable("h_final", None, ("layer", "sample", "neuron"), "last preactivations of some neurons", draws=True),
        # Two-time objects; `step` and `step_` count training steps.
        Observable("phi_two_time", None, _TWO_TIME, "feature kernel ⟨φ(t)φ(s)⟩"),
        Observable("g_two_time", None, _TWO_TIME, "gradient kernel ⟨g(t)g(s)⟩"),
        Observable("g_tilde_two_time", None, _TWO_TIME, "gradient/pseudo-gradient kernel ⟨g(t)g̃(s)⟩"),
        Observable("g_tilde_tilde_two_time", None, _TWO_TIME, "pseudo-gradient kernel ⟨g̃(t)g̃(s)⟩"),
        Observable("response_a", None, _RESPONSE, "response A = ⟨∂φ(h)/∂r⟩"),
        Observable("response_b", None, _RESPONSE, "response B = ⟨∂g/∂u⟩"),
        Observable("response_c", None, _RESPONSE, "response C = ⟨∂φ(h)/∂v⟩"),
        Observable("response_d", None, _RESPONSE, "response D = ⟨∂g̃/∂u⟩"),
    )
}  # fmt: skip
DEFAULT_KERNELS = ("entk", "phi", "g", "g_tilde", "g_tilde_tilde")
ALIGNMENTS = ("entk_alignment", "phi_alignment", "gradient_cosine")
MEASURED = tuple(name for name, entry in OBSERVABLES.items() if entry.measure is not None)


def look_up(name: str) -> Observable:
    """The entry of the table, or one that knows nothing but its name."""
    return OBSERVABLES.get(name) or Observable(name)


def as_observables(record: Any) -> tuple[Observable, ...]:
    """Turn what a user wants recorded (names, observables, functions of a `Moment`) into observables."""
    entries = [record] if isinstance(record, (str, Observable)) or callable(record) else record
    allowed = f"names from {', '.join(MEASURED)}, or functions of the fields"
    require(isinstance(entries, (Sequence, set, frozenset)), "record", record, allowed)
    found = tuple(_as_observable(entry, allowed) for entry in entries)
    names = [one.name for one in found]
    for name in names:
        require(names.count(name) == 1, "record", names, "different names")
    return found


def _as_observable(entry: str | Observable | Callable[..., Any], allowed: str) -> Observable:
    if isinstance(entry, str):
        require(entry in MEASURED, "record", entry, allowed)
        return OBSERVABLES[entry]
    if isinstance(entry, Observable):
        require(entry.measure is not None, "record", entry.name, "observables with a `measure`")
    elif callable(entry):
        entry = Observable(getattr(entry, "__name__", type(entry).__name__), entry)
    else:
        raise InputError(f"record has {entry!r}; allowed: {allowed}")
    named = isinstance(entry.name, str) and entry.name != "" and entry.name.isprintable() and "/" not in entry.name
    require(named, "the name of an observable", entry.name, "text such as my_kernel")
    require(callable(entry.measure), "record", entry.name, "observables whose `measure` is a function of a Moment")
    dims = entry.dims
    good = dims is None or (isinstance(dims, tuple) and dims[:1] == ("time",) and all(isinstance(d, str) for d in dims))
    require(good, f"the dims of {entry.name}", dims, 'None, or a tuple of names that begins with "time"')
    known = entry.name in OBSERVABLES and OBSERVABLES[entry.name] is not entry
    require(not known, "record", entry.name, "a name of its own: this one is taken")
    return entry


def measured(observable: Observable, moment: Moment) -> Array:
    """The value of one step; raises an `InputError` where a user's function fails or gives no numbers."""
    allowed = "a JAX function of a Moment that gives an array of real numbers"
    if OBSERVABLES.get(observable.name) is observable:
        return observable.measure(moment)  # type: ignore[misc]
    try:
        value = observable.measure(moment)  # type: ignore[misc]
    except Exception as error:  # a user's function may fail in any way
        raise InputError(f"record: {observable.name} fails ({one_line(error)}); allowed: {allowed}") from error
    kinds = (jnp.floating, jnp.integer)
    real = hasattr(value, "dtype") and any(jnp.issubdtype(value.dtype, kind) for kind in kinds)
    if not real:
        got = f"numbers of type {value.dtype}" if hasattr(value, "dtype") else type(value).__name__
        raise InputError(f"record: {observable.name} gives {got}; allowed: {allowed}")
    return jnp.asarray(value)


def dims_in(observable: Observable, problem: Problem, axes: int = 1) -> tuple[str, ...]:
    """Dimensions for `problem`; those of outputs are always there.

    `frame` is a frame of neurons in a recurrent network, or of outputs where several are read. Gradients have both:
    `frame` is that of the neurons, `read` that of the output.

    `axes` is the number of axes of the value, for an observable that names no dimensions.
    """
    if observable.dims is None:
        return ("time", *(f"{observable.name}_dim_{k}" for k in range(axes - 1)))
    wiring = problem.wiring
    of_outputs = observable.name in ("f", "delta", "f_test", "entk")
    absent = () if (wiring.reads > 1 if of_outputs else not wiring.feed_forward) else _FRAMES
    absent += () if wiring.reads > 1 else _READS
    return tuple(dim for dim in observable.dims if dim not in absent)


def long_name(observable: Observable) -> str:
    return observable.meaning or observable.name.replace("_", " ")
