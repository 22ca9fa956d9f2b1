"""The frame of Confluent's serializers, and the names of frames that are not read.

Confluent's frame: a zero byte, the schema id (4 B, big-endian), then what the format writes.
`tests/vectors/frames.jsonl` has the frames that tools write.
"""

from __future__ import annotations

FRAME = 5
"""The size of the frame (bytes). What the format writes comes after it."""


def id_headers(part: str) -> frozenset[str]:
    """The record headers in which serializers write the schema id, without a frame: Confluent's
    can, and Apicurio's do so by default. `part`: "key" or "value"."""
    apicurio = f"apicurio.{part}."
    return frozenset((f"__{part}_schema_id", f"{apicurio}globalId", f"{apicurio}contentId"))


HEADERS = id_headers("key") | id_headers("value")

ID_IN_HEADER = (
    "The schema id is in a record header: such ids are not read. Let the serializers write it into "
    "keys and values (Apicurio: apicurio.registry.headers.enabled=false), or set the schema to a "
    "file. JSON needs no schema"
)

_MAX_ID = 2**31 - 1  # registries have ids in Java's int
_GLUE = 18  # version (3), compression, UUID of 16 B
_GLUE_COMPRESSIONS = (0, 5)
_APICURIO = 9  # a zero byte, id of 8 B


def schema_id_of(raw: bytes) -> int:
    """The schema id of a framed record. Raises ValueError without a frame, and for an id that no
    schema can have: not every registry answers "not found" for such an id."""
    if len(raw) < FRAME or raw[0]:
        raise ValueError(
            "without Confluent's framing: a zero byte and 4 bytes with the schema id"
            + _instead(raw)
        )
    schema_id = int.from_bytes(raw[1:FRAME], "big")
    if schema_id > _MAX_ID:
        raise ValueError(f"schema {schema_id}: ids of schemas have at most 31 bits")
    if not schema_id and other_frame(raw):
        raise ValueError(f"schema 0: no schema has this id{_instead(raw)}")
    return schema_id


def unframed(raw: bytes) -> bytes:
    """The bytes after the frame, which the format has written. Raises ValueError without a
    frame."""
    schema_id_of(raw)
    return raw[FRAME:]


def other_frame(raw: bytes) -> str | None:
    """The name of a frame that is not read, with what to do, if the bytes seem to have such a
    frame. Otherwise None."""
    if len(raw) >= _GLUE and raw[0] == 3 and raw[1] in _GLUE_COMPRESSIONS:
        return (
            "the frame of AWS Glue's serializers (version 3, a UUID of 16 bytes), which is not "
            "read: use a registry with Confluent's API"
        )
    if len(raw) > _APICURIO and not any(raw[:FRAME]) and any(raw[FRAME:_APICURIO]):
        return (
            "the frame of Apicurio's serializers with an id of 8 bytes, which is not read: set "
            "apicurio.registry.id-handler to the one with 4 bytes"
        )
    return None


def _instead(raw: bytes) -> str:
    frame = other_frame(raw)
    return "" if frame is None else f". It has {frame}"
