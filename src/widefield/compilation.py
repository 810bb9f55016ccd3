"""Compiled programs kept on disk between processes."""

from __future__ import annotations

import os
from pathlib import Path

from .atomic import require_path
from .errors import InputError


def compilation_cache(folder: str | Path | None = None) -> Path:
    """Keep compiled programs in `folder`, so that the next process starts in a fraction of the time.

    This sets JAX's own persistent compilation cache, for the whole process, and so is only ever done when you call it;
    the command line calls it for itself. Programs of other versions of JAX or widefield are never mistaken for these.

    Args:
        folder: where to keep them; default `widefield` in the user's cache folder.

    Returns:
        The folder.

    Example:
        >>> wf.compilation_cache()
    """
    import jax

    if folder is not None:
        require_path("folder", folder)
    path = Path(folder) if folder is not None else default_folder()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"folder is {str(path)!r}, which cannot be made ({error.strerror}); allowed: a folder you may write to"
        ) from error
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return path


def default_folder() -> Path:
    """The user's folder for caches, by the convention of the system."""
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "widefield"
