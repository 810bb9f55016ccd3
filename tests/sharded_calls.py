"""`wf.solve`, `wf.simulate`, checkpoints and errors on two devices or in two processes; run by tests/test_devices.py.

Arguments as in sharded_runs.py. Prints the largest relative difference from one device, and what it is of.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
from sharded_runs import make_problem

import widefield as wf
from widefield.engine import checkpoint, devices
from widefield.errors import DivergenceError


def compare(name: str, found: wf.Result, expected: wf.Result) -> None:
    assert found.info["devices"] == len(jax.devices())
    differences = []
    for variable in ("f", "f_se", "entk", "phi"):
        value = expected[variable].values
        differences.append(np.max(np.abs(found[variable].values - value)) / np.max(np.abs(value)))
    if jax.process_index() == 0:
        print(max(differences), name, flush=True)


def main(which: str = "calls", count: str = "1", number: str = "0", port: str = "") -> None:
    if int(count) > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", int(count), int(number))
    devices.LEAST_SHARE = 1
    one, problem = jax.local_devices()[:1], make_problem("mlp", "fa")
    record = {"record": ("entk", "phi")}

    given = {"samples": 256, "seeds": 3, "tolerance": 0.01, **record}  # a replicate on each device, and one more
    alone = wf.solve(problem, devices=one, **given)
    compare("replicates", wf.solve(problem, **given), alone)

    folder = Path(tempfile.gettempdir()) / f"widefield-{port or 'devices'}"
    checkpoint.Checkpoint.__init__.__defaults__ = (0.0, ())  # write at every chance
    single = wf.simulate(problem, 64, 1, engine="conditioned", devices=one, **record)
    for name in ("network", "network, read from its checkpoint"):
        found = wf.simulate(problem, 64, 1, engine="conditioned", checkpoint=folder, **record)
        differences = [np.max(np.abs(found[v].values - single[v].values)) for v in ("f", "entk", "phi")]
        if jax.process_index() == 0:
            print(max(differences), name, flush=True)
    if int(count) > 1:
        devices.wait_for_all(jax.devices(), "done")
    if jax.process_index() == 0:
        shutil.rmtree(folder)

    steep = wf.Problem(problem.data, problem.network, "gd", 1.0, wf.Training(steps=400, dt=50.0))
    try:
        wf.simulate(steep, 16, 2, engine="dense", record=())
    except DivergenceError as error:
        if jax.process_index() == 0:
            print(0.0 if "dt 50" in str(error) else 1.0, "divergence", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
