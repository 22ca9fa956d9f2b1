"""Recognizes changelogs of internal stores: those of joins and of `suppress`. No I/O.

Their records are not results. The application can choose their names, so only the records tell.
Layouts in Kafka Streams 4.1, integers big-endian:

- subscriptions of a foreign-key join. Key: length of the foreign key (4 B) · foreign key · primary
  key. Value: version (1 B, its first bit: no hash) · instruction (1 B) · hash (16 B) · primary key
  · partition (4 B, since version 1).
- pending records of an outer or left stream-stream join. Key: time (8 B) · side (1 B) · key. Value:
  a list (1 B: elements of variable length; 4 B: their number), of each element its length (4 B),
  its side (1 B) and the record's value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from queryable.cli.inspection.samples import SampledRecord

_PENDING = "the pending records of an outer or left join, in an internal format"
_SUBSCRIPTIONS = "the subscriptions of a foreign-key join, in an internal format"
_NAMES = {
    "OUTERSHARED": _PENDING,
    "outer-shared-join-store": _PENDING,
    "left-shared-join-store": _PENDING,
    "FK-JOIN-SUBSCRIPTION-STATE-STORE": _SUBSCRIPTIONS,
}
_BUFFER_VERSIONS = (b"\1", b"\2", b"\3")


def internal_store(store: str, records: Sequence[SampledRecord]) -> str:
    """What the changelog contains instead of results; empty if it contains results."""
    for part, reason in _NAMES.items():
        if part in store:
            return reason
    if any(record.headers.get("v") in _BUFFER_VERSIONS for record in records):
        return "the buffer of a suppress; the results are in the store of the aggregate before it"
    if _all(records, _is_subscription):
        return _SUBSCRIPTIONS
    if _all(records, _is_pending):
        return _PENDING
    return ""


def _all(records: Sequence[SampledRecord], fits: Callable[[bytes, bytes], bool]) -> bool:
    """Whether there are records with a key and a value, and all of them fit."""
    pairs = [(r.key, r.value) for r in records if r.key is not None and r.value is not None]
    return bool(pairs) and all(fits(key, value) for key, value in pairs)


def _is_subscription(key: bytes, value: bytes) -> bool:
    foreign = int.from_bytes(key[:4], "big", signed=True)
    primary = key[4 + foreign :]
    if foreign < 0 or not primary or len(key) < 5 or len(value) < 2:
        return False
    version, has_hash = value[0] & 0x7F, value[0] < 0x80
    end = len(value) - 4 * (version > 0)
    return version < 2 and value[1] < 4 and value[2 + 16 * has_hash : end] == primary


def _is_pending(key: bytes, value: bytes) -> bool:
    side, count = key[8:9], int.from_bytes(value[1:5], "big")
    return (
        side in (b"\0", b"\1")
        and 0 < int.from_bytes(key[:8], "big") < 1 << 43
        and value[:1] == b"\1"
        and 0 < count <= len(value) // 5
        and value[9:10] == side
        and 0 < int.from_bytes(value[5:9], "big") <= len(value) - 9
    )
