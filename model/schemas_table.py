"""Parses the table [schemas] of views.toml."""

from __future__ import annotations

import re
from typing import Any

from model.formats.registry import SCHEMA_FORMATS
from model.toml_lines import TomlErrors


def parse_schemas(table: Any, reader: TomlErrors) -> dict[str, str]:
    """{"registry": URL} or {"folder": name}; empty if there is no table [schemas]."""
    if table is None:
        return {}
    files = " or ".join(f"<id>{each.file_suffix}" for each in SCHEMA_FORMATS)
    expected = f'registry = "http://host:port", or folder = "schemas" with files {files}'
    if not isinstance(table, dict) or len(table) != 1:
        raise reader.error(("schemas",), None, f"set exactly one of: {expected}")
    [(field, value)] = table.items()
    if field not in ("registry", "folder") or not isinstance(value, str) or not value:
        raise reader.error(("schemas",), field, f"expected {expected}")
    if field == "registry" and not re.fullmatch(r"https?://[^/@\s]+(/[^@\s?#]*)?", value):
        raise reader.error(
            ("schemas",), field, f'"{value}" is not a URL such as "http://host:8081"'
        )
    return {field: value.rstrip("/") if field == "registry" else value}
