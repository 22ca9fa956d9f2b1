"""Changelogs whose records are no results: inner stores of joins, buffers of `suppress`.

They have generated names, or such as the application gives: so it is their records that tell. In
Kafka Streams 4.1, integers big-endian:

- the subscriptions of a foreign-key join. Key: length of the foreign key (4 B) · foreign key ·
  primary key. Value: version (1 B, its first bit: no hash) · instruction (1 B) · hash (16 B) ·
  primary key · partition (4 B, from version 1 on).
- what an outer or a left stream-stream join still has to match. Key: time (8 B) · side (1 B) · key.
  Value: a list (1 B: elements of any length; 4 B: how many), of each element its length (4 B), its
  side (1 B) and the record's value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from queryable.console.guesses import Sampled

_SHARED = "what an outer or a left join still has to match: an inner format"
_SUBSCRIPTIONS = "the subscriptions of a foreign-key join: an inner format"
_NAMES = {
    "OUTERSHARED": _SHARED,
    "outer-shared-join-store": _SHARED,
    "left-shared-join-store": _SHARED,
    "FK-JOIN-SUBSCRIPTION-STATE-STORE": _SUBSCRIPTIONS,
}
_BUFFER_VERSIONS = (b"\1", b"\2", b"\3")


def not_served(store: str, records: Sequence[Sampled]) -> str:
    """Why a changelog cannot be a view; empty where it can."""
    for part, reason in _NAMES.items():
        if part in store:
            return reason
    if any(record.headers.get("v") in _BUFFER_VERSIONS for record in records):
        return "a suppress buffer: its records are no results; serve the aggregate in front of it"
    if _all(records, _is_subscription):
        return _SUBSCRIPTIONS
    if _all(records, _is_shared):
        return _SHARED
    return ""


def _all(records: Sequence[Sampled], fits: Callable[[bytes, bytes], bool]) -> bool:
    """Whether all records with a value fit, and there is one."""
    told = [(r.key, r.value) for r in records if r.key is not None and r.value is not None]
    return bool(told) and all(fits(key, value) for key, value in told)


def _is_subscription(key: bytes, value: bytes) -> bool:
    foreign = int.from_bytes(key[:4], "big", signed=True)
    primary = key[4 + foreign :]
    if foreign < 0 or not primary or len(key) < 5 or len(value) < 2:
        return False
    version, has_hash = value[0] & 0x7F, value[0] < 0x80
    end = len(value) - 4 * (version > 0)
    return version < 2 and value[1] < 4 and value[2 + 16 * has_hash : end] == primary


def _is_shared(key: bytes, value: bytes) -> bool:
    side, count = key[8:9], int.from_bytes(value[1:5], "big")
    return (
        side in (b"\0", b"\1")
        and 0 < int.from_bytes(key[:8], "big") < 1 << 43
        and value[:1] == b"\1"
        and 0 < count <= len(value) // 5
        and value[9:10] == side
        and 0 < int.from_bytes(value[5:9], "big") <= len(value) - 9
    )
