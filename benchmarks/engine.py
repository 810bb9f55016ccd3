"""Error against time of mean_field, dense and conditioned networks; scaling of the engine.

    python benchmarks/engine.py [--quick] [--parts error ratio scaling] [--problems …]

`error`: four problems; the error is that of f of one run around a reference (mean_field with many particles), root
    mean square over runs, time and points. Rows go to --table as they come, and the picture is drawn from it.
`ratio`: depth 3 tanh, 100 steps, S = 4000 against a dense network of width 4000, taking turns; errors by many runs.
`scaling`: fitted exponents of cost in particles, points, steps and depth.
Compilation is excluded throughout. Processor time is given next to wall time, which other work on the machine spoils.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import widefield as wf
from widefield.errors import TooFewSamplesError
from widefield.results.result import Result

jax.config.update("jax_enable_x64", True)  # the rate of a product is that of the precision of widefield

FOLDER = Path(__file__).resolve().parent.parent
COLUMNS: tuple[str, ...] = ("problem", "method", "size", "error", "cpu", "seconds")
GROUP = 8  # runs per call where errors are measured by many
NAMES = {"mean_field": "mean field", "dense": "dense networks", "conditioned": "conditioned networks"}


class Sizes(NamedTuple):
    """How large the runs of `error` are: sizes per method, runs, and particles and replicates of the reference."""

    mean_field: tuple[int, ...]
    dense: tuple[int, ...]
    conditioned: tuple[int, ...]
    runs: int
    reference: tuple[int, int]


QUICK = Sizes((1024, 2048), (500, 1000), (500, 1000), 2, (4096, 4))
FULL = Sizes((1024, 4096), (500, 1000, 2000), (500, 2000), 4, (16384, 4))


def problems(quick: bool) -> dict[str, wf.Problem]:
    digits = 30 if quick else 100
    sphere = wf.datasets.sphere
    return {
        "depth 1 relu, richness 2": wf.Problem(sphere(10, 50), wf.MLP(1, "relu"), "gd", 2.0, wf.Training(50, 0.05)),
        "depth 2 tanh, FA(0.5)": wf.Problem(
            sphere(10, 20), wf.MLP(2, "tanh"), wf.rules.FA(rho=0.5), 1.0, wf.Training(50, 0.1)
        ),
        "depth 3 tanh, GD": wf.Problem(sphere(10, 20), wf.MLP(3, "tanh"), "gd", 1.0, wf.Training(100, 0.05)),
        f"depth 2 tanh, {digits} digits": wf.Problem(
            wf.datasets.digits((0, 1), digits), wf.MLP(2, "tanh"), "gd", 1.0, wf.Training(50, 0.5 / digits)
        ),
    }


def run(problem: wf.Problem, method: str, size: int, runs: int, seed: int = 0) -> Result:
    if method == "mean_field":
        return wf.solve(problem, samples=size, seeds=max(runs, 2), seed=seed, progress=False)
    return wf.simulate(problem, size, runs, engine=method, seed=seed, progress=False)


def timed(call: Callable[[], Result]) -> tuple[Result, float, float]:
    """What came out, and processor and wall seconds of one of its runs.

    Called twice: the first compiles, with the same seeds, since how far buffers grow depends on them.
    """
    call()
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    runs = result.info["seeds"]
    return result, (time.process_time() - cpu) / runs, (time.perf_counter() - wall) / runs


def error_of_one(result: Result, reference: np.ndarray) -> float:
    """Root mean square over runs, time and points of f − reference."""
    return _rms(result.replicates["f"].values - reference)


def reference_of(problem: wf.Problem, size: tuple[int, int]) -> np.ndarray:
    result = run(problem, "mean_field", *size, seed=1000)
    print(f"  reference: {size[1]} × {size[0]} particles, standard error {_rms(result['f_se'].values):.1e}", flush=True)
    return result["f"].values


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def measure_errors(name: str, problem: wf.Problem, sizes: Sizes) -> list[dict[str, object]]:
    """Rows of the table for one problem."""
    print(name, flush=True)
    reference = reference_of(problem, sizes.reference)
    rows: list[dict[str, object]] = []
    for method in NAMES:
        if method == "conditioned" and problem.network.depth == 1:
            continue  # no hidden matrix: the same program as dense
        for size in getattr(sizes, method):
            try:
                result, cpu, seconds = timed(lambda m=method, s=size: run(problem, m, s, sizes.runs, seed=1))
            except TooFewSamplesError as error:
                print(f"  {method:11s} {size:6d}  refused: {error}", flush=True)
                continue
            error = error_of_one(result, reference)
            rows.append(dict(zip(COLUMNS, (name, method, size, error, cpu, seconds), strict=True)))
            print(f"  {method:11s} {size:6d}  error {error:.5f}  cpu {cpu:8.3f} s  wall {seconds:8.3f} s", flush=True)
    return rows


def store(path: Path, rows: list[dict[str, object]]) -> list[dict[str, str]]:
    """Replace the rows of the measured problem in the table; all rows, as text."""
    old = list(csv.DictReader(path.open())) if path.exists() else []
    new = [{k: str(v) for k, v in row.items()} for row in rows]
    fresh = {row["problem"] for row in new}
    table = [row for row in old if row["problem"] not in fresh] + new
    temporary = path.with_suffix(".part")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(table)
    temporary.replace(path)
    return table


def draw(table: list[dict[str, str]], path: Path) -> None:
    """Error against processor time of one run, one panel per problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

    names = list(dict.fromkeys(row["problem"] for row in table))
    figure, panels = plt.subplots(1, len(names), figsize=(3.4 * len(names), 3.2), squeeze=False, layout="constrained")
    for panel, name in zip(panels[0], names, strict=True):
        for method, marker in zip(NAMES, "os^", strict=True):
            rows = [row for row in table if row["problem"] == name and row["method"] == method]
            x, y = ([float(row[column]) for row in rows] for column in ("cpu", "error"))
            if rows:
                panel.loglog(x, y, marker=marker, label=NAMES[method])
        panel.set(title=name, xlabel="processor seconds per run")
        panel.title.set_fontsize("medium")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            axis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(np.inf, np.inf)))
            axis.set_minor_formatter(NullFormatter())
    panels[0][0].set_ylabel("error of f")
    handles, labels = panels[0][-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def measure_ratio(size: int, turns: int, groups: int) -> None:
    """Time and error of S particles over those of a dense network of width S, with the same observables."""
    problem = problems(quick=False)["depth 3 tanh, GD"]
    print(f"S = {size} particles against a dense network of width {size}, depth 3 tanh, GD, 100 steps")
    ratios = []
    for turn in range(turns):
        cpu, wall = {}, {}
        for method in ("mean_field", "dense"):
            _, cpu[method], wall[method] = timed(lambda m=method, t=turn: run(problem, m, size, 2, seed=t))
        ratios.append([each["mean_field"] / each["dense"] for each in (wall, cpu)])
        print(f"  wall {wall['mean_field']:.2f} / {wall['dense']:.2f} s, ratio {ratios[-1][0]:.3f}", flush=True)
    wall_ratio, cpu_ratio = np.median(ratios, axis=0)
    print(f"  time ratio {wall_ratio:.3f} (processor time {cpu_ratio:.3f})", flush=True)
    reference = reference_of(problem, (8 * size, 8))
    # Conditioned networks have the law of dense ones and take a third of the time; an error needs many runs.
    found = {m: squared_error_of_many(problem, m, size, groups, reference) for m in ("mean_field", "conditioned")}
    for method, (square, se) in found.items():
        print(f"  {NAMES[method]}: error {square**0.5:.5f} ± {se / 2 / square**0.5:.5f}, {groups} × {GROUP} runs")
    ours, theirs = found["mean_field"], found["conditioned"]
    ratio = (ours[0] / theirs[0]) ** 0.5
    uncertainty = ratio / 2 * np.hypot(ours[1] / ours[0], theirs[1] / theirs[0])
    print(f"  error ratio {ratio:.3f} ± {uncertainty:.3f}")


def squared_error_of_many(
    problem: wf.Problem, method: str, size: int, groups: int, reference: np.ndarray
) -> tuple[float, float]:
    """Mean square error of f of one run, and its standard error over groups of runs."""
    squares = []
    for group in range(groups):
        result = run(problem, method, size, GROUP, seed=100 + group)
        squares.append(error_of_one(result, reference) ** 2)
    return float(np.mean(squares)), float(np.std(squares, ddof=1) / groups**0.5)


def scaled(points: int = 5, steps: int = 50, depth: int = 2) -> wf.Problem:
    data = wf.datasets.sphere(points, 20)
    # The kernel's largest eigenvalue grows with the points; beyond 2/dt training would blow up.
    return wf.Problem(data, wf.MLP(depth, "tanh"), "gd", 1.0, wf.Training(steps, 0.25 / points))


def measure_scaling(quick: bool) -> None:
    """Exponents of processor time in each size, the others fixed."""
    axes: dict[str, tuple[int, ...]] = {
        "samples": (2000, 8000) if quick else (2000, 4000, 8000, 16000, 32000),
        "points": (5, 20) if quick else (5, 10, 20, 40),
        "steps": (100, 400) if quick else (100, 200, 400, 800),
        "depth": (2, 4) if quick else (2, 3, 4, 6, 8),
    }
    for axis, sizes in axes.items():
        times = []
        for size in sizes:
            samples = size if axis == "samples" else 2000
            problem = scaled() if axis == "samples" else scaled(**{axis: size})
            times.append(timed(lambda p=problem, s=samples: run(p, "mean_field", s, 2))[1])
        exponent = np.polyfit(np.log(sizes if axis != "depth" else np.array(sizes) - 1), np.log(times), 1)[0]
        each = ", ".join(f"{size}: {seconds:.3f} s" for size, seconds in zip(sizes, times, strict=True))
        name = "depth − 1" if axis == "depth" else axis
        print(f"cost ∝ ({name})^{exponent:.2f}   {each}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, a few minutes in all")
    parts = ("error", "ratio", "scaling")
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--problems", nargs="+", type=int, choices=(1, 2, 3, 4), default=[1, 2, 3, 4])
    parser.add_argument("--turns", type=int, default=3, help="how often `ratio` measures times")
    parser.add_argument(
        "--groups", type=int, default=8, help=f"groups of {GROUP} runs by which `ratio` measures errors"
    )
    parser.add_argument("--table", type=Path, default=Path("engine.csv"))
    parser.add_argument("--picture", type=Path, default=FOLDER / "docs" / "images" / "engine.png")
    options = parser.parse_args()
    if "error" in options.parts:
        for number, (name, problem) in enumerate(problems(options.quick).items(), 1):
            if number in options.problems:
                rows = measure_errors(name, problem, QUICK if options.quick else FULL)
                draw(store(options.table, rows), options.picture)
    if "ratio" in options.parts:
        measure_ratio(1000 if options.quick else 4000, options.turns, 2 if options.quick else options.groups)
    if "scaling" in options.parts:
        measure_scaling(options.quick)


if __name__ == "__main__":
    main()
