import ast
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from browsing import BROWSER
from typer.testing import CliRunner

import widefield as wf
from widefield import results
from widefield.cli.app import app
from widefield.errors import IncompleteError
from widefield.reproduce import FIGURES, reproduce
from widefield.reproduce.claims import SIGNIFICANT, all_claims, evaluate
from widefield.reproduce.fig1 import gaussian_distance
from widefield.reproduce.fig7 import jackknife_covariance
from widefield.reproduce.measures import distance, power_law, squared_error
from widefield.reproduce.run import complete
from widefield.reproduce.study import SIZES
from widefield.results.result import make_result
from widefield.sweeps import Failure, by_compilation

# Compilation is what these runs cost. All figures together take a minute, so the longer ones run with the slow tests.
FAST = ("fig4", "fig5")
SLOW = tuple(name for name in FIGURES if name not in FAST)


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    return reproduce(FAST, size="tiny", folder=tmp_path_factory.mktemp("fast"), progress=False)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    return reproduce(SLOW, size="tiny", folder=tmp_path_factory.mktemp("slow"), progress=False)


def close(data: xr.Dataset, *names: str) -> None:
    """Networks are within their errors of the theory: rms below 3 where the finite width of tiny networks may show.

    Errors come from few networks, so single entries may lie far off; 3 in the mean square over a whole variable
    would come by chance in less than 1 of 1000 runs, were its entries one single number with 5 degrees of freedom.
    """
    for name in names:
        assert distance(data, name).rms < 3, name


def check_files(made, names) -> None:
    for name in names:
        for ending, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("nc", b"\x89HDF")):
            assert (made.page.parent / f"{name}.{ending}").read_bytes().startswith(start)
        for variable, values in made.data[name].data_vars.items():
            numbers = values.values
            if name == "fig5" and "rule" in values.dims:
                numbers = values.isel(rule=slice(0, 3)).values  # (c) has no Hebb
            assert np.isfinite(numbers).all() or name == "fig2", (name, variable)


@pytest.mark.slow
def test_fig1_four_rules(slow):
    data = slow.data["fig1"]
    close(data, "loss", "alignment", "g_tilde", "phi_end", "g_tilde_end")
    assert np.allclose(data["loss"][:, 0], 2.0)  # ½Σy² of 4 points, all outputs 0
    start = data["g_tilde_theory"].isel(time=0)
    # G̃ = ⟨φ̇²w²⟩ = 1 for GD and GLN, and 0 where the feedback knows nothing of w.
    assert np.allclose(start, [1, 0, 1, 0], atol=0.08)
    assert (data["loss_theory"].diff("time") < 0).all()
    # tr K/tr Φ at initialisation: both layers for GD and GLN, the last one only for FA and Hebb.
    assert np.allclose(data["layers_factor"], [2, 1, 2, 1], atol=4 * float(data["layers_factor_se"].max()))
    assert ((data["readout_share"] > 0) & (data["readout_share"] < 1.1)).all()


def test_fig4_feedback_correlation(fast):
    data = fast.data["fig4"]
    check_files(fast, FAST)
    close(data, "loss", "alignment", "g_tilde", "overlap", "speed")
    depth = data.sizes["layer"]
    for rho in data["rho"].values:
        start = data["g_tilde_theory"].sel(rho=rho).isel(time=0)
        assert np.allclose(start, [rho ** (depth + 1 - layer) for layer in data["layer"].values])
    speed = data["speed_theory"]
    assert float(speed.sel(rho=1.0) / speed.sel(rho=0.0)) == pytest.approx(depth + 1)


def test_fig5_exact(fast):
    data = fast.data["fig5"]
    close(data, "loss", "alignment")
    close(data.isel(rule=slice(0, 3)), "moved")
    assert np.allclose(data["exponent_small"][:3], 2, atol=1e-3)
    assert np.allclose(data["exponent_large"][:3], [1, 2 / 3, 2 / 3], atol=1e-3)
    assert np.allclose(data["alignment_theory"].isel(time=0), 0.25)  # 1/P
    assert (data["end_g_tilde"].diff("rho") > 0).all()


