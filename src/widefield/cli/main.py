"""The entry point of the `widefield` command."""

from __future__ import annotations


def main() -> None:
    from .app import app

    app(prog_name="widefield")


if __name__ == "__main__":
    main()
