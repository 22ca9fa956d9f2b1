"""Keys and values as people type and read them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any
from uuid import UUID

from queryable import Raw, View
from queryable.core.errors import BadUse
from queryable.core.formats import Format


def typed(text: str, of: Format) -> Any:
    """What was typed, as a value of the format; BadUse. Bytes are typed as text."""
    try:
        match of.name:
            case "string":
                return text
            case "bytes":
                return text.encode("utf-8", "surrogateescape")
            case "int32" | "int64":
                return int(text)
            case "float64":
                return float(text)
            case "uuid":
                return UUID(text)
            case _:
                return json.loads(text)
    except ValueError:
        raise BadUse(f"{text!r} is no {of.name}.") from None


def typed_key(text: str, view: View, is_raw: bool = False) -> Any:
    """A key; with `is_raw` base64url of its record bytes. BadUse."""
    if is_raw:
        from backend.core.codecs import from_base64url

        try:
            return Raw(from_base64url(text.encode()))
        except ValueError as error:
            raise BadUse(f"{text!r} is {error}.") from None
    return typed(text, view.key)


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, (bytes, bytearray)):
        return urlsafe_b64encode(value).rstrip(b"=").decode()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Raw):
        return plain(value.data)
    if isinstance(value, UUID):
        return str(value)
    return value


def shown(value: Any) -> str:
    """For a cell of a table."""
    value = plain(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
