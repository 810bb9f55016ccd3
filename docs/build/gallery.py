"""Make the pictures and the table of claims in docs/gallery.md: the paper's figures at size `quick`.

    python docs/build/gallery.py FOLDER        # goes on from what `widefield reproduce --quick -o FOLDER` left there

They are kept in the repository, so that building the site does not wait for them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from widefield.reproduce.claims import Claim, Verdict
from widefield.reproduce.run import reproduce

DOCS = Path(__file__).parent.parent


def shrink(source: Path, target: Path) -> None:
    """A picture of 128 colours takes a third of the space."""
    Image.open(source).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)


def table(claims: Sequence[tuple[Claim, Verdict]]) -> str:
    """The claims and what was found, as a table in Markdown."""
    lines = ["| claim | where | measured here | number | holds |", "|---|---|---|---|---|"]
    for claim, verdict in claims:
        text = f"{claim.text}. {claim.why}" if claim.why and not verdict.holds else claim.text
        measured = f"{verdict.what} ({verdict.note})" if verdict.note else verdict.what
        cells = (text, claim.where, measured, str(verdict.number), "yes" if verdict.holds else "**no**")
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    held = sum(verdict.holds for _, verdict in claims)
    return f"Of {len(claims)} claims {held} hold as stated.\n\n" + "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    made = reproduce(size="quick", folder=folder)
    for name in made.data:
        shrink(folder / f"{name}.png", DOCS / "images" / f"{name}.png")
    (DOCS / "build" / "claims.txt").write_text(table(made.claims), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
