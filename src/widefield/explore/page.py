"""The page: widgets that say what to solve, plots of what came out, and ways to take it along."""

from __future__ import annotations

import dataclasses
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import panel as pn

import widefield as wf

from ..results.result import Result
from .jobs import Jobs, Watch
from .plots import CURVES, KERNELS, Curves, Density, Kernel, kernel_frames
from .settings import ACTIVATIONS, DATA, RICHNESS, RULE_NAMES, STEP_SIZES, Settings, has_rho
from .solutions import SOLUTIONS

NO_RULE = "none"
# On a phone the sliders stand above the plots, and scroll by themselves.
NARROW = """@media (max-width: 700px) {
  #content { flex-direction: column; overflow-y: auto; }
  #sidebar { width: 100% !important; max-height: 40vh; flex: none; }
  #main { width: 100%; margin-left: 0 !important; }
}"""
# The address holds all settings, so that the page comes back as it was.
OTHER_THEME = """
const address = new URL(window.location.href)
address.searchParams.set('theme', address.searchParams.get('theme') == 'dark' ? 'default' : 'dark')
window.location.href = address.href"""
DEFAULT = Settings()
WIDE: dict[str, Any] = {"sizing_mode": "stretch_width"}


def make_widgets() -> dict[str, Any]:
    """One widget per field of `Settings`, by its name."""
    widgets = pn.widgets
    made: dict[str, Any] = {
        "data": widgets.Select(name="data", options=list(DATA), value=DEFAULT.data),
        "points": widgets.IntSlider(name="points", start=2, end=20, value=DEFAULT.points),
        "dimension": widgets.IntSlider(name="dimension", start=2, end=100, value=DEFAULT.dimension),
        "data_seed": widgets.IntInput(name="seed of the data", start=0, value=DEFAULT.data_seed),
        "depth": widgets.IntSlider(name="hidden layers", start=1, end=4, value=DEFAULT.depth),
        "activation": widgets.Select(name="activation", options=list(ACTIVATIONS), value=DEFAULT.activation),
        "rule": widgets.Select(name="rule A", options=list(RULE_NAMES), value=DEFAULT.rule),
        "rho": widgets.FloatSlider(name="ρ", start=0.0, end=1.0, step=0.05, value=DEFAULT.rho),
        "richness": widgets.DiscreteSlider(name="richness γ₀", options=list(RICHNESS), value=DEFAULT.richness),
        "dt": widgets.DiscreteSlider(name="step dt", options=list(STEP_SIZES), value=DEFAULT.dt),
        "steps": widgets.IntSlider(name="steps", start=10, end=200, step=10, value=DEFAULT.steps),
    }
    for widget in made.values():
        widget.param.update(**WIDE)
    return made


