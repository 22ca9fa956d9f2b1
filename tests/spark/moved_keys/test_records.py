"""The records of moved keys, and their order, compared with plain Python."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from model.partitioner import partition_of
from spark.formats.records import RAW_RECORD
from spark.moved_keys.records import count_moved_keys, in_order, moved_keys, newest_rows, with_homes

PARTITIONS = 4
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Raw = tuple[int, int, int, bytes | None, bytes | None]
"""Partition, offset, timestamp, key and value."""


def newest(records: list[Raw], partitioner: str) -> dict[bytes, bytes | None]:
    """The newest value of each key that is in several partitions."""
    home = partition_of(partitioner)
    of_key: defaultdict[bytes, dict[int, tuple[int, bool, int, bytes | None]]] = defaultdict(dict)
    for partition, _, at, key, value in records:
        if key is not None:
            latest, *_ = of_key[key].get(partition, (0,))
            is_home = home(key, PARTITIONS) == partition
            of_key[key][partition] = max(latest, at), is_home, partition, value
    return {key: max(of.values())[3] for key, of in of_key.items() if len(of) > 1}


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
def test_the_newest_row_of_moved_keys(session: SparkSession, partitioner: str) -> None:
    chosen = random.Random(partitioner)
    home = partition_of(partitioner)
    records: list[Raw] = []
    for number in range(600):
        key = None if number % 50 == 0 else b"k%d" % chosen.randrange(80)
        # Some producers know 4 partitions, others 3. Many times are equal, and some go back.
        known = 3 if number < 200 or (number < 400 and chosen.random() < 0.5) else PARTITIONS
        partition = chosen.randrange(3) if key is None else home(key, known)
        at = number // 40 - (2 if chosen.random() < 0.1 else 0)
        value = None if chosen.random() < 0.2 else b"%d" % number
        records.append((partition, number, at, key, value))
    expected = newest(records, partitioner)
    assert 20 < len(expected) < 80
    shuffled = chosen.sample(records, len(records))
    rows = session.createDataFrame(
        [
            ("raw", partition, offset, EPOCH + timedelta(seconds=at), key, value, None)
            for partition, offset, at, key, value in shuffled
        ],
        RAW_RECORD,
    ).repartition(3)
    keys = with_homes(moved_keys(rows), PARTITIONS).persist()
    assert count_moved_keys(keys) == (len(expected), partitioner)
    last = newest_rows(in_order(rows, keys, partitioner).select("key", "value")).collect()
    assert {bytes(key): value and bytes(value) for key, value in last} == expected


def test_rows_keep_their_other_columns(session: SparkSession) -> None:
    rows = session.createDataFrame(
        [("a", None, 1), ("b", "x", 2), ("a", "y", 3)], "key string, value string, bare_key int"
    )
    last = newest_rows(rows.coalesce(1)).sort("key").collect()
    assert [tuple(row) for row in last] == [("a", "y", 3), ("b", "x", 2)]
