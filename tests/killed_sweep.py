"""A sweep of 40 cells on two Dask workers; run, and killed, by tests/test_sweep_killed.py.

Arguments: the folder of cells, a log of cells that were begun, where to put the processes of workers, the result.
"""

import os
import signal
import sys
import time

import xarray as xr

import widefield as wf

CELLS = 40


def run(problem, *, progress, number, log):
    with open(log, "a") as file:
        file.write(f"{number}\n")
    time.sleep(0.3)
    return xr.Dataset({"number": float(number), "squares": ("time", [number**2.0, 1.0])})


def deadly(problem, *, progress, number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return xr.Dataset({"number": float(number)})


def make_problem() -> wf.Problem:
    return wf.Problem(wf.datasets.sphere(2, 2), wf.MLP(1), "gd", 1.0, wf.Training(steps=1, dt=0.1))


def main(folder: str, log: str, processes: str, result: str) -> None:
    problem = make_problem()
    vary = {"number": list(range(CELLS))}
    if processes == "none":
        found = wf.sweep(problem, vary, run, folder, log=log)
    else:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            while len(workers := client.run(os.getpid)) < 2:
                time.sleep(0.1)
            with open(processes, "w") as file:
                file.write(" ".join(map(str, workers.values())))
            found = wf.sweep(problem, vary, run, folder, client, log=log)
    found.drop_attrs().to_netcdf(result, engine="h5netcdf")


if __name__ == "__main__":
    main(*sys.argv[1:])
