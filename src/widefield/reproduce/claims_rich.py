"""Claims about feature learning: Figures 1, 3 and 6."""

from __future__ import annotations

import numpy as np
import xarray as xr

from widefield.results import Estimate

from .claims import Claim, Verdict, above_zero, agreement, close_to, increasing, number, smallest

SLOPE_ALLOWED = 0.15  # next orders in 1/N bend the curves at the small widths


def _gain(d: xr.Dataset, name: str, rule: str) -> Estimate:
    """Last minus first value."""
    return number(d, name, rule=rule, time=-1) - number(d, name, rule=rule, time=0)


def _lowest_start(d: xr.Dataset) -> Verdict:
    start = {str(r): number(d, "alignment", rule=str(r), time=0) for r in d["rule"].values}
    name, gap = min(((r, a - start["FA"]) for r, a in start.items() if r != "FA"), key=lambda item: item[1].value)
    note = "a tie: FA with ρ = 0 and Hebb both start with the eNTK Φ^L"
    return Verdict(*gap, gap.value > -2 * gap.error, f"initial alignment of the next lowest ({name}) − FA", note)


def _starts_at_zero(d: xr.Dataset) -> Verdict:
    first, last = number(d, "g_tilde", rule="FA", time=0), number(d, "g_tilde", rule="FA", time=-1)
    holds = abs(first.value) < 3 * first.error and last.value > 2 * last.error
    return Verdict(*last, holds, "final G̃ of FA", f"initial {first}")


def _densities(d: xr.Dataset) -> Verdict:
    found = {r: number(d, "gaussian_distance", rule=r) for r in ("GD", "FA", "GLN")}
    holds = all(found["GLN"].value < 0.5 * found[r].value for r in ("GD", "FA"))
    others = ", ".join(f"{r} {found[r]}" for r in ("GD", "FA"))
    kurtosis = ", ".join(f"{r} {float(d['kurtosis'].sel(rule=r)):.2f}" for r in found)
    return Verdict(
        *found["GLN"],
        holds,
        "Kolmogorov–Smirnov distance of GLN's final h from a Gaussian, to be below half of the others'",
        f"{others}; excess kurtosis {kurtosis}",
    )


def _different_features(d: xr.Dataset) -> Verdict:
    names = [str(r) for r in d["rule"].values]
    found: dict[str, Estimate] = {}
    for i, a in enumerate(names):
        for b in names[:i]:
            one, other = d.sel(rule=a), d.sel(rule=b)
            gap = one["phi_end"] - other["phi_end"]
            size = float(np.sqrt((other["phi_end"] ** 2).sum()))
            noise = float(np.sqrt((one["phi_end_se"] ** 2 + other["phi_end_se"] ** 2).sum()))
            found[f"{b} and {a}"] = Estimate(float(np.sqrt((gap**2).sum())) / size, noise / size)
    return smallest(found, "smallest relative difference of final Φ between rules")


def _little_alignment(d: xr.Dataset) -> Verdict:
    share = _gain(d, "alignment", "Hebb") / _gain(d, "alignment", "GD")
    return Verdict(*share, share.value < 0.25, "gain of eNTK alignment, Hebb/GD, to be below 1/4")


def _same_pace(d: xr.Dataset) -> Verdict:
    def half(rule: str, shift: float) -> float:
        part = d.sel(rule=rule)
        loss = (part["loss"] + shift * part["loss_se"]).values
        return float(np.interp(-0.5 * loss[0], -np.minimum.accumulate(loss), d["time"].values))

    times = {r: Estimate(half(r, 0), abs(half(r, 1) - half(r, -1)) / 2) for r in ("GLN", "GD")}
    found = times["GLN"] / times["GD"]
    return Verdict(*found, 0.5 < found.value < 2, "time to half the loss, GLN/GD, to be within a factor of 2")


def _by_richness(d: xr.Dataset, name: str) -> list[Estimate]:
    return [number(d, name, richness=i, time=-1) for i in range(d.sizes["richness"])]


def _rank_one(d: xr.Dataset) -> Verdict:
    values = np.linalg.eigvalsh(d["phi_end"].isel(richness=-1).values)
    noise = float(np.sqrt((d["phi_end_se"].isel(richness=-1) ** 2).sum()))
    share = Estimate(float(values[-1] / values.sum()), noise / float(values.sum()))
    return Verdict(*share, share.value > 0.9, "largest eigenvalue's share of tr Φ^L at the largest γ₀, to be above 0.9")


