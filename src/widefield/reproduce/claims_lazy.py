"""Claims about lazy kernels and finite width at initialisation: Figures 2 and 7."""

from __future__ import annotations

import numpy as np
import xarray as xr

from widefield.results import Estimate

from .claims import Claim, Verdict, agreement, close_to, increasing, number

SLOPE_ALLOWED = 0.15  # next orders in 1/N bend the curves at the small widths
ROUNDING = 1e-10


def _equal(a: xr.DataArray, b: xr.DataArray, what: str) -> Verdict:
    gap = float(np.abs(a - b).max() / np.abs(b).max())
    return Verdict(gap, float("nan"), gap < ROUNDING, what)


def _slopes(d: xr.Dataset, name: str, dim: str) -> list[Estimate]:
    """−d log K/dθ just right of θ = 0, which is 0 for a smooth kernel."""
    step = float(d["angle"][1])
    curve = d[name].transpose(dim, "angle").values
    return [Estimate(float(1 - row[1] / row[0]) / step, 0.0) for row in curve]


def _sharper(d: xr.Dataset, name: str, dim: str) -> Verdict:
    slopes = _slopes(d, name, dim)
    values = ", ".join(f"{s.value:.2f}" for s in slopes)
    return increasing(slopes, "smallest rise of −dlog K/dθ at θ = 0", f"slopes {values} per rad")


def _kink(d: xr.Dataset) -> Verdict:
    slope = _slopes(d, "fa_by_rho", "rho")[-1]
    jump = float(np.abs(np.diff(d["fa_by_rho"].isel(rho=-1))).max() / d["fa_by_rho"].isel(rho=-1, angle=0))
    return Verdict(
        jump,
        float("nan"),
        jump > 0.5,
        "largest jump of K/K(0) between neighbouring angles",
        f"slope {slope.value:.2f} per rad, step {float(d['angle'][1]):.3f} rad",
    )


def _layers(d: xr.Dataset, name: str) -> list[Estimate]:
    """Squared errors by layer at the largest width of the deepest case."""
    case = int(np.argmax(d["case_depth"].values))
    return [number(d, name, case=case, width=-1, layer=i) for i in range(int(d["case_depth"][case]))]


def _first_to_last(values: list[Estimate], what: str) -> Verdict:
    listed = ", ".join(f"{v.value:.2g}" for v in values)
    gap = values[-1] - values[0]
    return Verdict(*gap, gap.value > 2 * gap.error, what, f"in order: {listed}")


def _mean_exponent(found: list[Estimate]) -> Verdict:
    """Of many fits the furthest is far off by chance, their mean is not; its error is at most the mean of theirs."""
    values, errors = np.array(found).T
    mean = Estimate(float(values.mean()), float(errors.mean()))
    spread = f"{len(found)} exponents from {values.min():.2f} to {values.max():.2f}"
    return close_to(mean, -1.0, "mean exponent", SLOPE_ALLOWED, spread)


def _exponents(d: xr.Dataset) -> Verdict:
    """Over kernels, cases and layers."""
    names = ("phi", "g", "entk")
    pairs = [zip(d[f"{n}_exponent"].values.ravel(), d[f"{n}_exponent_se"].values.ravel(), strict=True) for n in names]
    return _mean_exponent([Estimate(float(v), float(e)) for pair in pairs for v, e in pair if np.isfinite(v)])


def _case_errors(d: xr.Dataset, fixed: str, varied: str) -> list[Estimate]:
    """eNTK errors at the largest width, over cases that share `fixed`, ordered by `varied`."""
    shared, counts = np.unique(d[fixed].values, return_counts=True)
    cases = np.flatnonzero(d[fixed].values == shared[np.argmax(counts)])
    cases = cases[np.argsort(d[varied].values[cases])]
    return [number(d, "entk_error", case=int(c), width=-1) for c in cases]


