"""Kernels that move: one picture per recorded time, as an animated image."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from PIL import Image

from ..atomic import check_writable, require_path, write_file
from ..errors import require, require_integer
from .panels import Picture, draw_kernel, grid, kernel_over_time, limit_of
from .pictures import evenly, kernel_symbol, layers_of, require_kernel
from .result import Result

_SECONDS = 0.12  # per frame
_PAUSE = 1.0  # seconds that the last frame stays
_FORMATS = {".gif": "GIF", ".webp": "WEBP", ".png": "PNG"}


class Movie:
    """An animated picture.

    Attributes:
        figure: the figure that is redrawn.
        times: the training time of every frame.
        show: draws a frame, by its number.
    """

    def __init__(self, figure: Picture, times: np.ndarray, show: Callable[[int], None]):
        self.figure, self.times, self.show = figure, times, show

    def save(self, path: str | Path) -> None:
        """Write the movie, atomically; the ending of `path` says in which format.

        Args:
            path: a file that ends in .gif, .webp or .png (animated PNG).
        """
        require_path("path", path)
        ending = Path(path).suffix.lower()
        require(ending in _FORMATS, "path", str(path), f"a name that ends in one of {', '.join(_FORMATS)}")
        check_writable(path)
        write_file(path, self._encode(_FORMATS[ending]))

    def to_html(self, text: str = "kernels in the course of training") -> str:
        """An image element of HTML that holds the movie itself.

        Args:
            text: what is read aloud in its place.
        """
        data = base64.b64encode(self._encode("GIF")).decode()
        return f'<img src="data:image/gif;base64,{data}" alt="{text}" style="max-width:100%">'

    def _repr_html_(self) -> str:
        return self.to_html()

    def frame(self, number: int) -> Picture:
        """The figure as it is at one of `times`; the same figure each time.

        Args:
            number: which of `times`, counted from 0.
        """
        self.show(number)
        return self.figure

    def _encode(self, kind: str) -> bytes:
        first, *others = (self._draw(number) for number in range(len(self.times)))
        pauses = [round(1000 * _SECONDS)] * len(others) + [round(1000 * _PAUSE)]
        buffer = io.BytesIO()
        first.save(buffer, kind, save_all=True, append_images=others, duration=pauses, loop=0)
        return buffer.getvalue()

    def _draw(self, number: int) -> Image.Image:
        data = io.BytesIO()
        self.frame(number).savefig(data, format="png", dpi=80)
        self.figure.set_layout_engine("none")  # places are found once: the panels must not jump
        return Image.open(data).convert("RGB")


def make_movie(result: Result, name: str, frames: int) -> Movie:
    """The kernel `name` of every layer, at up to `frames` of the recorded times."""
    require_kernel(result, name)
    require_integer("frames", frames, 1)
    layers = layers_of(result, name)
    kernels = [kernel_over_time(result, name, position) for position, _ in layers]
    limit = limit_of(*kernels)
    chosen = evenly(len(result["time"]), frames)
    images = []

    def panel(axes: Axes, kernel: np.ndarray, title: str) -> None:
        images.append(draw_kernel(axes, kernel[0], title, limit))
        axes.figure.colorbar(images[-1], ax=axes, shrink=0.85)

    panels = [
        lambda axes, kernel=kernel, layer=layer: panel(axes, kernel, kernel_symbol(name, layer))
        for kernel, (_, layer) in zip(kernels, layers, strict=True)
    ]
    figure = grid(panels, columns=4)
    times = result["time"].values[chosen]

    def show(number: int) -> None:
        for image, kernel in zip(images, kernels, strict=True):
            image.set_data(kernel[chosen[number]])
        figure.suptitle(f"training time {times[number]:.3g}")

    show(0)
    return Movie(figure, times, show)
