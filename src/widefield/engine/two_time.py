"""Two-time kernels and response functions A, B, C, D of a finished run (design §3.1, §5)."""

from __future__ import annotations

import numpy as np

from ..rules.feedback import Weights
from .low_rank import LowRank
from .program import Spec, State

CUTOFF = 1e-6  # relative size of directions of the past on which a response cannot be told


def two_time(spec: Spec, state: State, fields: np.ndarray, responses: bool) -> dict[str, np.ndarray]:
    """Kernels (L, T, T, P, P), and responses (L−1, T, T, P, P), from whole fields (T, 3, L, P, N).

    The answers of W(0) hold their response: χ(t) = u(t) + Σ_j ρ_j(t)·Q_j, where Q are the rows asked from the
    other side before t. Writing Q in terms of the fields themselves gives A(t, s): the solution of least
    norm, since fields that hardly move make single entries ambiguous. Its action on the fields is not.
    """
    phi, g, g_tilde = np.moveaxis(fields, 1, 0)  # each (T, L, P, N)
    out = {
        "phi_two_time": _kernel(phi, phi),
        "g_two_time": _kernel(g, g),
        "g_tilde_two_time": _kernel(g, g_tilde),
        "g_tilde_tilde_two_time": _kernel(g_tilde, g_tilde),
    }
    if not responses or spec.depth == 1:
        return out
    found: dict[str, list[np.ndarray]] = {}
    for layer, matrix in enumerate(state.matrices):
        assert isinstance(matrix, LowRank)
        feedback = spec.rule_at(layer + 1).feedback
        own = isinstance(feedback, Weights) and not spec.one_sweep and feedback.rho != 0
        pairs = _responses(matrix, phi[:, layer], g[:, layer + 1], g_tilde[:, layer + 1], spec.one_sweep, own)
        for name, value in pairs.items():
            found.setdefault(name, []).append(value)
    return out | {name: np.stack(values) for name, values in found.items()}


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """⟨a(t) b(s)⟩, (L, T, T, P, P)."""
    return np.einsum("tlmn,slkn->ltsmk", a, b, optimize=True) / a.shape[-1]


def _responses(
    matrix: LowRank, phi: np.ndarray, g: np.ndarray, g_tilde: np.ndarray, one_sweep: bool, own: bool
) -> dict[str, np.ndarray]:
    """Responses through one W; `own` says whether the pseudo-gradient asks for W(0) in its own right."""
    forward, backward = matrix.forward_side, matrix.backward_side
    width = phi.shape[-1]

    def seen(field: np.ndarray, side) -> np.ndarray:
        """Coordinates of a field (T, P, N) on the rows asked from a side, (T, P, rank)."""
        return field @ np.asarray(side.asked).T / width

    x, y, y_tilde = seen(phi, forward), seen(g, backward), seen(g_tilde, backward)
    felt_x = x @ np.asarray(forward.response)
    zero = np.zeros((len(phi), len(phi), phi.shape[1], phi.shape[1]))
    out = {
        "response_a": _solve(felt_x, y, equal_times=False) if one_sweep else zero,
        "response_b": _solve(y @ np.asarray(backward.response), x, equal_times=True),
    }
    if own:
        out["response_c"] = _solve(felt_x, y_tilde, equal_times=False)
        out["response_d"] = _solve(y_tilde @ np.asarray(backward.response), x, equal_times=True)
    return out


def _solve(felt: np.ndarray, past: np.ndarray, equal_times: bool) -> np.ndarray:
    """R(t, s), (T, T, P, P), with felt(t) = Σ_s R(t, s)·past(s) over s < t, or s ≤ t."""
    times, points, _ = felt.shape
    out = np.zeros((times, times, points, points))
    for t in range(times):
        last = t + 1 if equal_times else t
        if last:
            known = past[:last].reshape(last * points, -1)
            solution, *_ = np.linalg.lstsq(known.T, felt[t].T, rcond=CUTOFF)
            out[t, :last] = solution.T.reshape(points, last, points).transpose(1, 0, 2)
    return out