class Explorer:
    """One page; every browser tab has its own."""

    def __init__(self) -> None:
        self.widgets = make_widgets()
        self.rule_b = pn.widgets.Select(name="rule B", options=[NO_RULE, *RULE_NAMES], **WIDE)
        self.width = pn.widgets.IntSlider(name="width of networks", start=50, end=2000, step=50, value=500, **WIDE)
        self.layer = pn.widgets.IntSlider(name="layer shown", start=1, end=4, value=1)
        self.kernel = pn.widgets.Select(name="kernel shown", options={v: k for k, v in KERNELS.items()})
        self.time = pn.widgets.Player(
            name="step", start=0, end=DEFAULT.steps, value=DEFAULT.steps, loop_policy="once", show_loop_controls=False
        )
        self.train = pn.widgets.Button(name="Train networks", button_type="primary")
        self.cancel = pn.widgets.Button(name="Cancel", button_type="warning", disabled=True)
        self.status = pn.pane.Str("", name="status")
        self.bar = pn.indicators.Progress(value=0, max=100, **WIDE)
        self.lines = pn.widgets.CodeEditor(value="", language="python", readonly=True, height=230, theme="chrome")
        self.curves = [Curves(name) for name in CURVES]
        self.density, self.kernels = Density(), {who: Kernel(who) for who in ("A", "B")}
        self.results: dict[str, Result] = {}
        document = pn.state.curdoc
        later = document.add_next_tick_callback if document is not None else lambda function: function()
        self.jobs = Jobs(later, self._progress, self._ended)
        self._connect()

    def _connect(self) -> None:
        for name, widget in {**self.widgets, "rule_b": self.rule_b}.items():
            # Sliders say their value when they are let go, not on the way.
            throttled = "value_throttled" in widget.param and name not in ("richness", "dt")
            widget.param.watch(self._changed, "value_throttled" if throttled else "value")
            if pn.state.location is not None:
                pn.state.location.sync(widget, {"value": name})
        for widget in (self.layer, self.kernel, self.time):
            widget.param.watch(lambda _: self._draw(), "value")
        self.train.on_click(lambda _: self._train())
        self.cancel.on_click(lambda _: self.jobs.cancel())
        if pn.state.location is not None:
            for widget, name in ((self.layer, "layer"), (self.kernel, "kernel"), (self.width, "width")):
                pn.state.location.sync(widget, {"value": name})
        pn.state.on_session_destroyed(lambda _: self.jobs.close())

    @property
    def settings(self) -> Settings:
        return Settings(**{name: widget.value for name, widget in self.widgets.items()})

    def solve(self) -> None:
        """Theory for rule A, and for rule B if there is one."""
        asked = {"A": self.settings}
        if self.rule_b.value != NO_RULE:
            asked["B"] = dataclasses.replace(self.settings, rule=self.rule_b.value)
        self.widgets["rho"].disabled = not any(has_rho(settings.rule) for settings in asked.values())
        self.lines.value = self.settings.python()

        def work(watch: Watch) -> Callable[[], None]:
            found = {who: SOLUTIONS.solve(settings, watch) for who, settings in asked.items()}
            return lambda: self._show(found)

        self.cancel.disabled = False
        self.jobs.start(work)

    def _train(self) -> None:
        settings, width = self.settings, self.width.value

        def work(watch: Watch) -> Callable[[], None]:
            found = wf.simulate(settings.problem(), width=width, seeds=4, progress=watch)  # type: ignore[arg-type]
            return lambda: self._show({**self.results, "networks": found})

        self.cancel.disabled = False
        self.jobs.start(work)

    def _changed(self, _: Any) -> None:
        self.solve()

    def _show(self, results: dict[str, Result]) -> None:
        self.results = results
        steps = results["A"].dataset.sizes["time"] - 1
        self.time.end = steps
        self.time.value = steps
        self._draw()

    def _draw(self) -> None:
        layer = self.layer.value
        for plot in (*self.curves, self.density):
            for who in ("A", "B", "networks"):
                plot.show(who, self.results.get(who), layer)
        # Beside rule A stands rule B, or the networks where there is no B.
        beside = "B" if "B" in self.results else "networks"
        self.kernels["B"].figure.visible = beside in self.results
        for place, who in (("A", "A"), ("B", beside)):
            if who in self.results:
                frames = kernel_frames(self.results[who], self.kernel.value, layer)
                title = f"{KERNELS[self.kernel.value]}, {who}, step {self.time.value}"
                self.kernels[place].show(frames, self.time.value, title)

    def _progress(self, share: float, message: str) -> None:
        self.bar.value, self.status.object = round(100 * share), message

    def _ended(self, reason: str) -> None:
        self.cancel.disabled, self.bar.value = True, 0
        self.status.object = reason or "ready"

    def downloads(self) -> pn.Column:
        def button(label: str, name: str, callback: Callable[[], Any]) -> pn.widgets.FileDownload:
            return pn.widgets.FileDownload(callback=callback, filename=name, label=label, **WIDE)

        return pn.Column(
            button("Data (.nc)", "theory.nc", self._netcdf),
            button("Problem (.toml)", "problem.toml", lambda: io.StringIO(self.settings.problem().to_toml())),
            button("Python", "problem.py", lambda: io.StringIO(self.settings.python())),
            button("Picture (.png)", "theory.png", self._picture),
        )

    def _netcdf(self) -> io.BytesIO | None:
        if "A" not in self.results:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "theory.nc"
            self.results["A"].save(path)
            return io.BytesIO(path.read_bytes())

    def _picture(self) -> io.BytesIO | None:
        if "A" not in self.results:
            return None
        buffer = io.BytesIO()
        self.results["A"].plot().savefig(buffer, format="png")
        buffer.seek(0)
        return buffer


def make_page() -> Any:
    """The page of one browser tab; it starts to solve at once."""
    explorer = Explorer()
    template: Any = pn.template.BootstrapTemplate(title="widefield", sidebar_width=320)
    template.config.raw_css.append(NARROW)
    shade = pn.widgets.Button(name="light / dark", button_type="light", align="center")
    shade.js_on_click(code=OTHER_THEME)
    template.header.append(shade)
    template.sidebar.extend(
        [*explorer.widgets.values(), explorer.rule_b, explorer.width, explorer.train, explorer.cancel,
         explorer.downloads()]
    )  # fmt: skip
    curves = pn.FlexBox(*(plot.figure for plot in explorer.curves))
    kernels = pn.FlexBox(*(plot.figure for plot in (*explorer.kernels.values(), explorer.density)))
    template.main.extend(
        [explorer.bar, explorer.status, curves, pn.FlexBox(explorer.layer, explorer.kernel, explorer.time), kernels,
         pn.Card(explorer.lines, title="The same in Python", collapsed=True, **WIDE)]
    )  # fmt: skip
    pn.state.onload(explorer.solve)
    return template
