"""What a view with `unwrap = "debezium"` has after each value of `debezium.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from model.rows.row import NO_ROW, Row

REFUSED = "refused"

ANNA = {"id": 1, "name": "anna", "balance": "APo=", "big": 9007199254740993, "day": 20420}
ANNA |= {"notes": "x", "picture": "AQI="}
BEA = ANNA | {"name": "bea", "balance": "+0s=", "notes": 'a "quoted" } brace', "picture": None}
NUMERIC = {"anna": b'"balance":2.50,', "bea": b'"balance":-12.05,'}
_NOT_DELETED = {"__deleted": "false"}

EXPECTED: dict[str, object] = {
    "read": ANNA,
    "create": ANNA,
    "update": BEA,
    "unavailable text": "notes",
    "unavailable bytes": "picture",
    "delete": None,
    "tombstone": None,
    "truncate": "truncated",
    "mongodb: create": {"_id": {"$oid": "656"}, "name": "anna"},
    "mongodb: update": "capture.mode",
    "mongodb: delete": None,
    "transaction": NO_ROW,
    "heartbeat": NO_ROW,
}
"""The row; a word of the reason if it is refused."""


class Case(NamedTuple):
    name: str
    form: str
    """`value`: JsonConverter without schemas, `with_schema`: with them, `numeric`: decimals as
    numbers."""

    value: bytes | None

    @property
    def expected(self) -> object:
        handling, _, event = self.name.rpartition(": ")
        found = EXPECTED[self.name if handling == "mongodb" else event]
        is_rewritten = handling.startswith("rewrite") and isinstance(found, dict)
        return found | _NOT_DELETED if is_rewritten else found


def cases() -> Iterator[Case]:
    for line in (Path(__file__).parent / "debezium.jsonl").read_bytes().splitlines():
        case = orjson.loads(line)
        for form in ("value", "with_schema", "numeric"):
            text = case[form]
            yield Case(case["name"], form, None if text is None else text.encode())


def outcome(row: Row) -> object:
    """The row as a Python value."""
    return orjson.loads(row) if isinstance(row, bytes) else row
