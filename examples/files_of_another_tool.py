"""Recordings in files of another tool: activity in an .npz, dissimilarities in a .csv.

    python examples/files_of_another_tool.py activity.npz    # arrays activity (stage, layer, …) and steps
    python examples/files_of_another_tool.py rdm.csv         # columns layer, step, i, j, dissimilarity

Without a file, both are written first, from a network of width 300.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

import widefield as wf

STEPS = [0, 10, 20]


def make_problem(rule: str | wf.rules.Rule) -> wf.Problem:
    return wf.Problem(wf.datasets.sphere(5, dimension=8, seed=1), wf.MLP(1, "tanh"), rule, 2.0, wf.Training(20, 0.1))


def write_files(folder: Path, width: int = 300) -> tuple[Path, Path]:
    """What another tool might leave behind: recorded activity, and a table of dissimilarities."""
    trained = wf.simulate(make_problem("hebb"), width, 1, record=["phi", "h_particles"], neurons=width, every=10,
                          progress=False)  # fmt: skip
    rng = np.random.default_rng(0)
    activity = np.tanh(trained["h_particles"].values)[..., None]
    noisy = activity + 0.5 * rng.standard_normal((*activity.shape[:-1], 8))
    np.savez(folder / "activity.npz", activity=noisy[:, :, :, :100], steps=STEPS)
    rdm = trained.rdm("phi")["rdm"].values  # (stage, layer, stimulus, stimulus)
    with open(folder / "rdm.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["layer", "step", "i", "j", "dissimilarity"])
        for stage, layer, i, j in np.ndindex(*rdm.shape):
            if i < j:
                writer.writerow([layer + 1, STEPS[stage], i, j, rdm[stage, layer, i, j]])
    return folder / "activity.npz", folder / "rdm.csv"


def read_npz(path: Path) -> wf.Observation:
    with np.load(path) as content:
        return wf.observe(content["activity"], content["steps"])


def read_csv(path: Path) -> wf.Observation:
    """Rows of (layer, step, i, j, dissimilarity), of all neurons of the network, in any order."""
    with open(path, encoding="utf-8") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    layers, steps = (sorted({row[name] for row in rows}) for name in ("layer", "step"))
    stimuli = 1 + int(max(row["j"] for row in rows))
    pairs = stimuli * (stimuli - 1) // 2
    place = np.zeros((stimuli, stimuli), int)
    place[np.triu_indices(stimuli, 1)] = np.arange(pairs)
    values = np.full((len(layers), len(steps), pairs), np.nan)
    for row in rows:
        pair = place[int(row["i"]), int(row["j"])]
        values[layers.index(row["layer"]), steps.index(row["step"]), pair] = row["dissimilarity"]
    return wf.Observation.from_dissimilarities(values, steps, stimuli, layers=[int(layer) for layer in layers])


def main(path: Path | None = None, width: int = 300, folder: Path = Path(), samples: int = 1024, networks: int = 8
         ) -> list[wf.Identification]:  # fmt: skip
    paths = write_files(folder, width) if path is None else (path,)
    problems = {"gradient descent": make_problem("gd"), "DFA": make_problem("dfa"), "Hebb": make_problem("hebb")}
    candidates = wf.candidates(
        problems, STEPS, width=width, networks=networks, samples=samples, seeds=4, progress=False
    )
    found = []
    for one in paths:
        seen = read_npz(one) if one.suffix == ".npz" else read_csv(one)
        print(f"\n{one.name}: {seen.summary()}")
        found.append(wf.identify(seen, candidates))
        print(found[-1].summary())
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
