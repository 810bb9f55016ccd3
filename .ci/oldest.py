"""Print constraints for pip that pin every dependency of pyproject.toml to its lower bound."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
groups = [project["dependencies"], *project["optional-dependencies"].values()]
for requirement in sorted({requirement for group in groups for requirement in group}):
    if match := re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", requirement):
        print(f"{match[1]}=={match[2]}")
    elif not requirement.startswith("widefield["):
        raise SystemExit(f"{requirement!r} in pyproject.toml has no lower bound")
