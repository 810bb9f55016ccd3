"""The pictures of one result: `result.plot()` and what stands behind `result.plot.`"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..extras import require_extra

if TYPE_CHECKING:
    from .movie import Movie
    from .panels import Picture
    from .result import Result


class Plots:
    """Pictures of one result, all in the same style: `result.plot()`, `result.plot.loss()`, …

    Each is a Matplotlib figure: Jupyter shows it, `.savefig("picture.png")` writes it. Bands are two standard errors.
    Needs the extra `plot`.

    Args:
        result: what is drawn.

    Example:
        >>> result.plot().savefig("overview.png")
        >>> result.plot.kernels("phi", times=5)
        >>> result.plot.movie("phi").save("phi.gif")
    """

    def __init__(self, result: Result):
        self._result = result

    def __call__(self) -> Picture:
        """Loss, alignments, gradient cosine and the final kernels; what the result does not hold is left out."""
        require_extra("plot", "a picture")
        from .pictures import plot_result

        return plot_result(self._result)

    def loss(self) -> Picture:
        """The loss over training time, of training and test points."""
        require_extra("plot", "a picture")
        from .pictures import plot_loss

        return plot_loss(self._result)

    def alignments(self) -> Picture:
        """Alignment of K and Φ with yyᵀ, and the cosine of gradient and pseudo-gradient, over training time."""
        require_extra("plot", "a picture")
        from .pictures import plot_alignments

        return plot_alignments(self._result)

    def kernels(self, name: str = "phi", times: int = 4) -> Picture:
        """A kernel in the course of training, one row per layer, on one colour scale.

        Args:
            name: the kernel: "phi", "g", "g_tilde", "g_tilde_tilde" or "entk".
            times: how many times are shown, evenly spaced from the first to the last.
        """
        require_extra("plot", "a picture")
        from .pictures import plot_kernels

        return plot_kernels(self._result, name, times)

    def movie(self, name: str = "phi", frames: int = 30) -> Movie:
        """A kernel as it moves in training, all layers side by side, on one colour scale.

        Args:
            name: the kernel: "phi", "g", "g_tilde", "g_tilde_tilde" or "entk".
            frames: the largest number of pictures; they are evenly spaced in training time.

        Returns:
            A movie that Jupyter plays; `.save("phi.gif")` writes it (also .webp and .png, animated).
        """
        require_extra("plot", "a movie")
        from .movie import make_movie

        return make_movie(self._result, name, frames)

    def densities(self) -> Picture:
        """The density of preactivations h after training, one panel per layer, over neurons and points.

        With `record=["h_particles", …]` also at the start of training.
        """
        require_extra("plot", "a picture")
        from .pictures import plot_densities

        return plot_densities(self._result)

    def comparison(self, other: Result) -> Picture:
        """This result and another one: curves in one, final kernels side by side, and the table of `wf.compare`.

        Args:
            other: a result on the same data, e.g. of networks or of another rule.
        """
        require_extra("plot", "a picture")
        from .comparison import compare

        return compare(self._result, other).plot()
