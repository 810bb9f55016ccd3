"""The documentation site in a real browser: the page of stored solutions, and every page of the built site."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from browsing import Tab

import widefield as wf

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def build_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / "build" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored() -> dict:
    text = (DOCS / "explorer" / "data.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix(build_script("explorer").START).rstrip().removesuffix(";"))


def test_every_position_of_the_sliders_is_stored(stored):
    explorer = build_script("explorer")
    assert sorted(stored["runs"]) == sorted(explorer.key(*one) for one in explorer.settings())
    steps = {name: len(stored[name]) for name in ("time", "kernel_time")}
    for run in stored["runs"].values():
        assert all(len(run[name]) == len(run[f"{name}_se"]) == steps["time"] for name in explorer.CURVES)
        assert all(np.shape(run[name]) == (steps["kernel_time"], 100) for name in explorer.KERNELS)


@pytest.mark.slow
@pytest.mark.parametrize("one", [("fa", 0.5, 2.0), ("hebb", None, 1.0)])
def test_stored_solutions_are_those_of_solve(stored, one):
    """A new seed gives the same within errors.

    Four replicates on either side: |t| > 9 has a chance below 1 in 5000 at each of 31 correlated times.
    """
    explorer = build_script("explorer")
    result = wf.solve(explorer.problem_of(*one), **explorer.OPTIONS, seed=1, progress=False)
    found, kept = explorer.stored(result), stored["runs"][explorer.key(*one)]
    for name in explorer.CURVES:
        gap = np.abs(np.subtract(found[name], kept[name]))
        error = np.hypot(found[f"{name}_se"], kept[f"{name}_se"])
        assert np.all(gap <= 9 * error + 1e-5), name


@pytest.fixture(scope="module")
def sliders(tmp_path_factory) -> str:
    """The address of the page's own HTML, without the rest of the site."""
    folder = tmp_path_factory.mktemp("sliders")
    text = (DOCS / "static_explorer.md").read_text(encoding="utf-8")
    start, end = text.index("<link"), text.rindex("</script>") + len("</script>")
    page = f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>sliders</title>{text[start:end]}'
    (folder / "page.html").write_text(page, encoding="utf-8")
    shutil.copytree(DOCS / "explorer", folder / "explorer")
    return (folder / "page.html").as_uri()


def drawn(tab: Tab, name: str, kind: str = "rule") -> np.ndarray:
    """The values of a curve, from where its points stand on the page."""
    svg = tab.page.locator(f"#wf-{name}")
    low, high, top, bottom = (float(svg.get_attribute(f"data-{key}")) for key in ("low", "high", "top", "bottom"))
    path = svg.locator(f".wf-{kind} path").get_attribute("d")
    heights = np.array([float(point.split(",")[1]) for point in path.removeprefix("M").split("L")])
    share = (bottom - heights) / (bottom - top)
    return low * (high / low) ** share if name == "loss" else low + share * (high - low)


def shows(tab: Tab, stored: dict, key: str, time: int) -> None:
    run = stored["runs"][key]
    for name in ("loss", "entk_alignment", "gradient_cosine"):
        # Points stand to a thousandth of 134 units, in which the loss covers some 25 factors of e.
        np.testing.assert_allclose(drawn(tab, name), run[name], rtol=3e-4, atol=3e-5)
    for name in ("phi", "g_tilde"):
        cells = tab.page.locator(f"#wf-{name} rect").evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
        assert cells == run[name][time]
    said = re.search(r"loss (\S+) ± (\S+),", tab.page.locator("#wf-summary").inner_text())
    assert said is not None
    assert [float(number) for number in said.groups()] == [run["loss"][-1], run["loss_se"][-1]]


def test_sliders_show_the_stored_solutions(browser, sliders, stored):
    tab = Tab(browser, sliders)
    last = len(stored["kernel_time"]) - 1
    shows(tab, stored, "fa|0|2", last)
    tab.page.locator("#wf-rho").focus()
    tab.page.keyboard.press("ArrowRight")
    shows(tab, stored, "fa|0.25|2", last)
    tab.page.locator("#wf-richness").press("ArrowLeft")
    tab.page.locator("#wf-time").press("Home")
    shows(tab, stored, "fa|0.25|1", 0)
    gd = stored["runs"]["gd||1"]["entk_alignment"]
    np.testing.assert_allclose(drawn(tab, "entk_alignment", "gd"), gd, atol=3e-5)
    for rule in ("gd", "gln", "hebb"):
        tab.page.locator("#wf-rule").select_option(rule)
        assert tab.page.locator("#wf-rho").is_disabled()
        shows(tab, stored, f"{rule}||1", 0)
    assert all(url.startswith("file:") for url in tab.requests)
    tab.close()


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_sliders_fit_the_screen(browser, sliders, width):
    tab = Tab(browser, sliders, width)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    tab.close()


def test_links_between_pages_lead_somewhere():
    """Files only; the strict build of `make docs` looks at anchors as well."""
    for page in sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            if not re.match(r"[a-z]+:", link):
                assert (page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link}"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The whole site, its tutorials run on the way: some minutes."""
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    subprocess.run([*command, "-d", str(folder)], check=True, cwd=ROOT)
    return folder


@pytest.mark.slow
def test_every_page_opens(browser, site):
    """No console error, every image there, nothing asked of another machine, and a way on from every page."""
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    assert len(pages) == len(list(DOCS.rglob("*.md")))
    for page in pages:
        tab = Tab(browser, page.as_uri())
        tab.page.wait_for_load_state("load")
        broken = tab.page.evaluate("[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)")
        assert broken == [], page
        onward = tab.page.locator("article a[href], .md-footer__link").count()
        assert onward > 0, page
        away = [url for url in tab.requests if not re.match(r"file:|data:|blob:", url)]
        assert away == [], page
        tab.close()
