"""A user's process with 32-bit code of its own; run by tests/test_neighbour.py, prints what it found as JSON.

Every public function that computes with JAX runs twice: as it comes, and then with JAX set to 64 bits for the whole
process. The two must agree to the last bit, and nothing of the user's may change in between.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def users_function(x):
    return x * jnp.linspace(0.0, 1.0, 3)


def is_single() -> bool:
    """Whether the user's code computes in 32 bits: arrays, functions compiled before, functions compiled now."""
    fresh = jax.jit(lambda x: jnp.sin(x) + jnp.ones(3))
    arrays = (jnp.ones(3), jnp.asarray(np.ones(3)), users_function(jnp.ones(3)), fresh(jnp.ones(3)))
    return all(array.dtype == jnp.float32 for array in arrays) and not jax.config.jax_enable_x64


first = users_function(jnp.ones(3))
settings = dict(jax.config.values)

import widefield as wf  # noqa: E402

seen = set()


def note(where, *arrays):
    # What JAX makes without being told a type says which precision it is set to.
    seen.update(f"{where} {array.dtype}" for array in (*arrays, jnp.zeros(()), jnp.asarray(0.5)))


def bump(h):
    note("activation", h)
    return jnp.tanh(h) + 0.1 * jnp.asarray(0.3) * h


def quartic(f, y):
    note("loss", f, y)
    return (f - y) ** 4


@dataclass(frozen=True)
class Own(wf.rules.Rule):
    feedback: ClassVar[wf.rules.Feedback] = wf.rules.Direct()

    def local(self, site):
        note("rule", site.h, site.signal, site.error)
        return site.phi_dot * jnp.tanh(site.signal)

    def teach(self, error, target):
        note("teach", error, target)
        return error


data = wf.datasets.sphere(points=3, dimension=2, seed=1, test_points=1)
plain = wf.Problem(data, wf.MLP(1, "relu"), "gd", 1.0, wf.Training(steps=2, dt=0.1))
logistic = replace(plain, training=wf.Training(steps=2, dt=0.1, loss="logistic"))
own = wf.Problem(wf.Dataset(data.x, data.y), wf.MLP(1, bump), Own(), 1.0, wf.Training(steps=2, dt=0.1, loss=quartic))
linear = replace(plain, network=wf.MLP(1, "linear"), rule="fa")

CALLS = {
    "mean_field": lambda: wf.solve(own, samples=64, seeds=2).dataset,
    "fixed_point": lambda: wf.solve(own, "fixed_point", samples=64, seeds=1, convergence=10.0).dataset,
    "linear": lambda: wf.solve(linear, "linear").dataset,
    "auto": lambda: wf.solve(linear, "auto").dataset,
    "lazy": lambda: wf.solve(plain, "lazy").dataset,
    "simulate": lambda: wf.simulate(own, width=8, seeds=2).dataset,
    "from_arrays": lambda: wf.Result.from_arrays(plain, {"f": np.linspace(0, 1, 9).reshape(3, 3)}).dataset,
    "kernels": lambda: vars(wf.lazy.kernels(data.x, wf.MLP(1, bump), "dfa")),
    "angles": lambda: {"entk": wf.lazy.angle_kernel(wf.MLP(1, "relu"), "gd", np.linspace(0, 3, 4))},
    "predict": lambda: wf.lazy.predict(plain, [0.5, np.inf]).dataset,
    "predict, integrator": lambda: wf.lazy.predict(logistic, [0.5]).dataset,
    "predict, steps": lambda: wf.lazy.predict(logistic, [0.1], discrete=True).dataset,
    "exact": lambda: vars(wf.exact.two_layer_linear(wf.rules.FA(0.5), 2.0, 1.0, [0.5, 1.0])),
    "fluctuations": lambda: vars(wf.fluctuations.kernel_covariance(wf.MLP(1, "relu"), data.x[:2], samples=64, seeds=2)),
}


def arrays_of(found) -> dict[str, np.ndarray]:
    """The arrays of a result. None of them may be JAX's: its operations would take the precision of their caller."""
    values = {name: getattr(value, "values", value) for name, value in dict(found).items()}
    assert not any(isinstance(value, jax.Array) for value in values.values())
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


problems = []
made = {name: arrays_of(call()) for name, call in CALLS.items()}
if not is_single():
    problems.append("32-bit code is not 32-bit after the calls")
for name, one in made.items():
    problems += [f"{name}: {key} is {a.dtype}" for key, a in one.items() if a.dtype == np.float32]

with ThreadPoolExecutor(2) as pool:
    waiting = [pool.submit(CALLS[name]) for name in ("mean_field", "simulate", "lazy")]
    while not all(future.done() for future in waiting):
        if not is_single():
            problems.append("32-bit code is not 32-bit while other threads solve")
            break
threaded = dict(
    zip(("mean_field", "simulate", "lazy"), (arrays_of(future.result()) for future in waiting), strict=True)
)


class Stopped:
    def update(self, done, total, message=""):
        raise KeyboardInterrupt


try:
    wf.simulate(own, width=8, seeds=2, progress=Stopped())
except KeyboardInterrupt:
    if not is_single():
        problems.append("32-bit code is not 32-bit after a run that was stopped")
changed = [name for name, value in jax.config.values.items() if settings.get(name, value) != value]
loaded = [name for name in ("matplotlib", "sklearn", "zarr", "typer", "rich") if name in sys.modules]

jax.config.update("jax_enable_x64", True)
again = {name: arrays_of(call()) for name, call in CALLS.items()}
for name, reference in again.items():
    for kind, other in (("", made), (" in a thread", threaded)):
        if name in other:
            for key, value in reference.items():
                if not np.array_equal(other[name][key], value, equal_nan=value.dtype.kind == "f"):
                    problems.append(f"{name}{kind}: {key} differs from a process of 64-bit numbers")

compared = {name: len(one) for name, one in made.items()}
print(
    json.dumps({"problems": problems, "seen": sorted(seen), "changed": changed, "loaded": loaded, "compared": compared})
)
