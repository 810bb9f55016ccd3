"""The documentation: its Python runs, every page is in the site, every public name in the reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

import widefield as wf

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^([ ]*)```python[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
# Each of these takes more than a few seconds, most of it to compile.
SLOW = {
    "README.md",
    *(
        f"docs/{name}.md"
        for name in ("your_own_rule", "fixed_point", "fluctuations", "lazy", "recurrent", "sweeps", "which_rule")
    ),
    *(f"docs/tutorials/{page.name}" for page in (DOCS / "tutorials").glob("*.md")),
}


def blocks_of(page: Path) -> list[str]:
    return [dedent(block) for _, block in BLOCK.findall(page.read_text(encoding="utf-8"))]


PAGES = [page for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if blocks_of(page)]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if name in SLOW else (), id=name)
        for page in PAGES
        for name in [page.relative_to(ROOT).as_posix()]
    ],
)
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    """A page's blocks run one after another in one namespace, as a reader who copies them all would run them."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(__import__("sys").modules, "page", module)  # a rule of a page is found again by its name
    for number, block in enumerate(blocks_of(page), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), vars(module))


def test_every_slow_page_exists():
    assert {page.relative_to(ROOT).as_posix() for page in PAGES} >= SLOW


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    for page in DOCS.rglob("*.md"):
        assert re.search(rf"\b{re.escape(page.relative_to(DOCS).as_posix())}$", navigation, re.MULTILINE), page


def test_every_page_has_a_way_on():
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        included = "--8<--" in text or ":::" in text
        assert included or re.search(r"\]\([\w./]+\.md[)#]", text), page


def test_links_lead_somewhere():
    """Links of README and CONTRIBUTING, which the strict build of the site does not see."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (ROOT / target).exists(), f"{page.name}: {target}"


def test_the_reference_has_every_public_name():
    reference = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    modules = {"datasets": wf.datasets, "rules": wf.rules, "lazy": wf.lazy, "exact": wf.exact}
    names = [f"wf.{name}" for name in wf.__all__ if name not in {*modules, "errors", "fluctuations"}]
    names += [f"wf.datasets.{name}" for name in wf.datasets.GENERATORS]
    names += [f"wf.rules.{rule.__name__}" for rule in wf.rules.RULES.values()]
    names += ["wf.lazy.kernels", "wf.lazy.predict", "wf.lazy.angle_kernel", "wf.exact.two_layer_linear"]
    names += ["wf.fluctuations.kernel_covariance"]
    kinds = (Exception, Warning)
    errors = {
        name: kind for name, kind in vars(wf.errors).items() if isinstance(kind, type) and issubclass(kind, kinds)
    }
    names += [f"wf.errors.{name}" for name in errors]
    assert [name for name in names if f'heading: "{name}"' not in reference] == []


# One or more names, then a colon: a line of a list of arguments.
ENTRY = re.compile(r"^\s*(\w+(?:, \w+)*):\s", re.MULTILINE)


def described(text: str) -> set[str]:
    """The names in the Args and Attributes of a docstring."""
    blocks = [
        block for block in re.split(r"\n\s*\n", text) if re.search(r"^\s*(Args|Attributes):", block, re.MULTILINE)
    ]
    return {name for block in blocks for names in ENTRY.findall(block) for name in names.split(", ")}


def documented(name: str) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """What the site shows for a name: itself, and a class's own methods that have a docstring."""
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module), attribute, None) or import_module(name)
    if inspect.ismodule(found):
        for key in found.__all__:
            yield from documented(f"{name}.{key}")
        return
    yield name, found, found.__doc__ or ""
    if inspect.isclass(found):
        for key, member in vars(found).items():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and not key.startswith("_") and function.__doc__:
                yield f"{name}.{key}", function, function.__doc__


def test_the_reference_describes_every_argument():
    reference = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
    missing = []
    for name in re.findall(r"^::: (\S+)", reference, re.MULTILINE):
        for label, found, text in documented(name):
            assert text, f"{label} has no docstring"
            if "arguments as in `wf.solve`" in text:
                assert set(inspect.signature(found).parameters) <= described(wf.solve.__doc__ or "")
            elif not (inspect.isclass(found) and issubclass(found, BaseException)):
                parameters = inspect.signature(found).parameters.values()
                arguments = {one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
                missing += [
                    f"{label}: {argument}" for argument in sorted(arguments - described(text) - {"self", "cls"})
                ]
    assert missing == []
