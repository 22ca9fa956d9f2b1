"""A sample of a topic's records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class SampledRecord(NamedTuple):
    """`timestamp` is in ms."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]


class TopicSample(NamedTuple):
    """Some of the newest records; for each partition the log start offset and the end offset."""

    records: list[SampledRecord]
    offsets: list[tuple[int, int]]
