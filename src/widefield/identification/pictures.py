"""Pictures of an identification and of a planned experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from ..measurement.kernels import unfold
from ..results.panels import COLOURS, Picture, draw_kernel, limit_of, new_picture
from .answer import Identification

if TYPE_CHECKING:
    from .planning import Power


def plot_identification(found: Identification) -> Picture:
    """Posterior, observed against predicted, residuals, what decided, and kernels of the last stage."""
    figure = new_picture(12.6, 7.2)
    places = figure.subplots(2, 3)
    _posterior(places[0, 0], found)
    _scatter(places[0, 1], found)
    _residuals(places[0, 2], found)
    _kernels(figure, places[1, :2], found)
    if found.surface is None:
        _deciding(places[1, 2], found)
    else:
        _parameters(places[1, 2], found)
    figure.suptitle(f"{found.best} (probability {float(found.posterior.max()):.3g})")
    return figure


def _posterior(axes: Axes, found: Identification) -> None:
    order = np.argsort(found.posterior.values)[::-1][:8][::-1]
    names = [str(found.posterior["candidate"].values[k]) for k in order]
    axes.barh(range(len(order)), found.posterior.values[order], color=COLOURS[0])
    axes.set_yticks(range(len(order)), names, fontsize="small")
    axes.set_xlim(0, 1)
    axes.set_xlabel("posterior probability")


def _scatter(axes: Axes, found: Identification) -> None:
    for layer, label in enumerate(found.observation.layers):
        axes.errorbar(
            found.predicted[layer].ravel(), found.observed[layer].ravel(), found.errors[layer].ravel(), fmt="o",
            markersize=3, linewidth=0.5, color=COLOURS[layer % len(COLOURS)], label=f"layer {label}",
        )  # fmt: skip
    both = np.concatenate([found.predicted.ravel(), found.observed.ravel()])
    axes.plot([both.min(), both.max()], [both.min(), both.max()], color="black", linewidth=0.8)
    axes.set_xlabel("predicted")
    axes.set_ylabel("observed (bars: one standard deviation)")
    axes.legend(fontsize="small", frameon=False)


def _residuals(axes: Axes, found: Identification) -> None:
    units = ((found.observed - found.predicted) / found.errors).ravel()
    edges = np.linspace(-4, 4, 25)
    axes.hist(np.clip(units, -4, 4), bins=list(edges), density=True, color=COLOURS[0], alpha=0.6)
    middle = np.linspace(-4, 4, 200)
    axes.plot(middle, np.exp(-(middle**2) / 2) / np.sqrt(2 * np.pi), color="black", linewidth=0.8)
    axes.set_xlabel("residual in standard deviations")
    axes.set_ylabel("density")
    axes.set_title(f"goodness of fit: chance {found.goodness.chance:.2g}", fontsize="medium")


def _kernels(figure: Picture, places: np.ndarray, found: Identification) -> None:
    matrices = [unfold(one[-1, -1], found.kind, found.observation.stimuli) for one in (found.observed, found.predicted)]
    limit = limit_of(*matrices)
    symbol = r"$\Phi$" if found.kind == "kernel" else "dissimilarities"
    for axes, matrix, label in zip(places, matrices, ("observed", "predicted"), strict=True):
        image = draw_kernel(axes, matrix, f"{symbol}, last layer and stage, {label}", limit)
    figure.colorbar(image, ax=list(places), shrink=0.85)


def _deciding(axes: Axes, found: Identification) -> None:
    steps = found.deciding["step"].values
    axes.bar(range(len(steps)), found.deciding["by_stage"].values, color=COLOURS[0])
    axes.set_xticks(range(len(steps)), [f"{step:g}" for step in steps])
    axes.set_xlabel("stage (training step)")
    axes.set_ylabel(f"log odds against {found.against}" if found.against else "log odds")


def _parameters(axes: Axes, found: Identification) -> None:
    surface = found.surface
    assert surface is not None
    density = np.exp(surface.log_evidence - surface.log_evidence.max())
    axes.set_xlabel(surface.fields[0])
    if len(surface.fields) == 1:
        axes.plot(surface.values[0], density, color=COLOURS[0])
        axes.set_ylabel("posterior density")
        return
    while density.ndim > 2:
        density = density.sum(-1)
    axes.contourf(surface.values[0], surface.values[1], density.T, levels=10, cmap="Blues")
    axes.set_ylabel(surface.fields[1])


def plot_power(found: Power) -> Picture:
    """How sure an experiment will be against neurons, for each number of trials; and which stimuli tell."""
    figure = new_picture(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    table = found.table
    for number, trials in enumerate(table["trials"].values):
        rows = table["probability"].sel(trials=trials)
        label = "no noise" if found.noise == 0 else f"{int(trials)} trials"
        left.plot(table["neurons"].values, rows.values, "o-", markersize=3, color=COLOURS[number % len(COLOURS)],
                  label=label)  # fmt: skip
    left.axhline(found.wanted, color="black", linewidth=0.5)
    left.set_xscale("log")
    left.set_xlabel("recorded neurons per layer")
    left.set_ylabel(f"probability of a posterior above {found.confidence:g}")
    left.legend(fontsize="small", frameon=False)
    right.plot(range(1, len(found.distances) + 1), found.distances, "o-", markersize=3, color=COLOURS[0])
    right.set_xticks(range(1, len(found.stimuli) + 1), [str(k) for k in found.stimuli], fontsize="small")
    right.set_xlabel("stimuli, the most telling first")
    right.set_ylabel("distance of the rules, standard deviations")
    return figure
