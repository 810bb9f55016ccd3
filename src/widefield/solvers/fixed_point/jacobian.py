"""Responses as averages of per-sample Jacobians."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .plan import Grid, LayerPlan
from .site import Activity, Couplings, Fields, solve_site

# Tangents of one batch of samples may take about this much.
_BATCH_BYTES = 2**28


class Jacobians(NamedTuple):
    """⟨∂φ/∂probe⟩ (probe: r where A^ℓ exists, v where C^ℓ does), ⟨∂g/∂u⟩ and ⟨∂g̃/∂u⟩, (n, n) each."""

    phi_by_probe: Array | None
    g_by_u: Array | None
    g_tilde_by_u: Array | None


@partial(jax.jit, static_argnames=("grid", "layer"))
def jacobian_responses(
    grid: Grid, layer: LayerPlan, couple: Couplings, drive: Fields, error: Array, target: Array
) -> Jacobians:
    """Linearise the single-site process about every sample and average over samples.

    The linearised process is solved like the process itself, forward in time, for all n unit drives at
    once. Samples go in batches that bound the memory. Cost O(S·n³). Wrong where φ̇ jumps (ReLU, depth ≥ 2):
    its derivative is then a delta function, which differentiation returns as 0.
    """
    samples = drive.u.shape[1]
    batch = max(1, min(samples, _BATCH_BYTES // (8 * len(Activity._fields) * grid.size**2)))
    batches = -(-samples // batch)
    weights = jnp.pad(jnp.ones(samples) / samples, (0, batches * batch - samples)).reshape(batches, batch)

    def split(field: Array) -> Array:
        padded = jnp.pad(field, ((0, 0), (0, batches * batch - samples)))
        return padded.reshape(len(field), batches, batch).swapaxes(0, 1)

    def one_batch(total: Jacobians, part: tuple[Fields, Array]) -> tuple[Jacobians, None]:
        fields, weight = part

        def averages(name: str, j: Array) -> Activity:
            def run(field: Array) -> Activity:
                return solve_site(grid, layer, couple, fields._replace(**{name: field}), error, target)

            field = getattr(fields, name)
            tangent = jnp.zeros_like(field).at[j].set(1.0)
            moved = jax.jvp(run, (field,), (tangent,))[1]
            return jax.tree.map(lambda x: x @ weight, moved)

        def by(name: str) -> Activity:
            stacked = jax.vmap(lambda j: averages(name, j))(jnp.arange(grid.size))
            return jax.tree.map(jnp.transpose, stacked)

        phi = by("r" if layer.has_a else "v").phi if layer.has_a or layer.has_c else None
        moved = by("u") if not layer.bottom else None
        found = Jacobians(phi, moved.g if moved else None, moved.g_tilde if moved and layer.has_d_below else None)
        return jax.tree.map(jnp.add, total, found), None

    zero = jnp.zeros((grid.size, grid.size))
    start = Jacobians(
        zero if layer.has_a or layer.has_c else None,
        None if layer.bottom else zero,
        zero if layer.has_d_below else None,
    )
    return jax.lax.scan(one_batch, start, (jax.tree.map(split, drive), weights))[0]