def _lazy_flat(d: xr.Dataset) -> Verdict:
    rich = number(d, "cosine", richness=-1, time=-1) - number(d, "cosine", richness=-1, time=0)
    lazy = number(d, "lazy_cosine", time=-1) - number(d, "lazy_cosine", time=0)
    found = lazy / rich
    return Verdict(
        *found, found.value < 0.1, "gain of the correlation, theory at γ₀ = 0.02/largest γ₀, to be below 0.1"
    )


def _last_layer_only(d: xr.Dataset) -> Verdict:
    traces, errors = {}, {}
    for name in ("entk_start", "phi_start"):
        part = d.isel(richness=0)
        traces[name] = float(np.trace(part[name].values))
        errors[name] = float(np.sum(np.diag(part[f"{name}_se"].values)))
    entk, phi = (Estimate(traces[n], errors[n]) for n in ("entk_start", "phi_start"))
    return close_to(entk / phi, 1.0, "tr K/tr Φ^L of DFA at initialisation (1: last layer only)", 0.02)


def _worst_exponent(d: xr.Dataset) -> Estimate:
    found = [number(d, "exponent", richness=i) for i in range(d.sizes["richness"])]
    return max(found, key=lambda e: abs(e.value + 1))


def _halved(e: Estimate) -> Estimate:
    return Estimate(e.value / 2, e.error / 2)


def _more_predictive(d: xr.Dataset) -> Verdict:
    """Ratio of the squared errors, largest to smallest richness, geometric mean over widths."""
    logs = np.log(d["error"].transpose("richness", "width").values)
    relative = (d["error_se"] / d["error"]).transpose("richness", "width").values
    gap = logs[-1] - logs[0]
    value = float(np.exp(gap.mean()))
    error = value * float(np.sqrt((relative[-1] ** 2 + relative[0] ** 2).sum()) / len(gap))
    return Verdict(value, error, value + 2 * error < 1, "squared error of K, largest/smallest γ₀")


