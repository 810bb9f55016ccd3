"""What MkDocs calls while it builds the site: code runs in a folder of its own, and equations become MathML."""

from __future__ import annotations

import html
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_HOME = Path.cwd()


def on_pre_build(**_: Any) -> None:
    """Tutorials write files, which must not end up in the checkout."""
    os.chdir(tempfile.mkdtemp(prefix="widefield-docs-"))


def on_post_build(**_: Any) -> None:
    os.chdir(_HOME)


def on_page_content(content: str, **_: Any) -> str:
    """Browsers set MathML themselves: no script, no font, nothing to fetch."""
    return _EQUATION.sub(lambda found: _mathml(html.unescape(found[3]), found[2] == "["), content)


def _mathml(latex: str, block: bool) -> str:
    return convert(latex.strip(), display="block" if block else "inline")
