"""Theory against networks for several problems at once: the pictures people know from the papers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from .panels import (
    COLOURS,
    Picture,
    draw_curve,
    draw_density,
    draw_kernel,
    final_kernel,
    finish_curves,
    kernel_over_time,
    limit_of,
    new_picture,
)
from .result import Result

_THEORY: dict[str, Any] = {"color": "black", "linestyle": "--", "linewidth": 1}


class Pair(NamedTuple):
    theory: Result
    networks: Result


def overview_curves(pairs: Mapping[str, Pair]) -> Picture:
    """Loss, alignment of K, mean G̃ and final preactivations; networks in colour, theory dashed in black."""
    figure = new_picture(10.4, 7.6)
    loss, alignment, g_tilde, density = figure.subplots(2, 2).ravel()
    for number, (label, pair) in enumerate(pairs.items()):
        # Thinner and thinner, so that a curve under another one shows at its sides.
        coloured: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.5 + 4 * 0.7**number}
        for result, line in ((pair.networks, {**coloured, "label": label}), (pair.theory, _THEORY)):
            draw_curve(loss, result, "loss", **line)
            draw_curve(alignment, result, "entk_alignment", **line)
            _draw_mean_g_tilde(g_tilde, result, line)
            if "h_final" in result:
                draw_density(density, result["h_final"].isel(layer=-1).values, **line)
    loss.plot([], [], **_THEORY, label="theory, infinite width")
    finish_curves(loss, "loss, summed over points", log=True)
    finish_curves(alignment, r"alignment of $K$ with $yy^\top$", legend=False)
    finish_curves(g_tilde, r"$\tilde G^L_{\mu\mu}$, mean over points", legend=False)
    finish_curves(density, "density", legend=False)
    density.set_xlabel(r"final preactivation $h^L$")
    return figure


def overview_kernels(pairs: Mapping[str, Pair]) -> Picture:
    """Final Φ and G̃ of the last layer; one column per problem, theory above networks on the same colour scale."""
    kernels = {"phi": r"$\Phi^L$", "g_tilde": r"$\tilde G^L$"}
    figure = new_picture(2.3 * len(pairs) + 0.8, 9.2)
    places = figure.subplots(4, len(pairs), squeeze=False)
    for column, (label, pair) in enumerate(pairs.items()):
        for row, (name, symbol) in zip((0, 2), kernels.items(), strict=True):
            above, below = places[row : row + 2, column]
            limit = limit_of(*(final_kernel(result, name) for result in pair))
            draw_kernel(above, final_kernel(pair.theory, name), label if row == 0 else "", limit)
            image = draw_kernel(below, final_kernel(pair.networks, name), "", limit)
            figure.colorbar(image, ax=[above, below], shrink=0.6)
            if column == 0:
                above.set_ylabel(f"{symbol}, theory")
                below.set_ylabel(f"{symbol}, networks")
    return figure


def _draw_mean_g_tilde(axes: Axes, result: Result, line: dict[str, Any]) -> None:
    # Errors of the diagonal's entries are correlated, so their mean gets no band here.
    diagonal = np.diagonal(kernel_over_time(result, "g_tilde"), axis1=1, axis2=2)
    axes.plot(result["time"].values, diagonal.mean(axis=-1), **line)
