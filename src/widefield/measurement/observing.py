"""`wf.observe`: from recorded activity to kernels with errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..errors import require
from .kernels import pairs_of, products
from .observation import Observation, by_layer, check_layers, check_steps


def observe(activations: ArrayLike | Mapping[int, ArrayLike], steps: ArrayLike) -> Observation:
    """Kernels of recorded activity, unbiased by trial noise, with standard errors from neurons and trials.

    Products of two different trials have the noise-free product as their mean, so that kernels are unbiased for any
    number of neurons and two or more trials. The standard error is that of a mean over neurons, √(Σ_n (k_n −
    Φ)²/(M(M−1))), k_n being one neuron's product: it counts the choice of neurons and each neuron's own noise.
    Activity without an axis over trials is taken to be free of noise. Cost O(P²·neurons·trials) per stage and layer.

    Args:
        activations: (stage, layer, stimulus, neuron) or (stage, layer, stimulus, neuron, trial), not centred; or, for
            layers of different sizes, {layer: (stage, stimulus, neuron[, trial])} with layers 1, 2, … from the input or
            −1, −2, … from the output. Stimuli are the training points, in their order; neurons are the same ones at
            all stages.
        steps: the training step of each stage.

    Example:
        >>> seen = wf.observe(activity, steps=[0, 10, 39])
        >>> seen.dataset["phi"], seen.rdm()["rdm_se"]
    """
    layers = by_layer(activations)
    allowed = "shape (stage, stimulus, neuron) or (stage, stimulus, neuron, trial) in each layer"
    for label, one in layers.items():
        shape = f"of shape {one.shape} in layer {label}"
        require(one.ndim in (3, 4) and 0 not in one.shape, "activations", shape, allowed)
        require(one.shape[2] >= 2, "neurons", one.shape[2], "2 or more in each layer")
        if one.ndim == 4:
            require(
                one.shape[3] >= 2, "trials", one.shape[3], "2 or more, or no axis over trials for noise-free activity"
            )
    shapes = {(one.ndim, *one.shape[:2], *one.shape[3:]) for one in layers.values()}
    require(len(shapes) == 1, "activations", sorted(shapes), "the same stages, stimuli and trials in all layers")
    first = next(iter(layers.values()))
    labels = check_layers(list(layers), len(layers))
    activity = tuple(layers.values())
    stimuli = first.shape[1]
    values = np.stack([products(one, *pairs_of("kernel", stimuli)).mean(-1) for one in activity])
    return Observation(values, "kernel", check_steps(steps, first.shape[0]), labels, stimuli,
                       tuple(one.shape[2] for one in activity), activity)  # fmt: skip
