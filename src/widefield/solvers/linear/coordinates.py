"""Fields of infinitely many linear neurons: coordinates along independent Gaussians, of which there are ever more.

A field is a row of coordinates, ⟨ab⟩ is the inner product of two rows, and coordinates that a row does not have are 0.
"""

from __future__ import annotations

import numpy as np

# Relative size of the part of a question that is rounding.
SMALLEST = 1e-11


def fitted(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`rows` with zeros behind, in a larger shape."""
    padding = [(0, size - own) for size, own in zip(shape, rows.shape, strict=True)]
    return np.pad(rows, padding) if any(more for _, more in padding) else rows


def total(*arrays: np.ndarray) -> np.ndarray:
    """The sum of rows of any number of coordinates, and of matrices of any number of rows."""
    shape = tuple(np.max([array.shape for array in arrays], axis=0))
    return sum((fitted(array, shape) for array in arrays[1:]), fitted(arrays[0], shape))


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """⟨ab⟩ of rows (i, n) and (j, m), (i, j)."""
    shared = min(a.shape[1], b.shape[1])
    return a[:, :shared] @ b[:, :shared].T


class Population:
    """Counts the Gaussians of a population of neurons."""

    def __init__(self) -> None:
        self.used = 0

    def fresh(self, rows: int) -> np.ndarray:
        """Rows along Gaussians that no earlier field has."""
        found = np.zeros((rows, self.used + rows))
        found[:, self.used :] = np.eye(rows)
        self.used += rows
        return found


class Matrix:
    """W/√N with N(0, 1) entries between neurons of one population, as what was asked and answered (docs/engine.md).

    Orthonormal rows `asked` forward (0) and backward (1), and W's answers to them. A new row asked from one side is
    answered by a new Gaussian and by the response, its overlap with the answers of the other side.
    """

    def __init__(self, population: Population):
        self.population = population
        self.asked = [np.zeros((0, 0)), np.zeros((0, 0))]
        self.answers = [np.zeros((0, 0)), np.zeros((0, 0))]

    def ask(self, rows: np.ndarray, way: int) -> tuple[np.ndarray, np.ndarray]:
        """Answers (k, n) to rows (k, m), and the coordinates (k, rank) of the rows along those asked."""
        known, rest = self._projected(rows, way)
        size = np.sqrt(np.sum(rows**2, axis=1))
        _, shares, directions = np.linalg.svd(rest / np.where(size > 0, size, 1.0)[:, None], full_matrices=False)
        new = directions[shares > SMALLEST]
        if len(new):
            # The smaller a direction's share, the more rounding it has along the rows asked.
            new = np.linalg.qr(self._projected(new, way)[1].T)[0].T
            response = overlap(new, self.answers[1 - way])
            made = total(self.population.fresh(len(new)), response @ self.asked[1 - way])
            self.asked[way], self.answers[way] = _stacked(self.asked[way], new), _stacked(self.answers[way], made)
            known = np.concatenate([known, overlap(rows, new)], axis=1)
        return known @ self.answers[way], known

    def _projected(self, rows: np.ndarray, way: int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of rows along those asked, and what is left of them; twice, against rounding."""
        basis = self.asked[way]
        known = overlap(rows, basis)
        rest = total(rows, -known @ basis)
        again = overlap(rest, basis)
        return known + again, total(rest, -again @ basis)


def _stacked(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    width = max(above.shape[1], below.shape[1])
    return np.concatenate([fitted(rows, (len(rows), width)) for rows in (above, below)])
