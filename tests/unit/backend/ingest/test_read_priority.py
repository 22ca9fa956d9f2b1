"""Tests of the sizes of fetches and batches while reads are served, and of the pauses."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.ingest.indexes.partition_indexes import PartitionIndexes
from backend.ingest.read_priority import ReadPriority
from model.indexes.declaration import parse_indexes
from model.records import ENTRY, entry_head
from model.rows.declared_fields import parse_declared_fields
from tests.support.in_process.examples import ORDERS

BATCH, FETCH, BULK_FETCH = 40, 500, 4000
CATCHING_UP: Any = SimpleNamespace(progress=SimpleNamespace(answerable=False))
ANSWERABLE: Any = SimpleNamespace(progress=SimpleNamespace(answerable=True))


class Reads:
    """The number of reads, and a clock that only moves with pauses and batches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.served, self.now = 0, 1000.0
        self.pauses: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
def priority(reads: Reads) -> ReadPriority:
    return ReadPriority(lambda: reads.served)


def sizes(
    priority: ReadPriority,
    reads: Reads,
    records: int,
    work: float,
    indexes: PartitionIndexes | None = None,
) -> list[int]:
    """The sizes of the batches of a run. Each batch takes `work` s."""
    found = []
    for batch in priority.batches(range(records), indexes):
        found.append(len(batch))
        reads.now += work
    return found


def test_without_reads_a_run_is_one_batch(reads: Reads, priority: ReadPriority) -> None:
    priority.begin(is_lagging=False)
    assert sizes(priority, reads, 300, 0.001) == [300]
    assert reads.pauses == []


def test_reads_run_before_each_small_batch(reads: Reads, priority: ReadPriority) -> None:
    reads.served += 1
    priority.begin(is_lagging=False)
    assert sizes(priority, reads, 100, 0.0003) == [40, 40, 20]
    assert len(reads.pauses) == 3
    assert all(0 < pause <= 0.0001 for pause in reads.pauses)


@pytest.mark.parametrize(
    ("is_lagging", "records", "work", "fewest", "most"),
    [(False, 2, 0.0001, 16, 26), (True, 100, 0.0002, 9, 11)],
    ids=["many partitions with few records", "a lagging instance"],
)
def test_whole_runs_have_fewer_pauses(
    reads: Reads,
    priority: ReadPriority,
    is_lagging: bool,
    records: int,
    work: float,
    fewest: int,
    most: int,
) -> None:
    reads.served += 1
    priority.begin(is_lagging)
    for _ in range(50):
        assert sizes(priority, reads, records, work) == [records]
    assert fewest <= len(reads.pauses) <= most


def indexes_with(**fields: str) -> PartitionIndexes:
    declared = parse_declared_fields(fields)
    indexes = parse_indexes({f"by-{name}": [name] for name in fields}, declared)
    ids = {index.name: number for number, index in enumerate(indexes, 1)}
    return PartitionIndexes(replace(ORDERS, indexes=indexes), ids, ids, 9, None)


def indexes_of_lists() -> PartitionIndexes:
    return indexes_with(**{f"a{number}": "strings?" for number in range(8)})


def test_a_batch_has_few_keys_of_indexes(reads: Reads, priority: ReadPriority) -> None:
    """An entry has up to 100 keys in each index of a list."""
    plain = indexes_with(**{f"a{number}": "int?" for number in range(8)})
    lists = indexes_of_lists()
    assert sizes(priority, reads, BULK_FETCH, 0.0, plain) == [BULK_FETCH]
    assert max(sizes(priority, reads, BULK_FETCH, 0.0, lists)) * 800 <= 50_000
    reads.served += 1
    for is_lagging, usual in ((False, BATCH), (True, FETCH)):
        priority.begin(is_lagging)
        lists = indexes_of_lists()
        assert max(sizes(priority, reads, FETCH, 0.0, plain)) == usual
        assert max(sizes(priority, reads, FETCH, 0.0, lists)) <= usual
        for elements, size in ((1, usual), (10, usual // 10), (100, max(usual // 100, 1))):
            lists = indexes_of_lists()
            row = {f"a{number}": [f"t{n}" for n in range(elements)] for number in range(8)}
            entry = entry_head(7, 1) + json.dumps(row).encode()
            lists.sample([(ENTRY + b"k", entry)])
            found = sizes(priority, reads, FETCH, 0.0, lists)
            assert sum(found) == FETCH
            assert max(found) == min(size, 50_000 // 800)


@pytest.mark.slow
def test_reads_count_for_a_second(reads: Reads, priority: ReadPriority) -> None:
    def batches_after(seconds: float) -> int:
        reads.now += seconds
        priority.begin(is_lagging=False)
        return len(sizes(priority, reads, 100, 0.0))

    reads.served += 1
    assert batches_after(0.0) == 3
    assert batches_after(0.9) == 3
    assert batches_after(0.2) == 1
    reads.served += 1
    assert batches_after(0.0) == 3


@pytest.mark.slow
def test_a_fetch_is_large_while_a_store_partition_catches_up_without_reads(
    reads: Reads, priority: ReadPriority
) -> None:
    assert priority.fetch_size([ANSWERABLE, CATCHING_UP]) == BULK_FETCH
    assert priority.fetch_size([ANSWERABLE]) == FETCH
    reads.served += 1
    assert priority.fetch_size([ANSWERABLE, CATCHING_UP]) == FETCH
    reads.now += 1.1
    assert priority.fetch_size([ANSWERABLE, CATCHING_UP]) == BULK_FETCH


@given(st.integers(0, 300), st.booleans(), st.booleans())
def test_batches_have_all_records_in_order(records: int, are_served: bool, lagging: bool) -> None:
    priority = ReadPriority(lambda: int(are_served))
    priority.begin(lagging)
    found = list(priority.batches(range(records), None))
    assert [record for batch in found for record in batch] == list(range(records))
    if are_served and not lagging:
        assert all(len(batch) <= BATCH for batch in found)