def _variance_rises(d: xr.Dataset, name: str, upwards: bool) -> Verdict:
    values = [number(d, f"{name}_covariance", layer=i, layer_=i) for i in range(d.sizes["layer"])]
    values = values if upwards else values[::-1]
    gap = values[-1] - values[0]
    return Verdict(*gap, gap.value > 2 * gap.error, f"N·Var, {'last − first' if upwards else 'first − last'} layer")


def _variance_exponent(d: xr.Dataset, name: str) -> Verdict:
    return _mean_exponent([number(d, f"{name}_exponent", layer=i) for i in range(d.sizes["layer"])])


CLAIMS = (
    Claim(
        "ρ → 0 recovers the NNGP kernel Φ^L",
        "Figure 2a; §3.1",
        "fig2",
        lambda d: _equal(d["fa_by_rho"].isel(rho=0), d["nngp"], "largest relative difference"),
    ),
    Claim(
        "ρ → 1 recovers the back-propagation NTK",
        "Figure 2a; §3.1",
        "fig2",
        lambda d: _equal(d["fa_by_rho"].isel(rho=-1), d["ntk"], "largest relative difference"),
    ),
    Claim("Larger ρ gives a sharper peak at θ = 0", "Figure 2a", "fig2", lambda d: _sharper(d, "fa_by_rho", "rho")),
    Claim(
        "Depth sharpens the FA kernel (ρ = 1/2)",
        "Figure 2b; §3.1",
        "fig2",
        lambda d: _sharper(d, "fa_by_depth", "depth"),
        "The slope is Σ jρ^j/(πΣρ^j), j ≤ L: for ρ < 1 it stays below ρ/(π(1−ρ)) at any depth.",
    ),
    Claim("Depth sharpens the GLN kernel", "Figure 2c", "fig2", lambda d: _sharper(d, "gln_by_depth", "depth")),
    Claim(
        "Kernels develop a sharp discontinuity at θ = 0",
        "§3.1",
        "fig2",
        _kink,
        "K itself is continuous; its slope jumps at θ = 0, and at ρ = 0 not even that: Φ^L is smooth there.",
    ),
    Claim(
        "Late layers have the largest error of Φ^ℓ",
        "Figure 2d",
        "fig2",
        lambda d: _first_to_last(_layers(d, "phi_error"), "squared error, last − first layer"),
    ),
    Claim(
        "Early layers have the largest error of G^ℓ",
        "Figure 2e",
        "fig2",
        lambda d: _first_to_last(_layers(d, "g_error")[::-1], "squared error, first − last layer"),
    ),
    Claim(
        "Finite-width corrections of the eNTK are larger for small ρ",
        "Figure 2f",
        "fig2",
        lambda d: _first_to_last(
            _case_errors(d, "case_depth", "case_rho")[::-1], "relative squared error, smallest − largest ρ"
        ),
        "Relative to its own size K fluctuates more at small ρ only if the extra layers' noise averages out.",
    ),
    Claim(
        "Finite-width corrections of the eNTK are larger for large L",
        "Figure 2f",
        "fig2",
        lambda d: _first_to_last(
            _case_errors(d, "case_rho", "case_depth"), "relative squared error, deepest − shallowest"
        ),
    ),
    Claim("All squared errors at initialisation go as 1/N", "Figure 2d–f; §3.1", "fig2", _exponents),
    Claim("The variance of Φ^ℓ increases with ℓ", "Figure 7a", "fig7", lambda d: _variance_rises(d, "phi", True)),
    Claim("The variance of G^ℓ is larger for smaller ℓ", "Figure 7b", "fig7", lambda d: _variance_rises(d, "g", False)),
    Claim(
        "Cov(Φ^ℓ, Φ^ℓ') = V min(ℓ, ℓ')/N and its mirror image for G",
        "App. H; Figure 7a, b",
        "fig7",
        lambda d: agreement(d, ("phi_covariance", "g_covariance"), "rms deviation in s.e."),
    ),
    Claim("All layers' Φ variance scales as 1/N", "Figure 7c", "fig7", lambda d: _variance_exponent(d, "phi")),
    Claim("All layers' G variance scales as 1/N", "Figure 7d", "fig7", lambda d: _variance_exponent(d, "g")),
)
