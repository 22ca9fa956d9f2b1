"""What instances say to one another when they scan: a question in JSON, an answer in columns.

    header length (4 B) · header (JSON) · lengths of keys, items (4 B each) · keys · items · heads

Numbers are little-endian. Columns, for then a row costs two slices and no call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise, starmap
from typing import Any

import numpy as np
import orjson

from backend.core.records import ENTRY_HEAD_SIZE
from backend.core.scan import ALLOW, NEVER, Part, Query

ROWS, COUNT, ESTIMATE, TOP = "rows", "count", "estimate", "top"
RAW, ENTRIES = "raw", "entries"
"""As ROWS, with record values in place of JSON items; and all that is stored: of versions not the
latest alone, deletes too."""


@dataclass(frozen=True)
class Ask:
    """A question to one instance; `total` is the partition count that the asker knows."""

    view: str
    view_hash: str
    total: int
    what: str
    query: Query = field(default_factory=Query)
    limit: int = 0
    by: str | None = None
    descending: bool = False  # of a ranking; the scan itself goes as the query says


def encode_ask(ask: Ask, partitions: list[int], after: bytes | None) -> bytes:
    return orjson.dumps(
        {
            **asdict(ask),
            "query": _encode_query(ask.query),
            "partitions": partitions,
            "after": None if after is None else after.hex(),
        }
    )


def decode_ask(body: bytes) -> tuple[Ask, list[int], bytes | None]:
    """The inverse; ValueError for anything else."""
    try:
        fields: dict[str, Any] = orjson.loads(body)
        partitions, after = fields.pop("partitions"), fields.pop("after")
        ask = Ask(**{**fields, "query": _decode_query(fields["query"])})
        return ask, [int(p) for p in partitions], None if after is None else bytes.fromhex(after)
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not a question: {e!r}") from e


def _encode_query(query: Query) -> dict[str, Any]:
    fields = asdict(query)
    stale = fields.pop("stale")
    fields.update(low=query.low.hex(), high=query.high.hex(), stale_allowed=stale == ALLOW)
    if stale == NEVER:
        # only then: an older instance refuses what it does not know, and a standby would answer
        fields["active_only"] = True
    return fields


def _decode_query(fields: dict[str, Any]) -> Query:
    allowed, active_only = fields.pop("stale_allowed"), fields.pop("active_only", False)
    fields.update(low=bytes.fromhex(fields["low"]), high=bytes.fromhex(fields["high"]))
    return Query(**fields, stale=ALLOW if allowed else NEVER if active_only else None)


def encode_part(part: Part) -> bytes:
    header = orjson.dumps(
        {
            "rows": len(part.rows),
            "reached": None if part.reached is None else part.reached.hex(),
            "counted": part.counted,
            "missing": list(part.missing.items()),
            "lag": part.lag,
            "staleness": part.staleness,
            "misplaced": part.scattered,  # its name on the wire
            "complete": part.complete,
            "stream_time": part.stream_time,
        }
    )
    parts = [len(header).to_bytes(4, "little"), header]
    if part.rows:
        keys, heads, items = zip(*part.rows, strict=True)
        parts += [_lengths(keys), _lengths(items), *keys, *items, *heads]
    return b"".join(parts)


def decode_part(body: bytes) -> Part:
    """The inverse; ValueError for anything else."""
    try:
        size = int.from_bytes(body[:4], "little")
        at = 4 + size
        header = orjson.loads(body[4:at])
        count = header["rows"]
        part = Part(
            reached=None if header["reached"] is None else bytes.fromhex(header["reached"]),
            counted=header["counted"],
            missing=dict(header["missing"]),
            lag=header["lag"],
            staleness=header["staleness"],
            scattered=header["misplaced"],
            complete=header["complete"],
            stream_time=header["stream_time"],
        )
        lengths = np.frombuffer(body, "<u4", 2 * count, at)
        ends = (np.cumsum(lengths, dtype=np.int64) + at + 8 * count).tolist()
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not an answer: {e!r}") from e
    heads_at = ends[-1] if ends else at
    if heads_at + ENTRY_HEAD_SIZE * count != len(body):
        raise ValueError("an answer of another length than it says")
    keys = _slices(body, [at + 8 * count, *ends[:count]])
    items = _slices(body, ends[count - 1 :])
    heads = _slices(body, list(range(heads_at, len(body) + 1, ENTRY_HEAD_SIZE)))
    part.rows = list(zip(keys, heads, items, strict=True)) if count else []
    return part


def pack(parts: Sequence[bytes]) -> bytes:
    """Byte strings one after another: count (4 B) · lengths (4 B each) · the strings."""
    return b"".join([len(parts).to_bytes(4, "little"), _lengths(parts), *parts])


def unpack(body: bytes) -> list[bytes]:
    """The inverse; ValueError for anything else."""
    count = int.from_bytes(body[:4], "little")
    start = 4 + 4 * count
    lengths = np.frombuffer(body, "<u4", count, 4) if count else np.zeros(0, "<u4")
    ends = (np.cumsum(lengths, dtype=np.int64) + start).tolist()
    if (ends[-1] if ends else start) != len(body):
        raise ValueError("not a list of byte strings")
    return _slices(body, [start, *ends])


def _lengths(parts: Sequence[bytes]) -> bytes:
    return np.fromiter(map(len, parts), "<u4", len(parts)).tobytes()


def _slices(body: bytes, bounds: list[int]) -> list[bytes]:
    take: Callable[[slice], bytes] = body.__getitem__
    return list(map(take, starmap(slice, pairwise(bounds))))
