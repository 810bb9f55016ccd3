"""One layer of one iteration: draw its fields, solve them, measure kernels and responses."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .factor import Factor, causal_factor, stein_response
from .jacobian import Jacobians, jacobian_responses
from .noise import LayerNoise
from .plan import Grid, LayerPlan
from .site import Activity, Couplings, Fields, solve_site


class Below(NamedTuple):
    """What layer ℓ gets from layer ℓ−1: Φ^{ℓ−1}, A^{ℓ−1}, C^{ℓ−1}, and e (steps+1, P) of the weights between them."""

    phi: Array
    a: Array | None
    c: Array | None
    error: Array


class Above(NamedTuple):
    """What layer ℓ gets from layer ℓ+1: its gradient kernels, B^ℓ, D^ℓ, and e (steps+1, P) of the weights between."""

    g: Array
    g_tilde: Array
    g_tilde_tilde: Array
    b: Array | None
    d: Array | None
    error: Array


class Numbers(NamedTuple):
    """γ₀dt, Δ (steps+1, P), y (P,), xxᵀ/D and the cut-off of the kernel factors."""

    rate: Array
    delta: Array
    target: Array
    input_kernel: Array
    cutoff: float


class Measured(NamedTuple):
    """New kernels and responses of one layer, and how the sampling went.

    Attributes:
        output: ⟨z φ⟩ (steps+1, P), in the top layer γ₀f.
        sampling_error: relative standard error of Φ^ℓ and G^ℓ.
        a_or_c: A^ℓ or C^ℓ, whichever the layer has.
        b_below, d_below: B^{ℓ−1}, D^{ℓ−1}.
        rank, overflow: Gaussian directions of the fields, and how many did not fit.
    """

    phi: Array
    g: Array
    g_tilde: Array
    g_tilde_tilde: Array
    output: Array
    sampling_error: Array
    a_or_c: Array | None
    b_below: Array | None
    d_below: Array | None
    rank: int
    overflow: int


def measure_layer(
    grid: Grid, layer: LayerPlan, jacobian: bool, below: Below, above: Above, numbers: Numbers, noise: LayerNoise
) -> Measured:
    """Cost O(S·n²) with regression, O(S·n³) with Jacobian responses; memory O(S·n).

    Its parts are compiled one by one, so that layers and rules share those that know nothing of the rule.
    """
    couple = _couplings(grid, layer.learns, below, above, numbers.rate)
    drive, u_factor, probe_factor, rank, overflow = _draw(grid, layer, below, above, numbers, noise)
    activity = solve_site(grid, layer, couple, drive, numbers.delta, numbers.target)
    if jacobian:
        found = jacobian_responses(grid, layer, couple, drive, numbers.delta, numbers.target)
    else:
        found = _regress(grid, layer, activity, drive, u_factor, probe_factor)
    phi, g, g_tilde, g_tilde_tilde, output, sampling_error = _kernels(grid, activity)
    return Measured(
        phi, g, g_tilde, g_tilde_tilde, output, sampling_error,
        found.phi_by_probe, found.g_by_u, found.g_tilde_by_u, rank, overflow,
    )  # fmt: skip


@partial(jax.jit, static_argnames="grid")
def _kernels(grid: Grid, activity: Activity) -> tuple[Array, Array, Array, Array, Array, Array]:
    phi, g, g_tilde, samples = activity.phi, activity.g, activity.g_tilde, activity.phi.shape[1]
    return (
        phi @ phi.T / samples,
        g @ g.T / samples,
        g @ g_tilde.T / samples,
        g_tilde @ g_tilde.T / samples,
        jnp.mean(activity.z * phi, axis=1).reshape(grid.times, grid.points),
        jnp.maximum(_sampling_error(phi), _sampling_error(g)),
    )


@partial(jax.jit, static_argnames=("grid", "learns"))
def _couplings(grid: Grid, learns: bool, below: Below, above: Above, rate: Array) -> Couplings:
    times = jnp.arange(grid.size) // grid.points
    past = times[:, None] > times[None, :]

    def learnt(kernel: Array, error: Array) -> Array:
        return jnp.where(past, rate * kernel * error.reshape(-1)[None, :], 0.0)

    h_gt = learnt(below.phi, below.error)
    z_phi = learnt(above.g_tilde, above.error)
    return Couplings(
        h_g=below.a,
        h_gt=h_gt if below.c is None else h_gt + below.c,
        z_phi=z_phi if above.b is None else z_phi + above.b,
        zeta_phi=above.b if above.d is None else above.d,
        learnt=learnt(above.g_tilde_tilde, above.error) if learns else None,
    )


def _draw(
    grid: Grid, layer: LayerPlan, below: Below, above: Above, numbers: Numbers, noise: LayerNoise
) -> tuple[Fields, Factor, Factor, int, int]:
    """Fields from their kernels, u = F ξ with the causal factor F of Φ^{ℓ−1}, and so on.

    Also the factors of u and of the field that A^ℓ or C^ℓ responds to, the number of Gaussian directions,
    and how many did not fit.
    """
    n, cutoff = grid.size, numbers.cutoff
    u_factor = causal_factor(below.phi, len(noise.u), cutoff)
    factors = [u_factor]
    v = signal = gate = None
    if layer.uses_v:
        joint = _joint_factor(grid, above, len(noise.r), cutoff)
        both = (joint.matrix @ noise.r).reshape(grid.times, 2, grid.points, -1)
        v, r = both[:, 0].reshape(n, -1), both[:, 1].reshape(n, -1)
        factors.append(joint)
        probe_factor = causal_factor(above.g_tilde_tilde, min(n, len(noise.r)), cutoff)
    else:
        probe_factor = causal_factor(above.g, len(noise.r), cutoff)
        r = probe_factor.matrix @ noise.r
        factors.append(probe_factor)
    if layer.direct:
        signal = noise.signal
    elif noise.signal is not None:
        pseudo_factor = causal_factor(above.g_tilde_tilde, len(noise.signal), cutoff)
        signal = pseudo_factor.matrix @ noise.signal
        factors.append(pseudo_factor)
    if noise.gate is not None:
        gate = causal_factor(numbers.input_kernel, grid.points, cutoff).matrix @ noise.gate
    rank, overflow = sum(int(f.rank) for f in factors), sum(int(f.overflow) for f in factors)
    return Fields(u_factor.matrix @ noise.u, r, v, signal, gate), u_factor, probe_factor, rank, overflow


@partial(jax.jit, static_argnames=("grid", "capacity"))
def _joint_factor(grid: Grid, above: Above, capacity: int, cutoff: float) -> Factor:
    """Factor of the covariance G_+ of (v, r), with v before r at every time: r is what v does not say."""
    t, kind, mu = jnp.meshgrid(jnp.arange(grid.times), jnp.arange(2), jnp.arange(grid.points), indexing="ij")
    in_time = (kind * grid.size + t * grid.points + mu).reshape(-1)
    covariance = jnp.block([[above.g_tilde_tilde, above.g_tilde.T], [above.g_tilde, above.g]])
    return causal_factor(covariance[in_time][:, in_time], capacity, cutoff)


def _regress(
    grid: Grid, layer: LayerPlan, activity: Activity, drive: Fields, u_factor: Factor, probe_factor: Factor
) -> Jacobians:
    def by_u(target: Array) -> Array:
        return stein_response(target, drive.u, u_factor, grid.points, equal_time=True)

    phi = None
    probe = drive.r if layer.has_a else drive.v if layer.has_c else None
    if probe is not None:
        phi = stein_response(activity.phi, probe, probe_factor, grid.points, equal_time=False)
    g = None if layer.bottom else by_u(activity.g)
    return Jacobians(phi, g, by_u(activity.g_tilde) if layer.has_d_below else None)


def _sampling_error(field: Array) -> Array:
    """Relative standard error of ⟨field fieldᵀ⟩ in the Frobenius norm, as if the samples were independent."""
    samples = field.shape[1]
    kernel = field @ field.T / samples
    squares = field**2
    variance = squares @ squares.T / samples - kernel**2
    return jnp.sqrt(jnp.sum(jnp.maximum(variance, 0.0)) / samples / jnp.sum(kernel**2))
