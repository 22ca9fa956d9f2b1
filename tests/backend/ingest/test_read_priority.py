"""Tests of the sizes of fetches and batches while reads are served, and of the pauses."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.ingest.read_priority import ReadPriority

BATCH, FETCH, BULK_FETCH = 40, 500, 4000
CATCHING_UP: Any = SimpleNamespace(progress=SimpleNamespace(answerable=False))
ANSWERABLE: Any = SimpleNamespace(progress=SimpleNamespace(answerable=True))


class Reads:
    """The number of reads, and a clock that only moves with pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.served, self.now = 0, 1000.0
        self.pauses: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.pauses.append)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
def priority(reads: Reads) -> ReadPriority:
    return ReadPriority(lambda: reads.served)


def batches(priority: ReadPriority, records: int, fetched: int | None = None) -> list[list[int]]:
    run = range(records)
    found = priority.batches(run, records if fetched is None else fetched)
    return [list(batch) for batch in found]


def test_without_reads_a_run_is_one_batch(reads: Reads, priority: ReadPriority) -> None:
    assert batches(priority, 300) == [list(range(300))]
    assert reads.pauses == []


def test_reads_run_before_each_small_batch(reads: Reads, priority: ReadPriority) -> None:
    reads.served += 1
    assert list(map(len, batches(priority, 100))) == [40, 40, 20]
    assert len(reads.pauses) == 3
    assert all(0 < pause <= 0.0001 for pause in reads.pauses)


def test_a_lagging_instance_applies_whole_runs_with_pauses(
    reads: Reads, priority: ReadPriority
) -> None:
    reads.served += 1
    assert list(map(len, batches(priority, 100, fetched=FETCH))) == [100]
    assert len(reads.pauses) == 1


def test_reads_count_for_a_second(reads: Reads, priority: ReadPriority) -> None:
    reads.served += 1
    assert len(batches(priority, 100)) == 3
    reads.now += 0.9
    assert len(batches(priority, 100)) == 3
    reads.now += 0.2
    assert len(batches(priority, 100)) == 1
    reads.served += 1
    assert len(batches(priority, 100)) == 3


def test_a_fetch_is_large_while_a_store_partition_catches_up_without_reads(
    reads: Reads, priority: ReadPriority
) -> None:
    assert priority.fetch_size([ANSWERABLE, CATCHING_UP]) == BULK_FETCH
    assert priority.fetch_size([ANSWERABLE]) == FETCH
    reads.served += 1
    assert priority.fetch_size([ANSWERABLE, CATCHING_UP]) == FETCH
    reads.now += 1.1
    assert priority.fetch_size([ANSWERABLE, CATCHING_UP]) == BULK_FETCH


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_batches_have_all_records_in_order(records: int, others: int) -> None:
    priority = ReadPriority(iter(range(1, 10)).__next__)
    found = batches(cast(Any, priority), records, records + others)
    assert [record for batch in found for record in batch] == list(range(records))
    if records + others < FETCH:
        assert all(len(batch) <= BATCH for batch in found)