CLAIMS = (
    Claim(
        "The DMFT predicts loss, alignment and G̃ of wide networks under GD, FA, GLN and Hebb",
        "Abstract; Figure 1",
        "fig1",
        lambda d: agreement(d, ("loss", "alignment", "g_tilde"), "rms deviation in s.e., panels a–c"),
    ),
    Claim(
        "The alignment of the eNTK with the targets increases for all algorithms",
        "Figure 1b",
        "fig1",
        lambda d: smallest({str(r): _gain(d, "alignment", str(r)) for r in d["rule"].values}, "smallest gain"),
        "Hebb's eNTK moves by the input statistics and its own error; nothing in the rule makes it turn to the task.",
    ),
    Claim(
        "FA starts with the lowest alignment",
        "Figure 1b",
        "fig1",
        _lowest_start,
    ),
    Claim(
        "FA's final eNTK alignment exceeds GD's",
        "Figure 1b",
        "fig1",
        lambda d: above_zero(
            number(d, "alignment", rule="FA", time=-1) - number(d, "alignment", rule="GD", time=-1),
            "final alignment, FA − GD",
        ),
        "It depends on data, richness and time of training, which the paper does not give in full.",
    ),
    Claim("FA starts with G̃ = 0, which increases to a non-zero value", "Figure 1c; §3.2", "fig1", _starts_at_zero),
    Claim(
        "G̃ grows during training",
        "Figure 1c",
        "fig1",
        lambda d: smallest({str(r): _gain(d, "g_tilde", str(r)) for r in d["rule"].values}, "smallest gain of G̃"),
        "Hebb's g̃ is proportional to the error, so that its G̃ goes back to 0 as the error does.",
    ),
    Claim(
        "Final preactivations are non-Gaussian for GD and FA, approximately Gaussian for GLN",
        "Figure 1d; Abstract",
        "fig1",
        _densities,
        "GLN is Gaussian only given its gates; over all neurons it is a mixture.",
    ),
    Claim("The rules learn substantially different representations", "§3; Figure 1e", "fig1", _different_features),
    Claim("Hebb shows very small task-relevant alignment of its kernels", "Abstract", "fig1", _little_alignment),
    Claim(
        "Hebb performs most task-relevant learning in the last layer",
        "Abstract",
        "fig1",
        lambda d: (
            lambda e: Verdict(*e, e.value - 2 * e.error > 0.5, "last layer's share of the decrease of the loss")
        )(number(d, "readout_share", rule="Hebb")),
    ),
    Claim("GLN has dynamics comparable to GD", "Contribution 4", "fig1", _same_pace),
    Claim(
        "Rich training aligns gradients and pseudo-gradients for FA",
        "Contribution 4",
        "fig1",
        lambda d: above_zero(_gain(d, "g_tilde", "FA"), "gain of G̃ under FA"),
    ),
    Claim(
        "FA with ρ = 0 learns with the last layer only at initialisation",
        "Abstract; §3.1",
        "fig1",
        lambda d: close_to(number(d, "layers_factor", rule="FA"), 1.0, "tr K/tr Φ at initialisation", 0.02),
    ),
    Claim(
        "Hebb learns with the last layer only at initialisation",
        "Abstract; §3.1",
        "fig1",
        lambda d: close_to(number(d, "layers_factor", rule="Hebb"), 1.0, "tr K/tr Φ at initialisation", 0.02),
    ),
    Claim(
        "The lazy GLN kernel is ⟨φ̇(m)φ̇(m)⟩^L ∘ K^x",
        "Table 2",
        "fig1",
        lambda d: close_to(number(d, "layers_factor", rule="GLN"), 1.0, "tr K/tr of the printed formula, L = 1", 0.02),
        "All L+1 layers contribute this same term, as the caption says: the formula lacks the factor L+1 = 2.",
    ),
    Claim("DFA learns with the last layer only at initialisation", "Abstract; §3.1", "fig3", _last_layer_only),
    Claim(
        "Feature learning accelerates training",
        "Figure 3a",
        "fig3",
        lambda d: increasing(_by_richness(d, "loss")[::-1], "smallest fall of the final loss from one γ₀ to the next"),
    ),
    Claim(
        "The DMFT predicts deep DFA networks at all richness values",
        "Figure 3",
        "fig3",
        lambda d: agreement(d, ("loss", "alignment", "cosine"), "rms deviation in s.e., panels a–c"),
    ),
    Claim(
        "Larger γ₀ gives higher task alignment of Φ^L",
        "§3.2; Figure 3b",
        "fig3",
        lambda d: increasing(_by_richness(d, "alignment"), "smallest rise of A(Φ^L, yyᵀ) from one γ₀ to the next"),
    ),
    Claim(
        "Φ^L becomes essentially rank one",
        "§3.2",
        "fig3",
        _rank_one,
        "How close it comes depends on γ₀ and on the time of training, which the paper does not give.",
    ),
    Claim(
        "Larger γ₀ gives more alignment of gradients and pseudo-gradients",
        "Figure 3c; Contribution 4",
        "fig3",
        lambda d: increasing(_by_richness(d, "cosine"), "smallest rise of corr(g, g̃) from one γ₀ to the next"),
        "It rises from lazy to rich and then saturates: the richest networks align sooner, not further.",
    ),
    Claim("In the lazy limit DFA cannot increase this alignment", "§3.2", "fig3", _lazy_flat),
    Claim(
        "The eNTK clusters the points by class, the more the larger γ₀",
        "Figure 3d; §3.2",
        "fig3",
        lambda d: increasing(_by_richness(d, "entk_alignment"), "smallest rise of A(K, yyᵀ) from one γ₀ to the next"),
    ),
    Claim(
        "The squared error of the eNTK's dynamics is O(1/N)",
        "Figure 3e; §3.2",
        "fig3",
        lambda d: close_to(_worst_exponent(d), -1.0, "exponent furthest from −1", SLOPE_ALLOWED),
    ),
    Claim(
        "Networks converge to the DMFT with error O(N^(−1/2))",
        "Contribution 1",
        "fig3",
        lambda d: close_to(_halved(_worst_exponent(d)), -0.5, "exponent furthest from −1/2", SLOPE_ALLOWED / 2),
    ),
    Claim(
        "The DMFT is more predictive at larger γ₀",
        "§3.2; Figure 3e",
        "fig3",
        _more_predictive,
        "Features that learn the task lower the relative error; the noise of the learnt part itself can outweigh it.",
    ),
    Claim(
        "The full DMFT predicts feature kernels of deep nonlinear ρ-FA",
        "App. B; Figure 6",
        "fig6",
        lambda d: agreement(d, ("phi", "loss"), "rms deviation in s.e."),
    ),
    Claim(
        "The saddle point equations can be solved self-consistently by Algorithm 1",
        "§3; App. A",
        "fig6",
        lambda d: agreement(d, ("algorithm_phi", "algorithm_loss"), "rms deviation from one pass in time, in s.e."),
    ),
)
