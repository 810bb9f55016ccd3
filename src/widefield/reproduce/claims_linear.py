"""Claims about linear networks: Figures 4 and 5."""

from __future__ import annotations

import numpy as np
import xarray as xr

from widefield.results import Estimate

from .claims import Claim, Verdict, agreement, close_to, increasing, number


def _by_rho(d: xr.Dataset, name: str, time: int = -1, **where: int) -> list[Estimate]:
    return [number(d, name, rho=i, time=time, **where) for i in range(d.sizes["rho"])]


def _all_layers(d: xr.Dataset, name: str, rising: bool, what: str) -> Verdict:
    """The least significant step with ρ over all layers."""
    found = []
    for layer in range(d.sizes["layer"]):
        values = _by_rho(d, name, layer=layer)
        found.append(increasing(values if rising else values[::-1], what))
    return min(found, key=lambda v: v.value / max(v.error, 1e-300))


def _faster(d: xr.Dataset) -> Verdict:
    """Loss where the fastest has lost about nine tenths."""
    fastest = d["loss"].isel(rho=-1)
    time = int(np.argmax((fastest < 0.1 * fastest[0]).values)) or d.sizes["time"] - 1
    return increasing(
        _by_rho(d, "loss", time)[::-1],
        f"smallest fall of the loss at t = {float(d['time'][time]):.2f} from one ρ to the next",
    )


def _initial_speed(d: xr.Dataset) -> Verdict:
    """yᵀK(0)y against Σ_j ρ^j, relative to ρ = 0."""
    depth, rhos = d.sizes["layer"], d["rho"].values
    base = number(d, "speed", rho=0)
    found = [number(d, "speed", rho=i) / base for i in range(len(rhos))]
    expected = [sum(rho**j for j in range(depth + 1)) for rho in rhos]
    worst = max(
        zip(found, expected, strict=True), key=lambda pair: abs(pair[0].value - pair[1]) / max(pair[0].error, 1e-12)
    )
    return close_to(worst[0], worst[1], f"speed/speed at ρ = 0, to be {worst[1]:.3g} (worst ρ)", 0.02 * worst[1])


def _printed_start(d: xr.Dataset) -> Verdict:
    """G̃^L(0) is ρ; the text has ρ^(L−ℓ), which is 1 at ℓ = L."""
    middle = (d.sizes["rho"] - 1) // 2
    found, rho = number(d, "g_tilde", rho=middle, time=0, layer=-1), float(d["rho"][middle])
    return close_to(found, 1.0, f"G̃^L(0) at ρ = {rho:g}, to be ρ⁰ = 1", 0.02)


def _initial_rate(d: xr.Dataset, rule: str) -> Estimate:
    """−d loss/dt at t = 0, from the falls in one and in two intervals, extrapolated to none."""
    first = number(d, "loss", rule=rule, time=0)
    one, two = (first - number(d, "loss", rule=rule, time=i) for i in (1, 2))
    interval = float(d["time"][1])
    return Estimate(
        (2 * one.value - two.value / 2) / interval, float(np.hypot(2 * one.error, two.error / 2)) / interval
    )


def _early(d: xr.Dataset, a: str, b: str) -> Verdict:
    return close_to(_initial_rate(d, a) / _initial_rate(d, b), 1.0, f"initial fall of the loss, {a}/{b}", 0.05)


def _late(d: xr.Dataset) -> Verdict:
    """At the time when the slowest has lost nine tenths: the two closest losses."""
    loss = d["loss"].transpose("rule", "time")
    time = int(np.argmax((loss < 0.1 * loss.isel(time=0, drop=True)).all("rule").values)) or d.sizes["time"] - 1
    ordered = sorted((number(d, "loss", rule=i, time=time) for i in range(d.sizes["rule"])), key=lambda e: e.value)
    return increasing(ordered, f"smallest gap between two losses at t = {float(d['time'][time]):.2f}")


def _gains(d: xr.Dataset) -> dict[str, Estimate]:
    return {
        str(r): number(d, "alignment", rule=str(r), time=-1) - number(d, "alignment", rule=str(r), time=0)
        for r in d["rule"].values
    }


def _only_hebb_stays(d: xr.Dataset) -> Verdict:
    gains = _gains(d)
    least = min((g for r, g in gains.items() if r != "Hebb"), key=lambda g: g.value)
    found = gains["Hebb"] / least
    holds = least.value > 2 * least.error and found.value < 0.25
    return Verdict(
        *found,
        holds,
        "gain of alignment, Hebb/least of the others, to be below 1/4",
        ", ".join(f"{r} {g.value:+.3f}" for r, g in gains.items()),
    )


def _exponent(d: xr.Dataset, rule: str, end: str, target: float) -> Verdict:
    return close_to(number(d, f"exponent_{end}", rule=rule), target, f"exponent at {end} γ₀, {rule}", 0.02)


def _small_exponents(d: xr.Dataset) -> Verdict:
    found = [_exponent(d, r, "small", 2.0) for r in ("GD", "FA ρ=0", "FA ρ=1")]
    return max(found, key=lambda v: abs(v.value - 2))


