"""Records of changelogs, in the layouts of Kafka Streams."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random

from model.times import DAY
from queryable.cli.inspection.samples import SampledRecord, TopicSample

NOW = 1_700_000_000_000
HOUR, MINUTE = 3_600_000, 60_000
KEYS = ["a", "N14228", "", "ä", "日本語", "a\0b", "key 17", "a much longer key"]
COMPACT = {"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}
BOTH = {"cleanup.policy": "compact,delete", "retention.ms": str(2 * HOUR + DAY)}


def record(key: bytes, timestamp: int = NOW, value: bytes = b"x") -> SampledRecord:
    return SampledRecord(0, timestamp, key, value, {})


def windows(size: int, advance: int, keys: list[bytes], count: int = 200) -> list[SampledRecord]:
    random = Random(7)
    result = []
    for _ in range(count):
        time = NOW + random.randrange(30 * size)
        key = random.choice(keys)
        for start in range(time // advance * advance, time - size, -advance):
            result.append(record(key + struct.pack(">qi", start, 0), time))
    return result


def sessions(keys: list[bytes]) -> list[SampledRecord]:
    random = Random(7)
    spans = [(NOW + random.randrange(HOUR), random.randrange(HOUR)) for _ in range(200)]
    return [
        record(random.choice(keys) + struct.pack(">qq", start + long, start), start + long)
        for start, long in spans
    ]


def record_in(key: bytes, partition: int, value: bytes | None = b"1") -> SampledRecord:
    return SampledRecord(partition, NOW, key, value, {})


def sample_of(newest: Sequence[int], spans: list[tuple[int, int]]) -> TopicSample:
    records = [SampledRecord(n, time, b"a", b"1", {}) for n, time in enumerate(newest)]
    return TopicSample(records, spans)


SUBSCRIPTION = (
    b"\0\0\0\5town3person17",
    b"\1\3\xab\x7f\xa3AI\xbdq\xa6\x10\xcd\x99\rJ\xaf+>person17\0\0\0\1",
)
