"""Results and progress in a notebook."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from widefield import progress
from widefield.results.pictures import thumbnail


@pytest.fixture
def shown(monkeypatch):
    """A stand-in for a Jupyter kernel; what it was asked to display, in order."""
    seen: list[str] = []

    def display(text, display_id):
        seen.append(text)
        return SimpleNamespace(update=seen.append)

    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    ipython.display = ModuleType("IPython.display")  # type: ignore[attr-defined]
    ipython.display.HTML = str
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setattr(progress.NotebookBar, "EVERY", 0.0)
    return seen


def test_a_notebook_has_a_bar_that_fills_and_goes(shown):
    with progress.make_progress(None) as bar:
        bar.update(1, 4, "a < b")
        bar.update(4, 4)
    assert shown[0] == "<progress value='1' max='4'></progress> 1/4 a &lt; b"
    assert "value='4'" in shown[1]
    assert shown[2:] == [""]


def test_a_script_has_none(monkeypatch, shown):
    sys.modules["IPython"].get_ipython = lambda: None  # type: ignore[attr-defined]
    with progress.make_progress(None) as bar:
        bar.update(1, 4)
    assert shown == []


def test_silence(shown):
    with progress.make_progress(False) as bar:
        bar.update(1, 4)
    assert shown == []


def test_a_result_shows_its_curves(problem, fake_result, monkeypatch):
    result = fake_result(problem)
    page = result._repr_html_()
    (picture,) = re.findall(r"<img src=\"data:image/png;base64,([^\"]+)\"", page)
    assert 1000 < len(picture) < 100_000
    small = thumbnail(result)
    assert small is not None
    drawn = small.axes[0].lines[0].get_ydata()
    assert list(drawn) == list(result["loss"].values)
    monkeypatch.setattr("widefield.results.summary.has_extra", lambda extra: False)
    assert "<img" not in result._repr_html_()


def test_without_a_terminal_progress_goes_to_the_log(monkeypatch, caplog, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.make_progress(None) as bar:
        bar.update(1, 4, "not asked for")
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")
    caplog.set_level("INFO", "widefield")
    with progress.make_progress(None) as bar:
        for done, now[0] in enumerate((0.0, 1.0, 9.9, 10.0, 12.0), start=1):
            bar.update(done, 5, "training")
    assert caplog.messages == ["1/5 training", "4/5 training"]
    with progress.make_progress(False) as bar:
        bar.update(1, 4)
    assert len(caplog.messages) == 2
