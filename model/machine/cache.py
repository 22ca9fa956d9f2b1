"""The folder for downloaded files."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$QUERYABLE_CACHE``, else ``queryable-topics`` in the user's cache folder."""
    if folder := os.environ.get("QUERYABLE_CACHE"):
        return Path(folder).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "queryable-topics"
