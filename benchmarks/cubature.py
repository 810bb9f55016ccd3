"""The points that the first Gaussians of a population are made of: how far their moments are from the normal law's.

    python benchmarks/cubature.py [--make 1500]

Prints, by degree n, the sum over all Hermite polynomials of that degree (normalised) of their squared averages over
1024 points: of the stored points, of scrambled Sobol points, and as expected of independent ones. `--make` makes the
stored points anew, in so many turns of L-BFGS from scrambled Sobol points, and takes two minutes.
"""

from __future__ import annotations

import argparse
import io
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import minimize
from scipy.stats import chi2

from widefield.atomic import write_file
from widefield.numerics.cubature import DIMENSIONS, PLACE, POINTS, points, whitened
from widefield.numerics.sobol import sobol_normals
from widefield.precision import enable_x64

HIGHEST = 6
# What is left of the first and second degree is matched later. What is done about the sixth costs little of the fourth.
WEIGHTS = (0.0, 100.0, 100.0, 1.0, 1.0, 0.02, 0.01)


def deviations(rows: Array) -> Array:
    """Σ over multi-indices |α| = n of ⟨He_α⟩²/α!, for n = 0 … HIGHEST, of points (d, S).

    Σ_α He_α(x)He_α(y)/α! are the coefficients F_n of Mehler's kernel exp(Σ_k a_k ρᵏ), where a_k is x·y for odd k and
    d/k − (x² + y²)/2 for even k; n F_n = Σ_k k a_k F_{n−k}.
    """
    dimensions, product = len(rows), rows.T @ rows
    squares = jnp.diag(product)
    both = (squares[:, None] + squares) / 2
    a = [product, *(product if k % 2 else dimensions / k - both for k in range(1, HIGHEST + 1))]
    kernels = [jnp.ones_like(product)]
    for n in range(1, HIGHEST + 1):
        parts = [k * a[k] * kernels[n - k] for k in range(1, n + 1)]
        kernels.append(sum(parts[1:], parts[0]) / n)
    return jnp.stack([jnp.mean(kernel) for kernel in kernels])


def made(turns: int) -> np.ndarray:
    """Points (DIMENSIONS, POINTS) of least weighted deviations, with radii that have the law of a normal vector's.

    Turned at random, every point is then a normal vector, and averages have no bias but that of order 1/S.
    """
    radii = np.sqrt(chi2.ppf((np.arange(POINTS) + 0.5) / POINTS, DIMENSIONS))

    def placed(flat: Array) -> Array:
        rows = flat.reshape(DIMENSIONS, POINTS)
        return rows * (radii / jnp.linalg.norm(rows, axis=0))

    @jax.jit
    @jax.value_and_grad
    def cost(flat: Array) -> Array:
        return jnp.dot(jnp.asarray(WEIGHTS), deviations(placed(flat)))

    start = sobol_normals([0], DIMENSIONS, POINTS)
    start = start[:, np.argsort(np.linalg.norm(start, axis=0))].ravel()
    found = minimize(lambda flat: tuple(np.asarray(part, float) for part in cost(flat)), start, jac=True,
                     method="L-BFGS-B", options={"maxiter": turns})  # fmt: skip
    return np.asarray(placed(jnp.asarray(found.x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", type=int, metavar="TURNS", help="make the stored points anew")
    chosen = parser.parse_args()
    with enable_x64(True):
        if chosen.make is not None:
            # Rounding to half precision changes averages by less than a thousandth of what sampling would.
            file = io.BytesIO()
            np.save(file, made(chosen.make).astype(np.float16))
            write_file(PLACE, file.getbuffer())
            points.cache_clear()
        sobol = whitened(sobol_normals([0], DIMENSIONS, POINTS))
        rows = zip(deviations(jnp.asarray(points())), deviations(jnp.asarray(sobol)), strict=True)
        print("degree      stored       Sobol  independent")
        for n, (stored, other) in list(enumerate(rows))[3:]:
            print(f"{n:6d}{stored:12.3f}{other:12.2f}{math.comb(DIMENSIONS + n - 1, n) / POINTS:13.2f}")


if __name__ == "__main__":
    main()
