"""Debezium's change events, as JSON: complete events, and events that its `ExtractNewRecordState`
has flattened. `tests/vectors/debezium.jsonl` has what Debezium writes.

| event                                             | meaning        |
|---------------------------------------------------|----------------|
| `op` c, u or r (snapshot)                         | `after`        |
| `op` d; `__deleted` "true"; null                  | a deletion     |
| `op` m; a transaction's BEGIN or END, a heartbeat | nothing        |
| `op` t or unknown; `op` u without `after`         | refused        |
| any other object, as `ExtractNewRecordState` has  | the row itself |

A row with the placeholder of a value that the database did not send (PostgreSQL's TOAST) is
refused. The previous row has the value, but compaction removes its record: replicas would differ.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Literal

import orjson

from model.formats.json_text import check_json_text
from model.rows import connect
from model.rows.json_members import members
from model.rows.row import NO_ROW, Row

DELETED, AFTER = "__deleted", "after"
PLACEHOLDER = b"__debezium_unavailable_value"
UUID_PLACEHOLDER = b"b68a35a7-17ad-35b3-af2a-ae46edb4545a"  # Java's nameUUIDFromBytes
"""The placeholder in arrays of UUIDs."""
_PLACEHOLDERS = (
    b'"%b"' % PLACEHOLDER,
    b'"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ',  # the same as bytes
    b'"%b"' % UUID_PLACEHOLDER,
)
# in arrays of numbers: its bytes
_NUMBERS_PLACEHOLDER = re.compile(
    rb"\[\s*" + rb"\s*,\s*".join(rb'"?%d(?:\.0)?"?' % byte for byte in PLACEHOLDER)
)
_ENVELOPES = ({"op", AFTER}, {"op", "source", "ts_ms"})
"""The members of an envelope. Protobuf's JSON leaves out those that are not set."""
_ROW_SCHEMA = b'.Value"'
"""The end of the name of a row's schema."""
_ROWS = ("c", "u", "r")
_TRANSACTION = {"status", "id", "event_count", "data_collections", "ts_ms"}
_HEARTBEAT = {"ts_ms"}


def read_change(document: bytes) -> Row:
    """The row after the change, as JSON; None for a deletion; NO_ROW if the event concerns no row.
    `document`: valid JSON. Raises ValueError if the event is refused."""
    event = connect.payload(document)
    if event == b"null":
        return None
    if not event.startswith(b"{"):
        raise ValueError("not an event of Debezium: it is not a JSON object")
    parts = members(event)
    if is_envelope(parts.keys()):
        return _row_of_envelope(parts)
    if _is_marker(parts):
        return NO_ROW
    if parts.get(DELETED) in (b'"true"', b"true"):
        return None
    return _complete(event)


def is_envelope(names: Set[str]) -> bool:
    """Whether an event with members of these names was not flattened."""
    return any(required <= names for required in _ENVELOPES)


def has_row_schema(document: bytes) -> bool:
    """Whether Kafka Connect's schema of a row, or of a deleted row, is next to it in the document.
    Debezium names it after the table, with `.Value` at the end."""
    if _ROW_SCHEMA not in document:
        return False
    parts = members(document)
    if parts.keys() != connect.MEMBERS:
        return False
    name = members(parts["schema"]).get("name", b"")
    return name.endswith(_ROW_SCHEMA)


def _is_marker(parts: dict[str, bytes]) -> bool:
    if parts.keys() == _TRANSACTION:
        return parts["status"] in (b'"BEGIN"', b'"END"')
    return parts.keys() == _HEARTBEAT


def _row_of_envelope(parts: dict[str, bytes]) -> Row:
    op = _text(parts["op"])
    effect = effect_of(op)
    if effect != "row":
        return None if effect == "deletion" else NO_ROW
    after = parts.get(AFTER, b"null")
    if after.startswith(b'"'):
        after = _mongodb_document(after)
    if not after.startswith(b"{"):
        raise no_row_in_after(op)
    return _complete(after)


def effect_of(op: str) -> Literal["row", "deletion", "nothing"]:
    """What an operation means: the row in `after`, the deletion of the row, or nothing. Raises
    ValueError if it is refused."""
    if op == "d":
        return "deletion"
    if op == "m":
        return "nothing"
    if op == "t":
        raise ValueError(
            'op "t": the table was truncated. Its rows are not deleted here: skip truncates in '
            "Debezium (skipped.operations=t), and send deletes"
        )
    if op not in _ROWS:
        raise ValueError(f'op "{op[:20]}": not an operation of Debezium')
    return "row"


def no_row_in_after(op: str) -> ValueError:
    return ValueError(
        f'op "{op}" without the row in after: for MongoDB, set '
        "capture.mode=change_streams_update_full"
    )


def _mongodb_document(after: bytes) -> bytes:
    """The document, which MongoDB's connector writes as text."""
    document = _text(after).strip().encode()
    check_json_text(document)
    return document


def _text(written: bytes) -> str:
    """A JSON text; for another value, the value as it is written."""
    try:
        return str(orjson.loads(written))
    except orjson.JSONDecodeError:
        return written.decode()


def _complete(row: bytes) -> bytes:
    """Return the row. Raises ValueError if it has a placeholder."""
    if has_placeholder(row):
        names = [name for name, value in members(row).items() if has_placeholder(value)]
        raise unavailable(names)
    return row


def unavailable(names: list[str]) -> ValueError:
    return ValueError(
        f"{', '.join(names)}: the value is unavailable: the database did not send it "
        "(PostgreSQL's TOAST). Set REPLICA IDENTITY FULL for the table, and Debezium's "
        "ReselectColumnsPostProcessor for rows that exist"
    )


def has_placeholder(written: bytes) -> bool:
    """Whether JSON has the placeholder of a value that the database did not send."""
    return any(placeholder in written for placeholder in _PLACEHOLDERS) or (
        b"118" in written and _NUMBERS_PLACEHOLDER.search(written) is not None
    )
