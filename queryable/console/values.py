"""Keys and values as people type and read them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from model.formats.codecs import from_base64url, to_base64url
from model.times import EPOCH
from queryable import Raw, View
from queryable.core.errors import BadUse
from queryable.core.formats import Format, text_of_float

# fields of rows that are epoch ms
_TIMES = ("start", "end", "valid_from", "valid_to")


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
        try:
            return Raw(from_base64url(text.encode()))
        except ValueError as error:
            raise BadUse(f"{text!r} is {error}.") from None
    return typed(text, view.key)


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, (bytes, bytearray)):
        return to_base64url(bytes(value)).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return text_of_float(value)
    if isinstance(value, Raw):
        return plain(value.data)
    if isinstance(value, UUID):
        return str(value)
    return value


# a terminal would obey some of them
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def shown(value: Any) -> str:
    """For a cell of a table."""
    value = plain(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def iso(ms: int | None) -> str | None:
    """Epoch ms as ISO 8601 in UTC, seconds where there are no parts of them; what datetime does
    not know stays a number."""
    if ms is None:
        return None
    try:
        moment = EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")[:-6] + "Z"


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its times as people read them."""
    return {name: (iso(cell) or "") if name in _TIMES else cell for name, cell in row.items()}
