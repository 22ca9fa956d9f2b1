"""Parses the table [schemas] of views.toml."""

from __future__ import annotations

import json
import re
from typing import Any

from model.formats.registry import SCHEMA_FORMATS
from model.formats.schema_registry import AUTH_VARIABLE
from model.toml_lines import TomlErrors, table_name


def parse_schemas(table: Any, reader: TomlErrors) -> dict[str, str]:
    """{"registry": URL} or {"folder": name}; empty if there is no table [schemas]."""
    if table is None:
        return {}
    files = " or ".join(f"<id>{schema_format.file_suffix}" for schema_format in SCHEMA_FORMATS)
    expected = f'registry = "http://host:port", or folder = "schemas" with files {files}'
    if not isinstance(table, dict) or len(table) != 1:
        raise reader.error(("schemas",), None, f"set exactly one of: {expected}")
    [(field, value)] = table.items()
    if field not in ("registry", "folder") or not isinstance(value, str) or not value:
        raise reader.error(("schemas",), field, f"expected {expected}")
    if field == "folder":
        return {field: value}
    try:
        return {field: registry_url(value)}
    except ValueError as error:
        raise reader.error(("schemas",), field, str(error)) from None


def registry_url(text: str) -> str:
    """The URL without a slash at its end. Raises ValueError if the text is not a URL, or has a
    password."""
    if "@" in text:  # the message must not have the password
        raise ValueError(
            f"a URL of a registry has no user and password: set user:password in {AUTH_VARIABLE}"
        )
    if not re.fullmatch(r"https?://[^/?#\s]+(/[^\s?#]*)?", text):
        raise ValueError(f'"{text}" is not a URL such as "http://host:8081"')
    return text.rstrip("/")


def schemas_toml(registry: str) -> str:
    """The table [schemas] with the URL of a registry."""
    return f"{table_name('schemas')}\nregistry = {json.dumps(registry)}\n"
