"""Format `uuid`: the 36 characters of a UUID, as Kafka's `UUIDSerializer` writes them.

Some producers write capitals (Swift's `uuidString`, SQL Server). To Kafka, these are other keys:
they may be in other partitions, and are compacted separately. So a key is looked up exactly as it
is written. If the view has no such key, the key in lower case is looked up.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from model.formats.codec import Codec
from model.formats.format import Format, OpenApi, PythonForm, document

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


class UuidCodec(Codec):
    name = "uuid"
    size = 36
    json_is_exact = False

    def check(self, raw: bytes) -> None:
        if len(raw) != 36 or not _UUID.fullmatch(raw.decode("latin-1")):
            raise ValueError("not a UUID of 36 characters (8-4-4-4-12 hexadecimal digits)")

    def other_key(self, raw: bytes) -> bytes | None:
        # Java's UUIDSerializer writes lower case
        lower = raw.lower()
        return None if lower == raw else lower

    def to_json(self, raw: bytes) -> bytes:
        return b'"' + raw + b'"'

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        if not isinstance(value, str):
            raise ValueError("not a JSON string, which the format uuid needs")
        return value.encode(), False


def _key_from_json(text: str) -> uuid.UUID | str:
    """A UUID; the text itself if it is not in lower case: `uuid.UUID` would lose the capitals."""
    value = uuid.UUID(text)
    return value if str(value) == text else text


class Uuid(Format):
    name = "uuid"
    codec = UuidCodec()
    python = PythonForm(
        types=(uuid.UUID, str),
        to_text=lambda value: str(value).encode(),
        to_json=lambda value: document(str(value)),
        from_json=uuid.UUID,
        key_from_json=_key_from_json,
        from_typed=_key_from_json,
    )
    openapi = OpenApi(
        "UUIDSerde", {"type": "string", "format": "uuid"}, "123e4567-e89b-12d3-a456-426614174000"
    )
    serdes = frozenset(("UUIDSerde", "StringSerde"))
