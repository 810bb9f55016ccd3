"""Parts of the installation that only some users need."""

from __future__ import annotations

from importlib.util import find_spec

from .errors import MissingExtraError

# What `pip install 'widefield[extra]'` adds, as modules, with the names of their packages.
EXTRAS = {
    "cli": {"typer": "typer", "rich": "rich"},
    "plot": {"matplotlib": "matplotlib"},
    "digits": {"sklearn": "scikit-learn"},
    "zarr": {"zarr": "zarr"},
    "dask": {"dask": "dask", "distributed": "distributed"},
    "rsa": {"rsatoolbox": "rsatoolbox"},
    "explore": {"panel": "panel", "bokeh": "bokeh"},
}


def has_extra(extra: str) -> bool:
    return not _missing(extra)


def require_extra(extra: str, what: str) -> None:
    """Say how to install what `what` needs, before any work; imports nothing."""
    missing = _missing(extra)
    if missing:
        raise MissingExtraError(
            f"{what} needs {' and '.join(missing)}, not installed here; pip install 'widefield[{extra}]'"
        )


def _missing(extra: str) -> list[str]:
    return [package for module, package in EXTRAS[extra].items() if find_spec(module) is None]
