"""Two-time kernels and response functions A, B, C, D of a finished run."""

from __future__ import annotations

import numpy as np

from ..rules.rule import Rule
from .low_rank import LowRank
from .state import State

CUTOFF = 1e-6  # relative size of directions of the past on which a response cannot be told


def two_time(rules: tuple[Rule, ...], state: State, fields: np.ndarray, responses: bool) -> dict[str, np.ndarray]:
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
    depth = len(rules)
    if not responses or depth == 1:
        return out
    layers = []
    for layer, matrix in enumerate(state.matrices):
        assert isinstance(matrix, LowRank)
        felt, true_above = _felt(rules, layer), _true_above(rules, layer)
        layers.append(_responses(matrix, phi[:, layer], g[:, layer + 1], g_tilde[:, layer + 1], felt, true_above))
    names = "abcd" if any(_felt(rules, layer) == "v" for layer in range(depth - 1)) else "ab"
    return out | {f"response_{name}": np.stack([found[name] for found in layers]) for name in names}


def _felt(rules: tuple[Rule, ...], layer: int) -> str | None:
    """Which field from above h of `layer` (0-based) feels: r (response A) where all layers above pass on the true
    gradient, else v (response C), and none where the feedback has no part of W(0)."""
    feedback = rules[layer].feedback
    if not feedback.chained or feedback.rho == 0:
        return None
    return "r" if _true_above(rules, layer) else "v"


def _true_above(rules: tuple[Rule, ...], layer: int) -> bool:
    """Whether g̃ of the layer above `layer` (0-based) is g."""
    return all(rule.is_gradient for rule in rules[layer + 1 :])


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """⟨a(t) b(s)⟩, (L, T, T, P, P)."""
    return np.einsum("tlmn,slkn->ltsmk", a, b, optimize=True) / a.shape[-1]


def _responses(
    matrix: LowRank, phi: np.ndarray, g: np.ndarray, g_tilde: np.ndarray, felt: str | None, true_above: bool
) -> dict[str, np.ndarray]:
    """Responses through one W; A or C is 0 where its field is not `felt`."""
    forward, backward = matrix.forward_side, matrix.backward_side
    width = phi.shape[-1]

    def seen(field: np.ndarray, side) -> np.ndarray:
        """Coordinates of a field (T, P, N) on the rows asked from a side, (T, P, rank)."""
        return field @ np.asarray(side.asked).T / width

    x, y, y_tilde = seen(phi, forward), seen(g, backward), seen(g_tilde, backward)
    felt_x = x @ np.asarray(forward.response)
    zero = np.zeros((len(phi), len(phi), phi.shape[1], phi.shape[1]))
    b = _solve(y @ np.asarray(backward.response), x, equal_times=True)
    if true_above:
        d = b
    elif felt == "v":
        d = _solve(y_tilde @ np.asarray(backward.response), x, equal_times=True)
    else:
        # W was not asked about g̃; Stein's lemma with the Gaussian part of the forward answers, which makes up u.
        fresh = np.asarray(forward.answers) - np.asarray(forward.response) @ np.asarray(backward.asked)
        d = _solve(g_tilde @ fresh.T / width, x, equal_times=True)
    return {
        "a": _solve(felt_x, y, equal_times=False) if felt == "r" else zero,
        "b": b,
        "c": _solve(felt_x, y_tilde, equal_times=False) if felt == "v" else zero,
        "d": d,
    }


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
