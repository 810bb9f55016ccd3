"""Train networks with their neurons on one device and shared by all; run by tests/test_devices.py in a process of its
own, since the number of devices is fixed when JAX starts.

Arguments: "few" or an engine, which stands for every rule with it, and for several processes their number, the number
of this one and a port of this machine.
Prints one line per network: the largest difference of what is recorded, relative to its size, and what it is.
"""

import sys

import jax
import numpy as np

import widefield as wf
from widefield.engine.devices import Place
from widefield.engine.interpretation import Interpretation
from widefield.engine.prepare import make_recording, prepare
from widefield.engine.run import Run
from widefield.engine.sources import Pool
from widefield.numerics.sobol import quasi_normals
from widefield.rules.lookup import RULES

WIDTHS = {"mean_field": 1024, "conditioned": 64, "dense": 32}
TOLERANCE = 1e-2
FEW = [("mlp", "mean_field", "gd")]


def make_problem(network: str, rule: str) -> wf.Problem:
    training = wf.Training(steps=4, dt=0.1)
    given = wf.rules.Mixture(["gd", "dfa"]) if rule == "mixture" else rule
    if network == "mlp":
        data = wf.datasets.sphere(points=3, dimension=4, seed=1, test_points=1)
        return wf.Problem(data, wf.MLP(2), given, 1.0, training)
    if network == "rnn":
        data = wf.datasets.sphere(points=2, dimension=6, seed=1)
        return wf.Problem(wf.Dataset(data.x.reshape(2, 3, 2), data.y), wf.RNN(), given, 1.0, training)
    data = wf.datasets.sphere(points=2, dimension=8, seed=1)
    return wf.Problem(wf.Dataset(data.x.reshape(2, 4, 2), data.y), wf.CNN(2), given, 1.0, training)


def make_run(network: str, engine: str, rule: str) -> Run:
    problem = make_problem(network, rule)
    recording = make_recording(problem, ("entk", "g_tilde", "phi"), 1, 4)
    spec, inputs = prepare(problem, recording, "float64", TOLERANCE)
    width, keys = WIDTHS[engine], jax.random.split(jax.random.key(3), 1)
    pools = ()
    if engine == "mean_field":
        quasi = quasi_normals(0, range(1), spec.populations, 16, width, "float64", joint=spec.wiring.crosses)
        pools = [[Pool(rows, (layer,)) for layer, rows in enumerate(quasi[0])]]
    return Run(spec, inputs, Interpretation(engine, width), recording, problem.training.steps, keys, pools)


def trained(run: Run, devices: tuple) -> dict[str, np.ndarray]:
    run = run.at(Place(devices))
    *_, last = run.legs(0)
    shared = [leaf for leaf in jax.tree.leaves(last.state) if not leaf.sharding.is_fully_replicated]
    assert bool(shared) == (len(devices) > 1)
    return run.records_of(last)


def difference(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Largest difference relative to the largest number, over all that is recorded."""
    return max(float(np.max(np.abs(found[name] - value)) / np.max(np.abs(value))) for name, value in expected.items())


def every(engine: str) -> list[tuple[str, str, str]]:
    """All rules, each with the networks that it can train; recurrent ones where it is made for them."""
    found = []
    for rule in RULES:
        networks = ("rnn",) if rule in ("eprop", "rflo", "truncated_bptt") else ("mlp", "cnn")
        entrywise = any(one.feedback.entrywise for one in make_problem(networks[0], rule).layer_rules)
        if engine == "dense" or not entrywise:
            found += [(network, engine, rule) for network in networks]
    return found


def main(which: str, count: str = "1", number: str = "0", port: str = "") -> None:
    jax.config.update("jax_enable_x64", True)
    if int(count) > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", int(count), int(number))
    cases = FEW if which == "few" else every(which)
    for case in cases:
        run = make_run(*case)
        alone, together = trained(run, tuple(jax.local_devices()[:1])), trained(run, tuple(jax.devices()))
        if jax.process_index() == 0:
            print(difference(together, alone), *case, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