@pytest.mark.slow
def test_fig2_lazy_kernels(slow):
    data = slow.data["fig2"]
    check_files(slow, SLOW)
    assert np.allclose(data["fa_by_rho"].sel(rho=0), data["nngp"], rtol=1e-12)
    assert np.allclose(data["fa_by_rho"].sel(rho=1), data["ntk"], rtol=1e-12)
    # 4 standard errors, or 0.2 for the next order at N = 16: 1 false alarm in some 3000 runs, five exponents.
    for name in ("phi", "g", "entk"):
        off = np.abs(data[f"{name}_exponent"] + 1)
        assert (off < np.maximum(0.2, 4 * data[f"{name}_exponent_se"])).all()
    late, early = data["phi_error"].isel(width=0, case=0, layer=-1), data["phi_error"].isel(width=0, case=0, layer=0)
    assert late > early


@pytest.mark.slow
def test_fig3_richness(slow):
    data = slow.data["fig3"]
    close(data, "loss", "alignment", "cosine", "entk_end")
    ends = data.isel(time=-1)
    assert ends["alignment_theory"][1] > ends["alignment_theory"][0]
    assert ends["loss_theory"][1] < ends["loss_theory"][0]
    assert np.allclose(data["entk_start_theory"], data["phi_start_theory"], atol=0.05)  # last layer only
    assert (np.abs(data["exponent"] + 1) < 4 * data["exponent_se"]).all()


@pytest.mark.slow
def test_fig6_two_theories(slow):
    data = slow.data["fig6"]
    close(data, "phi", "loss", "algorithm_phi", "algorithm_loss")
    assert float(np.abs(data["phi_theory"].diff("time")).max()) > 1e-3  # features move


@pytest.mark.slow
def test_fig7_fluctuations(slow):
    data = slow.data["fig7"]
    layers = data["layer"].values
    brownian = 5 * np.minimum.outer(layers, layers)
    assert np.allclose(data["phi_covariance_theory"], brownian)
    assert np.allclose(data["g_covariance_theory"], brownian[::-1, ::-1])
    close(data, "phi_covariance", "g_covariance")
    close(data.isel(width=[-1]), "phi_variance", "g_variance")  # the first order is right at the largest width only


def test_claims_on_fast_figures(fast):
    assert {claim.figure for claim, _ in fast.claims} == set(FAST)
    assert all(np.isfinite(verdict.value) for _, verdict in fast.claims)
    verdicts = {claim.text: verdict for claim, verdict in fast.claims}
    # Slips of the paper are found at any size; what is exact holds at any size.
    assert not verdicts["Two-layer GD: dΔ/dt = −H_yΔ"].holds
    assert not verdicts["G̃^ℓ(0) = ρ^(L−ℓ)"].holds
    assert verdicts["At large γ₀, ΔH_y ∼ γ₀^(2/3) for FA"].holds
    assert verdicts["Larger ρ trains faster"].holds


def test_claims_fail_on_data_that_speak_against_them(fast):
    data = fast.data["fig4"]
    turned = data.assign(loss=data["loss"].isel(rho=slice(None, None, -1)).assign_coords(rho=data["rho"]))
    verdicts = {claim.text: verdict for claim, verdict in evaluate({"fig4": turned})}
    assert not verdicts["Larger ρ trains faster"].holds
    assert verdicts["Larger ρ trains faster"].value < -SIGNIFICANT * verdicts["Larger ρ trains faster"].error


@pytest.mark.slow
def test_claims_on_slow_figures(slow):
    assert {claim.figure for claim, _ in slow.claims} == set(SLOW)
    assert all(np.isfinite(verdict.value) for _, verdict in slow.claims)
    verdicts = {claim.text: verdict for claim, verdict in slow.claims}
    assert not verdicts["The lazy GLN kernel is ⟨φ̇(m)φ̇(m)⟩^L ∘ K^x"].holds
    assert verdicts["FA starts with G̃ = 0, which increases to a non-zero value"].holds
    assert verdicts["ρ → 1 recovers the back-propagation NTK"].holds


