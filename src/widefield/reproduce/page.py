"""The page: every figure with its settings, and what became of the paper's claims. One file, nothing to fetch."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import xarray as xr

from widefield.atomic import write_file

from .claims import Claim, Verdict
from .measures import distance
from .study import Study

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
img { max-width: 100%; height: auto; display: block; margin: 1rem auto; }
table { border-collapse: collapse; font-size: 14px; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #ddd; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.holds { color: #00664b; font-weight: 600; } .fails { color: #a63c00; font-weight: 600; }
.note { color: #555; font-size: 13px; }
.wide { overflow-x: auto; }
"""


def write_page(
    path: Path,
    studies: Mapping[str, Study],
    data: Mapping[str, xr.Dataset],
    claims: Sequence[tuple[Claim, Verdict]],
    size: str,
) -> None:
    """Write the page; the pictures stand beside it as <figure>.png and go into it as data URIs."""
    body = [
        "<h1>The Influence of Learning Rule on Representation Dynamics in Wide Neural Networks</h1>",
        "<p>The figures and claims of Bordelon &amp; Pehlevan (ICLR 2023), computed by "
        f"<code>widefield reproduce</code> at size <b>{escape(size)}</b>. Networks are in colour with "
        f"bands of two standard errors, theory is dashed black. {_tally(claims)}</p>",
        _navigation(studies),
        *[_figure(path.parent, study, data[name]) for name, study in studies.items()],
        _claims(claims),
    ]
    html = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'  # or a browser asks a server for one
        f"<title>widefield: reproduction</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )
    write_file(path, html.encode())


def _tally(claims: Sequence[tuple[Claim, Verdict]]) -> str:
    held = sum(verdict.holds for _, verdict in claims)
    return f'Of {len(claims)} <a href="#claims">claims</a> {held} hold and {len(claims) - held} do not hold as stated.'


def _navigation(studies: Mapping[str, Study]) -> str:
    links = [f'<a href="#{name}">Figure {name[3:]}</a>' for name in studies]
    return f"<p>{' · '.join([*links, '<a href=#claims>Claims</a>'])}</p>"


def _figure(folder: Path, study: Study, data: xr.Dataset) -> str:
    png = (folder / f"{study.name}.png").read_bytes()
    heading = f"Figure {study.name[3:]}: {escape(study.title)}"
    files = ", ".join(f'<a href="{study.name}.{end}">{end.upper()}</a>' for end in ("png", "pdf", "nc"))
    # Two dots of the picture to one of the screen, so that all figures have letters of one size.
    width = int.from_bytes(png[16:20], "big") // 2
    return f"""<section id="{study.name}">
<h2>{heading}</h2>
<img alt="{heading}" width="{width}" src="data:image/png;base64,{base64.b64encode(png).decode()}">
<p>{escape(study.chosen)} <span class="note">Files: {files}</span></p>
{_settings(json.loads(data.attrs["settings"]))}
{_deviations(study, data)}
</section>"""


def _deviations(study: Study, data: xr.Dataset) -> str:
    """Largest and rms distance of networks from theory per panel, in combined standard errors."""
    rows = []
    for panel in study.panels:
        for name in panel.variables:
            found = distance(data, name)
            rows.append(
                f"<tr><td>({panel.letter}) {escape(panel.title)}</td>"
                f'<td class="number">{found.largest:.2f}</td><td class="number">{found.rms:.2f}</td></tr>'
            )
    if not rows:
        return ""
    numbers = '<th class="number">largest deviation (s.e.)</th><th class="number">rms (s.e.)</th>'
    head = f"<tr><th>networks against theory</th>{numbers}</tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _settings(settings: Mapping[str, Any]) -> str:
    items = "; ".join(f"{escape(name.replace('_', ' '))} {escape(_plain(value))}" for name, value in settings.items())
    return f'<p class="note">Settings: {items}.</p>'


def _plain(value: Any) -> str:
    """Lists with commas, lists of lists in brackets."""
    if not isinstance(value, list):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return ", ".join(f"({_plain(v)})" if isinstance(v, list) else _plain(v) for v in value)


def _claims(claims: Sequence[tuple[Claim, Verdict]]) -> str:
    number = '<th class="number">Number</th>'
    head = f"<tr><th>Claim</th><th>Where</th><th>Measured here</th>{number}<th>Verdict</th></tr>"
    rows = "".join(_claim(claim, verdict) for claim, verdict in claims)
    rule = "A difference counts from two standard errors on; what else a verdict needs is said with the number."
    return (
        f'<section id="claims"><h2>The claims</h2><p>{rule} ± is one standard error.</p>'
        f'<div class="wide"><table>{head}{rows}</table></div></section>'
    )


def _claim(claim: Claim, verdict: Verdict) -> str:
    word, kind = ("holds", "holds") if verdict.holds else ("does not hold", "fails")
    why = f'<br><span class="note">{escape(claim.why)}</span>' if claim.why and not verdict.holds else ""
    note = f'<br><span class="note">{escape(verdict.note)}</span>' if verdict.note else ""
    return (
        f"<tr><td>{escape(claim.text)}{why}</td><td>{escape(claim.where)}</td><td>{escape(verdict.what)}{note}</td>"
        f'<td class="number">{verdict.number}</td><td class="{kind}">{word}</td></tr>'
    )
