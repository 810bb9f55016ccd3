"""What was observed: kernels or dissimilarities at stages of learning, and how well they are known."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from ..errors import InputError, require, require_integer, require_one_of
from ..problem.arrays import real_array
from ..problem.problem import Problem
from ..results.result import Result
from .kernels import dissimilarity_map, noise_variance, pairs_of, products, unfold

KINDS = ("kernel", "rdm")
# A kernel whose most negative eigenvalue is beyond this share of its largest is none; rounding is far below.
NEGATIVE = 1e-6


class Observation:
    """Kernels of recorded neurons, or dissimilarities, at stages of learning.

    Make one with `wf.observe` (activity), `Observation.from_kernels`, `Observation.from_result` or `wf.rsa.from_rdms`.

    Attributes:
        values: kernel entries i ≤ j, or dissimilarities i < j, (layer, stage, pair).
        kind: "kernel" or "rdm".
        steps: training step of each stage, in steps of the problem that it is held against.
        layers: label of each layer: 1, 2, … from the input, −1, −2, … from the output.
        stimuli: how many there are.
        neurons: recorded neurons per layer; None where the values are of all neurons that there are.
        trials: trials per stimulus; None without.
        noise: variance from trial to trial, (layer, stage, stimulus).
        activity: what was recorded, (stage, stimulus, neuron[, trial]) per layer; None for kernels.
    """

    def __init__(
        self, values: np.ndarray, kind: str, steps: np.ndarray, layers: tuple[int, ...], stimuli: int,
        neurons: tuple[int, ...] | None = None, activity: tuple[np.ndarray, ...] | None = None,
    ):  # fmt: skip
        self.values, self.kind, self.steps, self.layers, self.stimuli = values, kind, steps, layers, stimuli
        self.neurons, self.activity = neurons, activity
        with_trials = activity is not None and activity[0].ndim == 4
        self.trials = activity[0].shape[-1] if activity is not None and with_trials else None
        shape = (len(layers), len(steps), stimuli)
        self.noise = np.zeros(shape) if activity is None else np.stack([noise_variance(one) for one in activity])

    @classmethod
    def from_kernels(
        cls, phi: ArrayLike, steps: ArrayLike, *, neurons: int | Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
    ) -> Observation:  # fmt: skip
        """Kernels ⟨φφ⟩ of your own, averages over neurons.

        Args:
            phi: (stage, layer, stimulus, stimulus), free of trial noise, symmetric and positive semidefinite.
            steps: the training step of each stage.
            neurons: how many neurons they are averages over, in all or per layer; default all that the network has.
            layers: label of each layer; default 1, 2, ….
        """
        given = real_array("phi", phi)
        good = given.ndim == 4 and given.shape[2] == given.shape[3] and 0 not in given.shape
        require(bool(good), "phi", f"of shape {given.shape}", "shape (stage, layer, stimulus, stimulus)")
        _check_kernels(given)
        labels = check_layers(layers, given.shape[1])
        first, second = pairs_of("kernel", given.shape[2])
        values = given[:, :, first, second].transpose(1, 0, 2)
        return cls(values, "kernel", check_steps(steps, given.shape[0]), labels, given.shape[2],
                   check_neurons(neurons, len(labels)))  # fmt: skip

    @classmethod
    def from_dissimilarities(
        cls, values: ArrayLike, steps: ArrayLike, stimuli: int, *, neurons: int | Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
    ) -> Observation:  # fmt: skip
        """Squared Euclidean distances per neuron, free of trial noise.

        Args:
            values: (layer, stage, pair), pairs i < j in the order of `np.triu_indices(stimuli, 1)`.
            steps: the training step of each stage.
            stimuli: how many.
            neurons, layers: as in `from_kernels`.
        """
        require_integer("stimuli", stimuli, 2)
        given = real_array("values", values)
        good = given.ndim == 3 and 0 not in given.shape and given.shape[2] == stimuli * (stimuli - 1) // 2
        require(
            bool(good), "values", f"of shape {given.shape}", f"shape (layer, stage, {stimuli * (stimuli - 1) // 2})"
        )
        labels = check_layers(layers, given.shape[0])
        return cls(given, "rdm", check_steps(steps, given.shape[1]), labels, stimuli,
                   check_neurons(neurons, len(labels)))  # fmt: skip

    @classmethod
    def from_result(
        cls, result: Result, steps: Sequence[int] | None = None, *, layers: Sequence[int] | None = None
    ) -> Observation:
        """Kernels of all neurons of one network: a `Result` of `wf.simulate(…, seeds=1)` or `Result.from_arrays`.

        Args:
            result: one network's.
            steps: which of the recorded steps; default all of them.
            layers: which layers; default all of them.
        """
        require(isinstance(result, Result), "result", type(result).__name__, "a widefield.Result")
        require("phi" in result, "result", "without phi", "a result that holds phi")
        runs = result.replicates["phi"]
        require(runs.sizes["seed"] == 1, "result", f"of {runs.sizes['seed']} networks", "a result of one network")
        require(runs.ndim == 5, "result", f"with phi along {', '.join(map(str, runs.dims))}", "a feed-forward network")
        taken = np.rint(runs["time"].values / result.problem.training.dt)
        chosen = taken if steps is None else np.asarray(steps, float)
        missing = [float(step) for step in chosen if step not in taken]
        require(not missing, "steps", missing, f"recorded steps, {taken[0]:g} to {taken[-1]:g}")
        labels = tuple(range(1, runs.sizes["layer"] + 1)) if layers is None else tuple(layers)
        places = [int(np.flatnonzero(taken == step)[0]) for step in chosen]
        depth = runs.sizes["layer"]
        kept = runs.values[0][places][:, [layer_index(label, depth) for label in labels]]
        return cls.from_kernels(kept, chosen, layers=labels)

    @property
    def stages(self) -> int:
        return len(self.steps)

    @property
    def matrices(self) -> np.ndarray:
        """Kernels or dissimilarities as matrices, (stage, layer, stimulus, stimulus)."""
        return unfold(self.values, self.kind, self.stimuli).transpose(1, 0, 2, 3)

    def features(self, kind: str) -> np.ndarray:
        """Values as kernels or dissimilarities, (layer, stage, pair).

        Args:
            kind: "kernel" or "rdm".
        """
        require_one_of("kind", kind, KINDS)
        if kind == self.kind:
            return self.values
        if kind == "kernel":
            raise InputError("the observation holds dissimilarities, from which kernels do not follow; use kind='rdm'")
        return self.values @ dissimilarity_map(self.stimuli).T

    def single_neurons(self, kind: str) -> list[np.ndarray] | None:
        """Features of single neurons per layer, (stage·pair, neuron), whose mean is `features`; None for kernels.

        Args:
            kind: "kernel" or "rdm".
        """
        if self.activity is None:
            return None
        out = []
        for one in self.activity:
            found = products(one, *pairs_of("kernel", self.stimuli))
            if kind == "rdm":
                found = np.einsum("fp,spn->sfn", dissimilarity_map(self.stimuli), found)
            out.append(found.reshape(-1, found.shape[-1]))
        return out

    def standard_errors(self, kind: str) -> np.ndarray | None:
        """Of `features`, from the scatter over neurons, (layer, stage, pair).

        Args:
            kind: "kernel" or "rdm".
        """
        single = self.single_neurons(kind)
        if single is None:
            return None
        return np.stack([one.std(-1, ddof=1) / np.sqrt(one.shape[-1]) for one in single]).reshape(
            len(self.layers), self.stages, -1
        )

    @property
    def dataset(self) -> xr.Dataset:
        """`phi` or `rdm` (stage, layer, sample, sample_), with standard errors where neurons were recorded."""
        name = "phi" if self.kind == "kernel" else "rdm"
        dims = ("stage", "layer", "sample", "sample_")
        out: dict[str, Any] = {name: (dims, self.matrices)}
        errors = self.standard_errors(self.kind)
        if errors is not None:
            out[f"{name}_se"] = (dims, unfold(errors, self.kind, self.stimuli).transpose(1, 0, 2, 3))
            out["noise"] = (("layer", "stage", "sample"), self.noise)
        return xr.Dataset(out, {"layer": list(self.layers), "step": ("stage", self.steps)})

    def rdm(self) -> xr.Dataset:
        """Squared Euclidean dissimilarities per neuron, (stage, layer, sample, sample_), with standard errors."""
        values, errors = self.features("rdm"), self.standard_errors("rdm")
        dims = ("stage", "layer", "sample", "sample_")
        out: dict[str, Any] = {"rdm": (dims, unfold(values, "rdm", self.stimuli).transpose(1, 0, 2, 3))}
        if errors is not None:
            out["rdm_se"] = (dims, unfold(errors, "rdm", self.stimuli).transpose(1, 0, 2, 3))
        return xr.Dataset(out, {"layer": list(self.layers), "step": ("stage", self.steps)})

    def result(self, problem: Problem) -> Result:
        """The kernels as a `Result`, to be compared and drawn.

        Args:
            problem: what they are compared with; all layers of its network must have been observed.
        """
        require(self.kind == "kernel", "observation", self.kind, "kernels, not dissimilarities")
        order = [layer_index(label, problem.network.depth) for label in self.layers]
        good = sorted(order) == list(range(problem.network.depth))
        require(good, "layers", self.layers, f"all layers of the network, 1 to {problem.network.depth}")
        phi = self.matrices[:, np.argsort(order)]
        return Result.from_arrays(problem, {"phi": phi}, steps=self.steps)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a netCDF file, which `Observation.load` and `widefield identify` read.

        Args:
            path: of the file.
        """
        from .files import save_observation

        save_observation(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Observation:
        """Read what `save` wrote, or one network's kernels from what `Result.save` wrote.

        Args:
            path: of the file.
        """
        from .files import load_observation

        return load_observation(path)

    def summary(self) -> str:
        """What was observed, in a few lines."""
        what = "kernels" if self.kind == "kernel" else "dissimilarities"
        steps = ", ".join(f"{step:g}" for step in self.steps)
        lines = [f"{what} of {self.stimuli} stimuli at {self.stages} stages (steps {steps})"]
        for index, label in enumerate(self.layers):
            neurons = "all neurons" if self.neurons is None else f"{self.neurons[index]} neurons"
            size = float(np.sqrt(np.mean(self.values[index] ** 2)))
            errors = self.standard_errors(self.kind)
            error = "" if errors is None else f", standard error rms {np.sqrt(np.mean(errors[index] ** 2)):.3g}"
            noise = f", trial noise variance {self.noise[index].mean():.3g}" if self.trials else ""
            lines.append(f"  layer {label}: {neurons}, rms {size:.3g}{error}{noise}")
        if self.trials:
            lines.append(
                f"  {self.trials} trials per stimulus; products of different trials only, so noise averages out"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()


def layer_index(label: int, depth: int) -> int:
    """Where a layer stands: 1 is the first, −1 the last."""
    require(1 <= abs(label) <= depth, "layer", label, f"a layer of a network of depth {depth}")
    return label - 1 if label > 0 else depth + label


def check_layers(layers: Sequence[int] | None, count: int) -> tuple[int, ...]:
    if layers is None:
        return tuple(range(1, count + 1))
    allowed = f"{count} different layers: 1, 2, … from the input, −1, −2, … from the output"
    whole = all(isinstance(label, (int, np.integer)) and label != 0 for label in layers)
    require(whole and len(set(layers)) == len(layers) == count, "layers", layers, allowed)
    return tuple(int(label) for label in layers)


def check_steps(steps: ArrayLike, count: int) -> np.ndarray:
    found = real_array("steps", steps)
    good = found.shape == (count,) and bool(np.all(np.diff(found) > 0)) and bool(np.all(found >= 0))
    require(good, "steps", steps, f"{count} training steps in increasing order, one per stage, 0 or more")
    return found


def check_neurons(neurons: int | Sequence[int] | None, layers: int) -> tuple[int, ...] | None:
    if neurons is None:
        return None
    counts = [neurons] * layers if isinstance(neurons, (int, np.integer)) else list(neurons)
    require(len(counts) == layers, "neurons", neurons, f"a number, or one per layer, {layers} of them")
    for count in counts:
        require_integer("neurons", count, 2)
    return tuple(int(count) for count in counts)


def _check_kernels(phi: np.ndarray) -> None:
    """Symmetric, and no eigenvalue below 0 but for rounding."""
    size = np.abs(phi).max()
    if not np.allclose(phi, np.swapaxes(phi, -1, -2), rtol=0, atol=NEGATIVE * size):
        raise InputError("phi is not symmetric; allowed: kernels ⟨φ_i φ_j⟩, the same for (i, j) and (j, i)")
    eigenvalues = np.linalg.eigvalsh(phi)
    wrong = eigenvalues[..., 0] < -NEGATIVE * np.maximum(eigenvalues[..., -1], 0) - 1e-300
    if wrong.any():
        stage, layer = (int(place[0]) for place in np.nonzero(wrong))
        raise InputError(
            f"phi is not positive semidefinite at stage {stage}, layer index {layer} (eigenvalues from "
            f"{eigenvalues[stage, layer, 0]:.3g} to {eigenvalues[stage, layer, -1]:.3g}); allowed: kernels ⟨φφ⟩; for "
            "noisy activity use wf.observe(activations) with trials"
        )


def by_layer(activations: ArrayLike | Mapping[int, ArrayLike]) -> dict[int, np.ndarray]:
    """Activity (stage, stimulus, neuron[, trial]) by the label of its layer."""
    if isinstance(activations, Mapping):
        require(len(activations) > 0, "activations", "empty", "{layer: (stage, stimulus, neuron[, trial])}")
        return {label: real_array(f"activations[{label}]", value) for label, value in activations.items()}
    whole = real_array("activations", activations)
    allowed = "shape (stage, layer, stimulus, neuron) or (stage, layer, stimulus, neuron, trial)"
    require(whole.ndim in (4, 5) and 0 not in whole.shape, "activations", f"of shape {whole.shape}", allowed)
    return {layer + 1: whole[:, layer] for layer in range(whole.shape[1])}
