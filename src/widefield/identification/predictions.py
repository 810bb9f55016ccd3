"""What candidates predict: kernels along training, how they fluctuate, and how single neurons differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..measurement.kernels import dissimilarity_map, pairs_of
from ..measurement.observation import layer_index

Label = float | str
TIME_SCALE = (0.5, 2.0)


@dataclass(frozen=True, eq=False)
class Prediction:
    """One candidate. Kernel entries i ≤ j are along the last axis, `pair`.

    Attributes:
        times: training times, in units of steps of the candidate.
        mean: Φ at the given width (at infinite width without one), (time, layer, pair).
        errors: standard error of `mean` as factors: its covariance is the sum over the first axis of outer products,
            (factor, time, layer, pair).
        labels: values of the swept fields.
        deviations: √N × deviations of networks from their mean, C = Σ over the first axis, (network, time, layer,
            pair); None without a width.
        particles: φ of neurons of an infinitely wide layer at the stages, (stage, layer, stimulus, neuron), or None.
    """

    times: np.ndarray
    mean: np.ndarray
    errors: np.ndarray
    labels: dict[str, Label] = field(default_factory=dict)
    deviations: np.ndarray | None = None
    particles: np.ndarray | None = None

    @property
    def depth(self) -> int:
        return self.mean.shape[1]

    @property
    def stimuli(self) -> int:
        return int((np.sqrt(8 * self.mean.shape[-1] + 1) - 1) / 2)


@dataclass(frozen=True)
class Design:
    """What of the kernels was observed: at which steps, in which layers, as kernels or dissimilarities."""

    steps: np.ndarray
    layers: tuple[int, ...]
    kind: str
    stimuli: int

    @property
    def pairs(self) -> int:
        return len(pairs_of(self.kind, self.stimuli)[0])

    @property
    def size(self) -> int:
        return len(self.layers) * len(self.steps) * self.pairs

    def at(self, times: np.ndarray, values: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """Kernels (…, time, layer, pair) at the stages, training being `scale` times as fast, as (…, size).

        Linear between recorded times. Features are ordered by layer, stage and pair.
        """
        wanted = np.clip(self.steps * scale, times[0], times[-1])
        right = np.clip(np.searchsorted(times, wanted), 1, len(times) - 1)
        share = (wanted - times[right - 1]) / (times[right] - times[right - 1])
        places = [layer_index(label, values.shape[-2]) for label in self.layers]
        low, high = values[..., right - 1, :, :], values[..., right, :, :]
        found = low + share[:, None, None] * (high - low)
        found = np.moveaxis(found[..., places, :], -2, -3)  # (…, layer, stage, pair)
        if self.kind == "rdm":
            found = found @ dissimilarity_map(self.stimuli).T
        return found.reshape(*found.shape[:-3], self.size)

    def of_neurons(self, activity: np.ndarray, layer: int) -> np.ndarray:
        """Features of single neurons of one layer, (stage·pair, neuron), from φ (stage, stimulus, neuron)."""
        first, second = pairs_of("kernel", self.stimuli)
        found = activity[:, first] * activity[:, second]
        if self.kind == "rdm":
            found = np.einsum("fp,spn->sfn", dissimilarity_map(self.stimuli), found)
        return found.reshape(-1, found.shape[-1])

    def block(self, layer: int) -> slice:
        """Where the features of the observation's layer number `layer` stand."""
        length = len(self.steps) * self.pairs
        return slice(layer * length, (layer + 1) * length)


class Candidates(Mapping[str, Prediction]):
    """Predictions by the names of candidates, all for the same stages and width; made by `wf.candidates`.

    Attributes:
        predictions: by name.
        steps: the stages, in training steps.
        width: N, or None for infinite width.
        time_scale: slowest and fastest learning that the predictions are made for.
        others: predictions of rules that are not candidates, which speak for "none of these".
    """

    def __init__(
        self, predictions: Mapping[str, Prediction], steps: np.ndarray | None, width: int | None,
        time_scale: tuple[float, float] = TIME_SCALE, others: Mapping[str, Prediction] | None = None,
    ):  # fmt: skip
        self._predictions, self.steps, self.width, self.time_scale = dict(predictions), steps, width, time_scale
        self.others = dict(others or {})

    def __getitem__(self, name: str) -> Prediction:
        return self._predictions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._predictions)

    def __len__(self) -> int:
        return len(self._predictions)

    def only(self, names: list[str]) -> Candidates:
        """Some of the candidates; those left out become `others`.

        Args:
            names: which.
        """
        kept = {name: self[name] for name in names}
        others = {name: one for name, one in self.items() if name not in kept} | self.others
        return Candidates(kept, self.steps, self.width, self.time_scale, others)

    @property
    def numeric(self) -> tuple[str, ...]:
        """Swept fields that are continuous parameters: two or more numbers, other than counts such as a depth."""
        fields = next(iter(self._predictions.values())).labels
        out = []
        for name in fields:
            values = [one.labels[name] for one in self._predictions.values() if name in one.labels]
            numbers = all(isinstance(value, (int, float)) for value in values)
            counted = name.partition(".")[0] in ("network", "training") and all(isinstance(v, int) for v in values)
            if numbers and not counted and len(set(values)) > 1:
                out.append(name)
        return tuple(out)

    def __repr__(self) -> str:
        width = "infinite width" if self.width is None else f"width {self.width}"
        return f"Candidates({', '.join(self)}; {width})"
