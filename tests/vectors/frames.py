"""The records in `frames.jsonl`, by the tool that wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import orjson


class Framed(NamedTuple):
    record: bytes
    headers: dict[str, bytes]
    registered: str
    """The text of the schema in the registry, if it matters."""


def frames() -> dict[str, Framed]:
    lines = (Path(__file__).parent / "frames.jsonl").read_bytes().splitlines()
    return {
        each["tool"]: Framed(
            bytes.fromhex(each["record"]),
            {name: bytes.fromhex(value) for name, value in each.get("headers", {}).items()},
            each.get("registered", ""),
        )
        for each in map(orjson.loads, lines)
    }
