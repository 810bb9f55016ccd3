"""The explorer: settings, jobs, and the page in a real browser."""

from __future__ import annotations

import dataclasses
import re
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
from browsing import Tab

import widefield as wf

pytest.importorskip("panel", reason="the extra `explore` is not installed")
from widefield.explore.jobs import Jobs
from widefield.explore.plots import curve_data, density_data, kernel_frames
from widefield.explore.settings import OPTIONS, RULE_NAMES, Settings
from widefield.explore.solutions import Solutions


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_python_lines_make_the_same_problem(rule):
    settings = Settings(rule=rule, rho=0.3, richness=2.0, depth=2, activation="tanh")
    lines = settings.python()
    names: dict = {}
    exec(lines.partition("theory =")[0], names)
    assert names["problem"] == settings.problem()
    assert all(f"{name}={value}" in lines for name, value in OPTIONS.items())


def test_plots_show_the_numbers_of_the_result(problem, fake_result):
    result = fake_result(problem)
    for layer in (1, 2):
        drawn = curve_data(result, "phi_alignment", layer)
        np.testing.assert_array_equal(drawn["value"], result["phi_alignment"].sel(layer=layer))
        np.testing.assert_allclose(drawn["high"] - drawn["value"], 2 * result["phi_alignment_se"].sel(layer=layer))
        np.testing.assert_array_equal(kernel_frames(result, "phi", layer), result["phi"].sel(layer=layer))
        density = density_data(result, layer)
        assert abs(np.sum(density["density"]) * (density["h"][1] - density["h"][0]) - 1) < 1e-9
    np.testing.assert_array_equal(kernel_frames(result, "entk", 1), result["entk"])
    assert len(curve_data(None, "loss", 1)["value"]) == 0


def test_the_latest_order_wins_and_errors_are_told():
    ended, shown, started, go_on = [], [], threading.Event(), threading.Event()
    done = threading.Semaphore(0)

    def end(reason):
        ended.append(reason)
        done.release()

    jobs = Jobs(lambda function: function(), lambda share, message: None, end)

    def slow(watch):
        started.set()
        assert go_on.wait(10)
        watch.update(1, 2)  # the order is no longer the latest: this ends it
        return lambda: shown.append("slow")

    def refused(watch):
        raise wf.errors.InputError("dt is 0")

    jobs.start(slow)
    assert started.wait(10)
    jobs.start(lambda watch: lambda: shown.append("quick"))
    go_on.set()
    assert done.acquire(timeout=10)
    jobs.start(refused)
    assert done.acquire(timeout=10)
    jobs.cancel()
    jobs.close()
    assert shown == ["quick"]
    assert ended == ["", "dt is 0", "cancelled"]


def test_what_was_solved_is_kept_and_what_is_begun_is_waited_for(monkeypatch, problem, fake_result):
    calls, go_on = [], threading.Event()

    def solve(asked, progress, **options):
        calls.append(asked.richness)
        assert options == OPTIONS
        assert asked.richness != 1.0 or go_on.wait(10)
        return fake_result(problem, seed=len(calls))

    class Watch:
        def update(self, done, total, message=""):
            assert message == "starting"
            go_on.set()

    monkeypatch.setattr(wf, "solve", solve)
    solutions = Solutions()
    solutions.begin(Settings(richness=1.0))
    other = solutions.solve(Settings(richness=2.0), Watch())  # does not wait
    assert not go_on.is_set()
    first = solutions.solve(Settings(richness=1.0), Watch())
    assert go_on.is_set()
    assert solutions.solve(Settings(richness=1.0), Watch()) is first
    assert solutions.solve(Settings(richness=2.0), Watch()) is other
    assert sorted(calls) == [1.0, 2.0]


# In the browser


@pytest.fixture(scope="module")
def explorer():
    from widefield.explore.serve import start

    running = start()
    yield running
    running.stop()


def test_a_wrong_token_is_forbidden(explorer):
    home, _, token = explorer.url.rpartition("/")
    assert home.startswith("http://127.0.0.1:")
    assert len(token) >= 20
    assert urllib.request.urlopen(explorer.url, timeout=60).status == 200
    for path in ("", "/", "/wrong", "/wrong/ws", "/" + token[:-1]):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(home + path, timeout=60)
        assert refused.value.code == 403


class Explored(Tab):
    """A tab with the explorer's curves."""

    def loss(self, who: str = "A") -> np.ndarray:
        script = f"""() => {{
            const source = window.Bokeh?.documents?.[0]?.get_model_by_name('loss {who}')
            return source ? Array.from(source.data.get ? source.data.get('value') : source.data.value) : [] }}"""
        return np.array(self.page.evaluate(script))

    def wait(self, good, seconds: int = 120) -> np.ndarray:
        for _ in range(10 * seconds):
            if good(found := self.loss()):
                return found
            self.page.wait_for_timeout(100)
        raise AssertionError("the curve did not come")


def expected(**settings) -> np.ndarray:
    problem = dataclasses.replace(Settings(), **settings).problem()
    return wf.solve(problem, **OPTIONS)["loss"].values


def test_a_slider_moves_the_curve_to_what_solve_says(explorer, browser):
    tab = Explored(browser, explorer.url)
    first = tab.wait(lambda loss: len(loss) > 0)
    np.testing.assert_allclose(first, expected(), rtol=1e-9)
    other = Explored(browser, explorer.url + "?richness=3.0")  # a link with settings, in a second tab
    np.testing.assert_allclose(other.wait(lambda loss: len(loss) > 0), expected(richness=3.0), rtol=1e-9)
    np.testing.assert_array_equal(tab.loss(), first)
    handles = tab.page.locator(".noUi-handle")
    richness = next(h for h in handles.all() if h.get_attribute("aria-valuemax") == "9.0")  # ten values
    richness.focus()
    richness.press("ArrowRight")
    moved = tab.wait(lambda loss: len(loss) > 0 and loss[-1] != first[-1])
    np.testing.assert_allclose(moved, expected(richness=1.5), rtol=1e-9)
    assert re.search(r"richness=1\.5", tab.page.url)
    home = explorer.url.rpartition("/")[0]
    for url in tab.requests + other.requests:
        assert url.startswith((home, "ws" + home[4:], "blob:" + home, "data:")), url
    tab.close()
    other.close()


@pytest.mark.slow
def test_light_and_dark_with_the_same_settings(explorer, browser):
    tab = Explored(browser, explorer.url + "?richness=3.0")
    light = tab.wait(lambda loss: len(loss) > 0)

    def brightness() -> int:
        colour = tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return sum(int(number) for number in re.findall(r"\d+", colour)[:3])

    assert brightness() > 600
    tab.page.get_by_role("button", name="light / dark").click()
    tab.page.wait_for_url("**theme=dark**")
    np.testing.assert_array_equal(tab.wait(lambda loss: len(loss) > 0), light)
    assert brightness() < 200
    tab.close()


def test_cancel(explorer, browser):
    tab = Explored(browser, explorer.url + "?depth=2&points=7")
    cancel = tab.page.get_by_role("button", name="Cancel")
    tab.page.wait_for_timeout(500)
    cancel.click(timeout=60_000)
    tab.page.get_by_text("cancelled").wait_for(timeout=60_000)
    assert len(tab.loss()) == 0
    tab.close()