def test_every_figure_has_claims_and_all_sizes():
    assert {claim.figure for claim in all_claims()} == set(FIGURES)
    for study in FIGURES.values():
        assert set(study.sizes) == set(SIZES)
        for size in SIZES:
            names = study.cells(study.sizes[size])
            assert sorted(by_compilation(names)) == sorted(names)
            assert len({cell.name for cell in names.values()}) == len(names)


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.images, self.links, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "img":
            self.images.append(found["src"])
        if tag in ("a", "link"):
            self.links.append(found["href"])
        if tag not in ("img", "meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_whole_and_self_contained(fast):
    text = fast.page.read_text(encoding="utf-8")
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert len(page.images) == len(FAST)
    assert all(image.startswith("data:image/png;base64,") for image in page.images)
    for link in page.links:
        assert link.startswith(("#", "data:")) or (fast.page.parent / link).is_file()
    assert "<script" not in text
    assert text.count("does not hold") >= 2
    for claim, _ in fast.claims:
        assert claim.where in text


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")
def test_page_in_a_browser(fast, tmp_path):
    """A copy of the page reports on its images in its title; the browser's log holds what its console said."""
    report = (
        "const all = [...document.images]; document.title = 'loaded ' + all.filter(i => i.naturalWidth > 0).length;"
    )
    script = f"<script>window.addEventListener('load', () => {{ {report} }})</script></body>"
    copy = tmp_path / "page.html"
    copy.write_text(fast.page.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/p",
    ]
    command = [BROWSER, *options, "--virtual-time-budget=5000", "--dump-dom", copy.as_uri()]
    shown = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert f"<title>loaded {len(FAST)}</title>" in shown.stdout, shown.stderr[-2000:]
    assert "CONSOLE" not in shown.stderr


def test_a_figure_needs_all_of_its_runs(problem, fake_result):
    one = fake_result(problem)
    assert complete({"a": one}) == {"a": one}
    with pytest.raises(IncompleteError, match="1 of 2 runs failed: b: DivergenceError: at step 3"):
        complete({"a": one, "b": Failure("DivergenceError: at step 3", lasting=True)})


def test_figures_use_the_public_interface_only():
    """`widefield` itself, and what `widefield.results` and the modules for errors, progress, files and sweeps offer."""
    allowed = {
        "widefield",
        "widefield.results",
        "widefield.errors",
        "widefield.progress",
        "widefield.atomic",
        "widefield.sweeps",
    }
    for path in (Path(wf.__file__).parent / "reproduce").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1, path
                names = {node.module} if node.level == 0 else set()
                if node.module == "widefield.results":
                    assert {name.name for name in node.names} <= set(results.__all__), path
            else:
                names = {name.name for name in node.names} if isinstance(node, ast.Import) else set()
            assert {name for name in names if name and name.startswith("widefield")} <= allowed, path


def test_squared_error_is_that_of_single_networks(problem):
    rng = np.random.default_rng(0)
    runs, truth = rng.normal(1.0, 0.3, (7, 4, 4, 4)), rng.normal(1.0, 0.1, (4, 4, 4))
    networks = make_result(problem, "test", {"entk": runs[..., None, None]}, steps=np.arange(4))
    theory = xr.Dataset({"entk": (("time", "sample", "sample_"), truth)}, coords={"time": networks["time"]})
    direct = np.sum((runs - truth) ** 2, axis=(2, 3)) / np.sum(truth**2, axis=(1, 2))
    found = squared_error(networks, theory, "entk", ("sample", "sample_"))
    np.testing.assert_allclose(found["error"], direct.mean(0))
    np.testing.assert_allclose(found["error_se"], direct.std(0, ddof=1) / np.sqrt(7))
    start = squared_error(networks, theory, "entk", ("sample", "sample_"), time=0)
    assert float(start["error"]) == pytest.approx(direct[:, 0].mean())
    static = squared_error(networks, theory.isel(time=0, drop=True), "entk", ("sample", "sample_"), time=0)
    assert float(static["error"]) == float(start["error"])
    # A theory that is itself sampled adds its own variance, which is taken off.
    noisy = theory.assign(entk_se=theory["entk"] * 0 + 0.1)
    less = squared_error(networks, noisy, "entk", ("sample", "sample_"))["error"]
    np.testing.assert_allclose(less, direct.mean(0) - 16 * 0.01 / np.sum(truth**2, axis=(1, 2)))


def test_power_law_and_its_error():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert power_law(x, 3 * x**-1.5).value == pytest.approx(-1.5)
    rng = np.random.default_rng(1)
    fits = [power_law(x, np.exp(-np.log(x) + 0.1 * rng.standard_normal(4)), 0.1 / x) for _ in range(400)]
    pull = np.array([(fit.value + 1) / fit.error for fit in fits])
    # Errors are never narrower than given and wider where points scatter: a spread of 1 at the most; 400 draws: ± 0.04.
    assert 0.6 < pull.std() < 1.1


def test_distance_counts_standard_errors():
    data = xr.Dataset(
        {
            "a": ("x", np.array([1.0, 2.0, 5.0])),
            "a_se": ("x", np.array([0.0, 0.3, 1.0])),
            "a_theory": ("x", np.array([1.0, 2.5, 5.0])),
            "a_theory_se": ("x", np.array([0.0, 0.4, 0.0])),
        }
    )
    assert distance(data, "a").largest == pytest.approx(1.0)
    assert distance(data, "a").rms == pytest.approx(np.sqrt(0.5))
    assert distance(data.assign(a=data["a"] + 1), "a").largest > 1e6  # no error, yet not the same


def test_gaussian_distance_tells_a_gaussian_from_others():
    rng = np.random.default_rng(2)
    gauss, other = rng.standard_normal((3, 4000)), rng.laplace(size=(3, 4000))
    near, far = gaussian_distance(gauss), gaussian_distance(other)
    assert near[0] < 1.5 / np.sqrt(4000) < 0.05 < far[0]  # the mean of three distances above 1.5/√n: 1 in 10⁴
    assert 0 < far[1] < 0.01


def test_jackknife_error_of_a_covariance():
    rng = np.random.default_rng(3)
    covariance, error = jackknife_covariance(rng.standard_normal((2000, 2)))
    assert np.all(np.abs(covariance - np.eye(2)) < 5 * error)
    assert error[0, 0] == pytest.approx(np.sqrt(2 / 2000), rel=0.6)  # 20 groups know it to 16%


def test_command_names_what_is_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, ["reproduce", "fig9"])
    assert outcome.exit_code == 2
    assert re.search(r"figure is 'fig9'; allowed: some of fig1, .*fig7", outcome.output)
    assert not any(tmp_path.iterdir())


def test_command_writes_the_page(fast, tmp_path, monkeypatch):
    """On a folder where all runs are there already, at another size: only what is missing is made."""
    monkeypatch.chdir(tmp_path)
    study = FIGURES["fig5"]
    monkeypatch.setitem(study.sizes, "quick", study.sizes["tiny"])
    shutil.copytree(fast.page.parent / "cache", tmp_path / "reproduction-quick" / "cache")
    before = {p.name for p in (tmp_path / "reproduction-quick" / "cache").iterdir()}
    outcome = CliRunner().invoke(app, ["reproduce", "fig5", "--quick"])
    assert outcome.exit_code == 0, outcome.output
    assert "claims hold" in outcome.output
    assert "does not hold: Two-layer GD" in outcome.output
    assert {p.name for p in (tmp_path / "reproduction-quick" / "cache").iterdir()} == before
    assert (tmp_path / "reproduction-quick" / "index.html").is_file()