def _below(d: xr.Dataset) -> Verdict:
    worst = float((d["movement"].sel(rule="FA ρ=1") / d["movement"].sel(rule="FA ρ=0")).max())
    return Verdict(worst, float("nan"), worst < 1, "largest ratio of ΔH_y, ρ = 1/ρ = 0, over γ₀ from 10⁻³ to 10⁵")


def _slope_of_g_tilde(d: xr.Dataset) -> Verdict:
    slope = float(np.gradient(d["end_g_tilde"].values, d["rho"].values).min())
    return Verdict(slope, float("nan"), slope > 1 / 3, "smallest dG̃/dρ at the end of training, to be above 1/3")


def _end_falls(d: xr.Dataset) -> Verdict:
    slope = float(np.gradient(d["end_h_y"].values, d["rho"].values).max())
    return Verdict(slope, float("nan"), slope < 0, "largest dH_y/dρ at the end of training, to be below 0")


def _printed_rate(d: xr.Dataset) -> Verdict:
    """−dlog Δ/dt of GD at the start, which is −½dlog loss/dt; the text has H_y = 1."""
    rate, scale = _initial_rate(d, "GD"), 2 * float(d["loss"].sel(rule="GD")[0])
    return close_to(
        Estimate(rate.value / scale, rate.error / scale), 1.0, "−dlog Δ/dt at the start, to be H_y(0) = 1", 0.1
    )


CLAIMS = (
    Claim(
        "For deep linear networks the DMFT closes algebraically, and predicts networks",
        "Contribution 3; §3.3",
        "fig4",
        lambda d: agreement(d, ("loss", "alignment", "g_tilde", "overlap"), "rms deviation in s.e."),
    ),
    Claim("Larger ρ trains faster", "§3.3; Figure 4a", "fig4", _faster),
    Claim("df/dt at t = 0 grows as Σ_ℓ ρ^(L−ℓ)", "§3.3", "fig4", _initial_speed),
    Claim(
        "Larger ρ gives higher final G̃ in each layer",
        "§3.3; Figure 4b",
        "fig4",
        lambda d: _all_layers(d, "g_tilde", True, "least significant rise of G̃^ℓ from one ρ to the next"),
    ),
    Claim(
        "G̃^ℓ(0) = ρ^(L−ℓ)",
        "§3.3",
        "fig4",
        _printed_start,
        "The recursion G̃^ℓ = ρG̃^(ℓ+1) from G̃^(L+1) = 1 gives ρ^(L+1−ℓ); the text is one layer off.",
    ),
    Claim(
        "For larger ρ the NTK achieves lower task alignment",
        "§3.3; Figure 4c",
        "fig4",
        lambda d: increasing(_by_rho(d, "alignment")[::-1], "smallest fall of A(K, yyᵀ) from one ρ to the next"),
        "At equal time; networks with small ρ may not have finished training yet.",
    ),
    Claim(
        "Smaller ρ gives more feature learning in rich FA (overlap of H^ℓ with y)",
        "Abstract; Figure 4d",
        "fig4",
        lambda d: _all_layers(d, "overlap", False, "least significant fall of yᵀH^ℓy/|y|² from one ρ to the next"),
        "At equal time; networks with small ρ may not have finished training yet.",
    ),
    Claim(
        "The exact flows describe networks",
        "§3.3.1; Figure 5",
        "fig5",
        lambda d: agreement(d, ("loss", "alignment"), "rms deviation in s.e., panels a and b"),
    ),
    Claim("ρ = 0 FA and Hebb have the same early dynamics", "Figure 5a", "fig5", lambda d: _early(d, "FA ρ=0", "Hebb")),
    Claim("ρ = 1 FA and GD have the same early dynamics", "Figure 5a", "fig5", lambda d: _early(d, "FA ρ=1", "GD")),
    Claim("All loss curves become distinct at late times", "Figure 5a", "fig5", _late),
    Claim("The kernel aligns to the task for GD and FA, but not for Hebb", "Figure 5b", "fig5", _only_hebb_stays),
    Claim(
        "Two-layer GD: dΔ/dt = −H_yΔ",
        "§3.3.1",
        "fig5",
        _printed_rate,
        "Both layers learn, so the rate is 2H_y, as App. F has it; the main text lacks the 2.",
    ),
    Claim("At small γ₀, ΔH_y ∼ γ₀² for GD and FA", "Figure 5c", "fig5", _small_exponents),
    Claim("At large γ₀, ΔH_y ∼ γ₀ for GD", "Figure 5c", "fig5", lambda d: _exponent(d, "GD", "large", 1.0)),
    Claim("At large γ₀, ΔH_y ∼ γ₀^(2/3) for FA", "Figure 5c", "fig5", lambda d: _exponent(d, "FA ρ=0", "large", 2 / 3)),
    Claim("ρ = 1 FA has lower ΔH_y than ρ = 0 FA for all γ₀", "Figure 5c", "fig5", _below),
    Claim("The final H_y is smaller for larger ρ", "§3.3.1", "fig5", _end_falls),
    Claim("The final G̃ increases with ρ, dG̃/dρ > 1/3", "§3.3.1", "fig5", _slope_of_g_tilde),
    Claim(
        "ΔH_y of trained networks follows the exact law",
        "Figure 5c",
        "fig5",
        lambda d: agreement(d.sel(rule=["GD", "FA ρ=0", "FA ρ=1"]), ("moved",), "rms deviation in s.e."),
    ),
)
