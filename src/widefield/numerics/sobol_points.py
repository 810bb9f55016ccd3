"""Scrambled Sobol points, by the numbers of SciPy's `qmc.Sobol` without its import, which takes half a second."""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np

BITS = 30
# Joe & Kuo, SIAM J. Sci. Comput. 30 (2008): of every dimension after the first a primitive polynomial over {0, 1}, as
# the number that its coefficients are the digits of, and the first direction numbers.
TABLE = """
3: 1; 7: 1 3; 11: 1 3 1; 13: 1 1 1; 19: 1 1 3 3; 25: 1 3 5 13; 37: 1 1 5 5 17; 41: 1 1 5 5 5; 47: 1 1 7 11 19;
55: 1 1 5 1 1; 59: 1 1 1 3 11; 61: 1 3 5 5 31; 67: 1 3 3 9 7 49; 91: 1 1 1 15 21 21; 97: 1 3 1 13 27 49;
103: 1 1 1 15 7 5; 109: 1 3 1 15 13 25; 115: 1 1 5 5 19 61; 131: 1 3 7 11 23 15 103; 137: 1 3 7 13 13 15 69;
143: 1 1 3 13 7 35 63; 145: 1 3 5 9 1 25 53; 157: 1 3 1 13 9 35 107; 167: 1 3 1 5 27 61 31;
171: 1 1 5 11 19 41 61; 185: 1 3 5 3 3 13 69; 191: 1 1 7 13 1 19 1; 193: 1 3 7 5 13 19 59;
203: 1 1 3 9 25 29 41; 211: 1 3 5 13 23 1 55; 213: 1 3 7 3 13 59 17; 229: 1 3 1 3 5 53 69;
239: 1 1 5 5 23 33 13; 241: 1 1 7 7 1 61 123; 247: 1 1 7 9 13 61 49; 253: 1 3 3 5 3 55 33;
285: 1 3 1 15 31 13 49 245; 299: 1 3 5 15 31 59 63 97; 301: 1 3 1 11 11 11 77 249; 333: 1 3 1 11 27 43 71 9;
351: 1 1 7 15 21 11 81 45; 355: 1 3 7 3 25 31 65 79; 357: 1 3 1 1 19 11 3 205; 361: 1 1 5 9 19 21 29 157;
369: 1 3 7 11 1 33 89 185; 391: 1 3 3 3 15 9 79 71; 397: 1 3 7 11 15 39 119 27; 425: 1 1 3 1 11 31 97 225;
451: 1 1 1 3 23 43 57 177; 463: 1 3 7 7 17 17 37 71; 487: 1 3 1 5 27 63 123 213; 501: 1 1 3 5 11 43 53 133;
529: 1 3 5 5 29 17 47 173 479; 539: 1 3 3 11 3 1 109 9 69; 545: 1 1 1 5 17 39 23 5 343;
557: 1 3 1 5 25 15 31 103 499; 563: 1 1 1 11 11 17 63 105 183; 601: 1 1 5 11 9 29 97 231 363;
607: 1 1 5 15 19 45 41 7 383; 617: 1 3 7 7 31 19 83 137 221; 623: 1 1 1 3 23 15 111 223 83;
631: 1 1 5 13 31 15 55 25 161; 637: 1 1 3 13 25 47 39 87 257
"""


def scrambled_points(seed: list[int], dimensions: int, count: int) -> np.ndarray:
    """The first `count` points, (dimensions, count) in [0, 1), after a random linear scrambling and shift."""
    if dimensions > len(_directions()):
        return by_scipy(seed, dimensions, count)
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])  # SciPy's own is such a child
    digits = rng.integers(2, size=(dimensions, BITS), dtype=np.uint32)
    shift = digits @ (1 << np.arange(BITS, dtype=np.uint32))
    lower = np.tril(rng.integers(2, size=(dimensions, BITS, BITS), dtype=np.uint32))
    lower[:, np.arange(BITS), np.arange(BITS)] = 1
    scrambled = _scrambled(_directions()[:dimensions], lower)
    # In the order of a Gray code, twice as many points are those there are and, backwards, those with one digit more.
    points = shift[:, None].astype(np.uint32)
    for digit in range(max(count - 1, 0).bit_length()):
        points = np.concatenate([points, points[:, ::-1] ^ scrambled[:, digit, None]], axis=1)
    return points[:, :count] / 2.0**BITS


def _scrambled(directions: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Directions (d, BITS) whose digits, the highest first, are multiplied by triangular matrices (d, BITS, BITS)."""
    places = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    digits = ((directions[..., None] >> places) & 1).astype(np.float32)  # products of floats are ten times as fast
    mixed = (digits @ lower.astype(np.float32).swapaxes(1, 2)).astype(np.uint32) & 1
    return (mixed << places).sum(axis=-1, dtype=np.uint32)


@lru_cache(maxsize=1)
def _directions() -> np.ndarray:
    """Direction numbers as fractions of 2**BITS, (dimensions, BITS)."""
    found = [[1] * BITS]
    for entry in TABLE.split(";"):
        polynomial, _, first = entry.partition(":")
        found.append(_continued(int(polynomial), [int(m) for m in first.split()]))
    places = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    return np.array(found, np.uint32) << places


def _continued(polynomial: int, numbers: list[int]) -> list[int]:
    """m_1 … m_BITS by the recurrence m_i = 2a₁m_{i−1} ⊕ … ⊕ 2^s m_{i−s} ⊕ m_{i−s} of a polynomial of degree s."""
    degree, numbers = len(numbers), list(numbers)
    for i in range(degree, BITS):
        value = numbers[i - degree]
        for k in range(1, degree + 1):
            if polynomial >> (degree - k) & 1:
                value ^= numbers[i - k] << k
        numbers.append(value)
    return numbers


def by_scipy(seed: list[int], dimensions: int, count: int) -> np.ndarray:
    """The same for any number of dimensions."""
    from scipy.stats import qmc

    sobol = qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed))
    with warnings.catch_warnings():
        # Balance asks for a power of two; moment matching restores what another count loses.
        warnings.simplefilter("ignore", UserWarning)
        return sobol.random(count).T
