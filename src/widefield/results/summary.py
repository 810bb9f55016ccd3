"""A result in a few lines, for a terminal and for Jupyter."""

from __future__ import annotations

import html
import textwrap
from typing import Any

from ..errors import printable
from ..extras import has_extra
from .estimate import Estimate
from .result import Result
from .stored import read_header

# What the table shows: variable and label, the layer being added where there is one.
_ROWS = (
    ("loss", "loss"),
    ("accuracy", "accuracy"),
    ("test_loss", "test loss"),
    ("test_accuracy", "test accuracy"),
    ("entk_alignment", "alignment of K with yyᵀ"),
    ("phi_alignment", "alignment of Φ with yyᵀ"),
    ("gradient_cosine", "gradient cosine"),
)


def summarise(result: Result) -> str:
    """What was asked, how it was solved and what was learnt, as plain text."""
    lines = [f"widefield result, method {result.method}"]
    for name, value in description(result):
        lines += textwrap.wrap(f"  {name:<10}{value}", width=100, subsequent_indent=" " * 12)
    rows = progress_rows(result)
    if rows:
        width = max(len(label) for label, _, _ in rows)
        start = max(len("start"), *(len(first) for _, first, _ in rows))
        lines += ["", f"  {'':<{width}}  {'start':<{start}}  end"]
        lines += [f"  {label:<{width}}  {first:<{start}}  {last}" for label, first, last in rows]
    return "\n".join(lines)


def summarise_html(result: Result) -> str:
    """The same as two small HTML tables, and a picture where Matplotlib is installed."""
    about = "".join(_html_row(name, value) for name, value in description(result))
    rows = progress_rows(result)
    learnt = _html_row("", "start", "end", tag="th") + "".join(_html_row(*row) for row in rows) if rows else ""
    title = f"<b>widefield result</b>, method <code>{html.escape(result.method)}</code>"
    return f"<div>{title}<table>{about}</table><table>{learnt}</table>{_picture(result)}</div>"


def _picture(result: Result) -> str:
    if not has_extra("plot"):
        return ""
    from .pictures import thumbnail

    small = thumbnail(result)
    return "" if small is None else small.to_html("loss, alignments and cosines along training")


def description(result: Result) -> list[tuple[str, str]]:
    """What was asked and how it was solved, as (name, value) pairs."""
    header = read_header(result.runs.attrs)
    network, rule, training = (dict(header[name]) for name in ("network", "rule", "training"))
    depth = network.pop("depth", 1)
    layers = f"{depth} hidden layer{'s' if depth != 1 else ''}"
    kind, activation = str(network.pop("kind")).upper(), network.pop("activation", "")
    steps, dt, loss = (training.pop(name, "?") for name in ("steps", "dt", "loss"))
    run = {**result.info, **({"seed": int(result.runs.attrs["seed"])} if "seed" in result.runs.attrs else {})}
    pairs = [
        ("network", f"{kind}, {layers}, {activation}{_options(network, defaults=(False,))}"),
        ("rule", f"{rule.pop('name')}{_options(rule)}"),
        ("richness", _short(header["richness"])),
        ("data", _data(result)),
        (
            "training",
            f"{steps} steps of {_short(dt)}, {loss} loss{_options(training, defaults=(0, 'euler', 'random', 'all'))}",
        ),
        ("run", ", ".join(f"{name} {_short(value)}" for name, value in run.items() if _is_scalar(value))),
    ]
    return [(name, printable(value)) for name, value in pairs if value]


def progress_rows(result: Result) -> list[tuple[str, str, str]]:
    """(label, value at the start, value ± standard error at the end) of every number that training moves."""
    rows = []
    for name, label in _ROWS:
        if name not in result:
            continue
        layers = result.dataset["layer"].values if "layer" in result[name].dims else [None]
        for layer in layers:
            chosen = {} if layer is None else {"layer": layer}
            first, last = (_estimate(result, name, {"time": t}, chosen) for t in (0, -1))
            where = "last frame" if "frame" in result[name].dims else f"layer {layer}"
            rows.append((label if layer is None else f"{label}, {where}", first, last))
    return rows


def _estimate(result: Result, name: str, index: dict[str, int], chosen: dict[str, Any]) -> str:
    index = index | {dim: -1 for dim in ("frame", "read") if dim in result[name].dims}
    value, error = (
        float(result[variable].isel(index).sel(chosen)) if variable in result else float("nan")
        for variable in (name, f"{name}_se")
    )
    return str(Estimate(value, error))


def final_value(result: Result, name: str) -> str:
    """The last value of a time course, with its standard error if it has one."""
    return _estimate(result, name, {"time": -1}, {})


def _data(result: Result) -> str:
    sizes = result.dataset.sizes
    parts = [f"{sizes[d]} {name}" for d, name in (("sample", "points"), ("test_sample", "test points")) if d in sizes]
    if parts and "point" in result.dataset.coords:
        parts[0] += " at a time"
    return ", ".join([*parts, f"{sizes.get('output', 1)} output{'s' if sizes.get('output', 1) > 1 else ''}"])


def _options(values: dict[str, Any], defaults: tuple[Any, ...] = ()) -> str:
    shown = [f"{name} {_short(value)}" for name, value in values.items() if not any(value == d for d in defaults)]
    return f" ({', '.join(shown)})" if shown else ""


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _html_row(*cells: str, tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag} style='text-align:left'>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
