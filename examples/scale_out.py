"""One solve in several processes.

python examples/scale_out.py                # one process and all its devices
python examples/scale_out.py --processes 2  # two processes of this machine, joined by its loopback interface
srun python examples/scale_out.py --slurm   # one process per SLURM task; see examples/scale_out.sbatch
"""

import argparse
import os
import socket
import subprocess
import sys

import jax

import widefield as wf


def solve(out: str | None, samples: int, checkpoint: str | None) -> None:
    """The same call in every process; each gets the same result, and the first one keeps it."""
    problem = wf.Problem(
        data=wf.datasets.sphere(points=5, dimension=20),
        network=wf.MLP(depth=2, activation="tanh"),
        rule=wf.rules.FA(rho=0.5),
        richness=1.0,
        training=wf.Training(steps=20, dt=0.1),
    )
    result = wf.solve(problem, samples=samples, seeds=2, checkpoint=checkpoint)
    if jax.process_index() == 0:
        print(result.summary())
        if out is not None:
            result.save(out)


def start(processes: int, arguments: list[str]) -> int:
    """This script, so many times; 0 if all of them succeed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    commands = [[sys.executable, __file__, *arguments, "--join", address, str(processes), str(number)]
                for number in range(processes)]  # fmt: skip
    return max(abs(process.wait()) for process in [subprocess.Popen(command) for command in commands])


def take_share_of_cores(processes: int, number: int) -> None:
    """Processes of one machine get in each other's way unless each has cores of its own; SLURM sees to that itself."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[number::processes] or cores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--slurm", action="store_true", help="one process per task of srun")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--checkpoint", help="a folder that all processes see")
    parser.add_argument("--out", help="netCDF file for the result")
    parser.add_argument("--join", nargs=3, metavar=("ADDRESS", "PROCESSES", "NUMBER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processes > 1 and not options.join:
        sys.exit(start(options.processes, sys.argv[1:]))
    if options.slurm or options.join:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")  # without GPUs; no effect with them
    if options.slurm:
        jax.distributed.initialize()  # finds the other tasks by itself
    elif options.join:
        address, processes, number = options.join
        take_share_of_cores(int(processes), int(number))
        jax.distributed.initialize(address, int(processes), int(number))
    solve(options.out, options.samples, options.checkpoint)


if __name__ == "__main__":
    main()
