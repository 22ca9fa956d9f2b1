"""Objects that views.toml names as "package.module:Name": custom stores and formats, and Spark's
views."""

from __future__ import annotations

import importlib
import re
from typing import Any

from model.problems import ConfigurationError

_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
_FILE = re.compile(r"(?P<file>.+\.py)(:(?P<name>[A-Za-z_]\w*))?", re.ASCII | re.DOTALL)


def is_class_path(text: str) -> bool:
    """Whether the text has the form `package.module:Class`."""
    return _CLASS.fullmatch(text) is not None


def is_view_reference(text: str) -> bool:
    """Whether the text has the form `package.module:VIEW`, `file.py` or `file.py:VIEW`."""
    return is_class_path(text) or _FILE.fullmatch(text) is not None


def file_reference(text: str) -> tuple[str, str] | None:
    """The file and the name in it (VIEW if none is given); None if the text names no file."""
    match = _FILE.fullmatch(text)
    return None if match is None else (match["file"], match["name"] or "VIEW")


def import_class(path: str) -> Any:
    """Import the class. Raises ConfigurationError; the caller adds the field that names the
    class."""
    module_name, _, class_name = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except Exception as e:  # also an error that the module itself raises
        advice = ". Put its folder on PYTHONPATH" if isinstance(e, ModuleNotFoundError) else ""
        raise ConfigurationError(f"{path} cannot be imported: {e}{advice}") from e
