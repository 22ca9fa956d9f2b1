"""Classes that views.toml names as "package.module:Class": custom stores and custom formats."""

from __future__ import annotations

import importlib
import re
from typing import Any

from model.problems import ConfigurationError

_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


def is_class_path(text: str) -> bool:
    """Whether the text has the form `package.module:Class`."""
    return _CLASS.fullmatch(text) is not None


def import_class(path: str, setting: str) -> Any:
    """The class; ConfigurationError. `setting`: what names it in views.toml, for the error."""
    module_name, _, class_name = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except Exception as e:  # of the module, too
        raise ConfigurationError(f'{setting} = "{path}" cannot be imported: {e}') from e
