"""Lazy limits on real data: scikit-learn's digits, every rule, several depths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ...datasets import raw_digits
from ...errors import require, require_integer, require_number
from ...problem.networks import MLP
from ...progress import Progress, make_progress
from ...rules import DFA, FA, GD, GLN, Hebb, Rule
from .kernels import kernels

RULES: dict[str, Rule] = {
    "GD": GD(),
    "FA ρ=1": FA(1.0),
    "FA ρ=0.5": FA(0.5),
    "FA ρ=0": FA(0.0),
    "DFA": DFA(),
    "Hebb": Hebb(),
    "GLN": GLN(),
}
NNGP = "NNGP"


@dataclass(frozen=True)
class Score:
    """One rule at one depth: fraction of test digits classified rightly, and mean log density of a test target."""

    rule: str
    depth: int
    accuracy: float
    log_likelihood: float


@dataclass(frozen=True)
class DigitsTable:
    """Scores, and the eNTK of the training points at the largest depth, sorted by digit, per rule."""

    scores: tuple[Score, ...]
    pictures: dict[str, np.ndarray]
    depth: int


def load(train: int, test: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Shuffled images (train + test, 64), scaled by one mean and deviation of the training part, and labels."""
    pixels, labels = raw_digits()
    total = len(labels)
    require_integer("seed", seed, 0)
    require_integer("train", train, 2)
    require_integer("test", test, 1)
    require(train + test <= total, "train + test", train + test, f"at most the {total} digits there are")
    chosen = np.random.default_rng(seed).permutation(total)[: train + test]
    x = pixels[chosen]
    return (x - x[:train].mean()) / x[:train].std(), labels[chosen]


def regression_scores(kernel: np.ndarray, y: np.ndarray, train: int, ridge: float) -> tuple[float, float]:
    """Test accuracy and log-likelihood of kernel regression from the kernel of all points, training points first.

    The kernel is divided by its mean diagonal on the training points, and `ridge` adds to the training diagonal. Each
    output is read as a Gaussian process with covariance s²(K + ridge), s² at its maximum-likelihood value on the
    training targets; the log-likelihood is the mean over test points and outputs of the log density of a target under
    its predictive Gaussian.
    """
    kernel = kernel / np.mean(np.diag(kernel)[:train])
    factor = scipy.linalg.cho_factor(kernel[:train, :train] + ridge * np.eye(train))
    across = kernel[train:, :train]
    weights = scipy.linalg.cho_solve(factor, y[:train])
    mean = across @ weights
    scale = np.sum(y[:train] * weights) / y[:train].size
    explained = np.sum(across * scipy.linalg.cho_solve(factor, across.T).T, axis=1)
    variance = scale * (np.diag(kernel)[train:] + ridge - explained)[:, None]
    log_density = -0.5 * ((y[train:] - mean) ** 2 / variance + np.log(2 * np.pi * variance))
    accuracy = np.mean(mean.argmax(1) == y[train:].argmax(1))
    return float(accuracy), float(log_density.mean())


def digits_table(
    depths: Sequence[int] = (1, 3, 5),
    activation: str = "relu",
    train: int = 1000,
    test: int = 797,
    ridge: float = 1e-3,
    seed: int = 0,
    progress: bool | Progress | None = False,
) -> DigitsTable:
    """Kernel regression on one-hot digits with the eNTK of every rule, and with the NNGP kernel Φ^L."""
    require(len(depths) > 0, "depths", tuple(depths), "one or more numbers of hidden layers")
    for depth in depths:
        require_integer("depth", depth, 1)
    require_number("ridge", ridge, "a number above 0", above=0)
    x, labels = load(train, test, seed)
    y = np.eye(10)[labels] - 0.1
    order = np.argsort(labels[:train], kind="stable")
    scores: list[Score] = []
    pictures: dict[str, np.ndarray] = {}
    total = len(depths) * (len(RULES) + 1)
    with make_progress(progress) as bar:
        for depth in depths:
            network = MLP(depth, activation)
            for name, rule in RULES.items():
                found = kernels(x, network, rule, outputs=("entk",))
                scores.append(Score(name, depth, *regression_scores(found.entk, y, train, ridge)))
                if depth == max(depths):
                    pictures[name] = found.entk[:train, :train][np.ix_(order, order)]
                bar.update(len(scores), total, f"depth {depth}, {name}")
            features = kernels(x, network, GD(), outputs=("phi",)).phi[-1]
            scores.append(Score(NNGP, depth, *regression_scores(features, y, train, ridge)))
            bar.update(len(scores), total, f"depth {depth}, {NNGP}")
    return DigitsTable(tuple(scores), pictures, max(depths))
