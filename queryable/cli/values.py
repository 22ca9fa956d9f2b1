"""Keys and values as people type and read them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from model.formats.base64url import from_base64url, to_base64url
from model.formats.float64 import float_text
from model.formats.format import WrittenJson
from model.times import EPOCH
from queryable import Raw, Unreadable, View
from queryable.client.protocol.errors import BadUse
from queryable.client.protocol.formats import Format

# fields of rows that are epoch ms
_TIME_FIELDS = ("start", "end", "valid_from", "valid_to", "timestamp")
# a terminal would interpret some of them
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def parse_value(text: str, format_: Format, name: str) -> Any:
    """A value of the format, from text; bytes are typed as text. `name`: the name of the argument
    or option. Raises BadUse."""
    try:
        return format_.python.from_typed(text)
    except ValueError:
        raise BadUse(f"{name} {text!r} is not a valid {format_.name}.") from None


def parse_key(text: str, view: View, is_raw: bool = False) -> Any:
    """A key of the view; with `is_raw`, from the base64url of its record bytes. Raises BadUse."""
    if is_raw:
        try:
            return Raw(from_base64url(text.encode()))
        except ValueError as error:
            raise BadUse(f"Invalid key {text!r}: {error}.") from None
    return parse_value(text, view.key, "KEY")


def json_value(value: Any) -> Any:
    """The value as in the JSON of the API."""
    if isinstance(value, (bytes, bytearray)):
        return to_base64url(bytes(value)).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return float_text(value)
    if isinstance(value, Raw):
        return {"@base64url": to_base64url(value.data).decode()}
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Unreadable):
        return {"unreadable": value.to_json()}
    if isinstance(value, WrittenJson):
        return json.loads(value.text)
    return value


def cell_text(value: Any) -> str:
    """The value as a cell of a table, without control characters."""
    value = json_value(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text)


def printable(text: str, kept: str = "") -> str:
    """The text without control characters, except `kept`: a terminal would obey them."""
    return _CONTROL_CHARACTERS.sub(
        lambda match: match[0] if match[0] in kept else f"\\x{ord(match[0]):02x}", text
    )


def json_text(value: Any) -> str:
    """The value as JSON on one line. The control characters that JSON allows in texts (U+007F to
    U+009F) are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def number_text(number: int | None) -> str:
    """A number with commas; None is unknown."""
    return "unknown" if number is None else f"{number:,}"


def iso_time(ms: int | None) -> str | None:
    """Epoch ms as ISO 8601 in UTC, in seconds if they are whole.

    A time that datetime cannot represent stays a number.
    """
    if ms is None:
        return None
    try:
        moment = EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")[:-6] + "Z"


def as_item(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row as in the JSON of the API: with `unreadable` instead of a value that cannot be
    read."""
    value = row.get("value")
    if not isinstance(value, Unreadable):
        return row
    cells = {name: cell for name, cell in row.items() if name != "value"}
    return {**cells, "unreadable": value.to_json()}


def with_iso_times(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its times in ISO 8601."""
    return {
        name: (iso_time(cell) or "") if name in _TIME_FIELDS else cell for name, cell in row.items()
    }


def seconds_text(seconds: float) -> str:
    """An estimate, such as `about 3 min`."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"about {seconds / size:,.0f} {unit}"
    return f"about {seconds:.0f} s" if seconds >= 1 else "less than 1 s"
