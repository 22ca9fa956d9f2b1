"""Tests of stream time: a record with a future time does not expire other entries."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.ingest.batch import build_batch
from backend.ingest.consumer import Fetched
from backend.ingest.expiry import expiry_batch
from backend.ingest.lifecycle.recovery import open_partition
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.ingest.stream_time import advance
from backend.storage.data_directory import DataDirectory
from model.kinds.registry import KINDS
from model.progress import Progress
from model.records import ENTRY, EXPIRY, decode_entry
from model.views import View
from tests.support.examples import examples
from tests.support.in_process.examples import metadata, view
from tests.support.in_process.fakes import Rec
from tests.support.in_process.ingest import ingest_without_broker

pytestmark = pytest.mark.usefixtures("batches")

RETENTION = 50
TOLERANCE = 5
STORES = tuple(KINDS)
FAR_FUTURE = 4_070_908_800_000  # 2099


def view_of(store: str, retention: int = RETENTION) -> View:
    return view(store=store, window_size=10 if store == "window" else None, retention=retention)


def record(store: str, offset: int, key: str, at: int, value: Any = 1) -> Rec:
    suffix = {
        "window": struct.pack(">qi", at, 0),
        "session": struct.pack(">qq", at, at - 1),
    }.get(store, b"")
    raw = None if value is None else json.dumps(value).encode()
    return Rec(offset, key.encode() + suffix, raw, at)


class Partition:
    """A store partition that is fed as ingest feeds it; the test sets the clock."""

    def __init__(self, folder: DataDirectory, store: str) -> None:
        self.view = view_of(store)
        opened, _ = folder.open("orders", 0)
        opened.initialise(0, metadata(self.view))
        self.store_partition = StorePartition(
            self.view, 0, opened, Progress(0, 0, True), metadata(), 0.0
        )

    def feed(self, now: int, *records: Rec) -> None:
        store_partition, until = self.store_partition, now + TOLERANCE
        if records:
            batch = store_partition.store.new_batch()
            result = build_batch(
                batch, self.view, records, store_partition.store.stream_time, until
            )
            store_partition.earliest_future_time = min(
                store_partition.earliest_future_time, result.earliest_future_time
            )
            store_partition.store.write(batch, records[-1].offset() + 1, None, result.stream_time)
        advance(store_partition, until)
        while (deletes := expiry_batch(store_partition)) is not None:
            store_partition.store.write(deletes, store_partition.store.position or 0)

    def restart(self) -> None:
        """Reset the state that is not on disk."""
        self.store_partition.earliest_future_time = StorePartition.earliest_future_time
        self.store_partition.expired_until = StorePartition.expired_until

    def alive(self) -> dict[tuple[str, int], bytes | None]:
        """The entries that have not expired: (key, time) -> value."""
        horizon = self.view.kind.horizon(self.view, self.store_partition.store.stream_time)
        time_of = self.view.kind.time_of
        entries = {}
        for stored_key, stored in self.store_partition.store.scan(ENTRY, EXPIRY):
            entry = decode_entry(stored)
            at = time_of(stored_key, entry.timestamp)
            if at >= horizon or self.view.store == "versioned":
                entries[self.view.layout.entry_key(stored_key).key.decode(), at] = entry.value
        return entries


@contextmanager
def partition(store: str) -> Iterator[Partition]:
    with TemporaryDirectory() as name:
        folder = DataDirectory(Path(name) / "data")
        opened = Partition(folder, store)
        yield opened
        opened.store_partition.store.close()
        folder.close()


@pytest.mark.parametrize("store", STORES)
def test_a_record_from_the_far_future_does_not_expire_others(store: str) -> None:
    with partition(store) as it:
        it.feed(1000, record(store, 0, "a", 980), record(store, 1, "b", FAR_FUTURE))
        it.feed(1001, record(store, 2, "c", 990), record(store, 3, "d", 1001))
        assert it.store_partition.store.stream_time == 1001
        assert it.alive().keys() == {("a", 980), ("b", FAR_FUTURE), ("c", 990), ("d", 1001)}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_stream_time_reaches_a_future_time_when_the_clock_does(store: str, restarts: bool) -> None:
    with partition(store) as it:
        it.feed(1000, record(store, 0, "a", 990), record(store, 1, "b", 1100))
        it.feed(1001, record(store, 2, "e", 3000))
        for now, stream_time in ((1094, 990), (1095, 1100), (2994, 1100), (2995, 3000)):
            if restarts:
                it.restart()
            it.feed(now)
            assert it.store_partition.store.stream_time == stream_time, now
        if store != "versioned":  # the last version stays
            assert it.alive().keys() == {("e", 3000)}


@pytest.mark.parametrize("store", STORES)
def test_within_the_tolerance_stream_time_advances_at_once(store: str) -> None:
    with partition(store) as it:
        it.feed(1000, record(store, 0, "a", 1000 + TOLERANCE))
        assert it.store_partition.store.stream_time == 1000 + TOLERANCE
        it.feed(1000, record(store, 1, "a", 1001 + TOLERANCE))
        assert it.store_partition.store.stream_time == 1000 + TOLERANCE


LOG = st.lists(
    st.tuples(
        st.integers(0, 40),  # ms by which the clock advances before the record
        st.sampled_from(["a", "b", "c"]),
        st.integers(-60, 20) | st.integers(-60, 400),  # the record's time minus the clock
        st.none() | st.integers(0, 9),
        st.booleans(),  # whether the instance restarts before it
    ),
    max_size=25,
)


@pytest.mark.parametrize("store", ["key-value", "window", "session"])
@given(log=LOG, more=st.integers(0, 500))
@settings(max_examples=examples(40))
def test_a_replay_gives_the_same_result(store: str, log: list[Any], more: int) -> None:
    """An instance that has applied the log live and one that replays it give the same answers."""
    with partition(store) as live, partition(store) as replayed:
        now, records = 1000, []
        for offset, (passed, key, ahead, value, restarts) in enumerate(log):
            now += passed
            records.append(record(store, offset, key, now + ahead, value))
            if restarts:
                live.restart()
            live.feed(now, records[-1])
            assert (live.store_partition.store.stream_time or 0) <= now + TOLERANCE
        live.feed(now + more)
        replayed.feed(now + more, *records)
        assert live.store_partition.store.stream_time == replayed.store_partition.store.stream_time
        assert live.alive() == replayed.alive()


# Stores of older versions


def topic_metadata(records: int) -> TopicMetadata:
    return TopicMetadata("topic-1", 1, {0: 0}, {0: records}, None, 0.0)


@pytest.mark.parametrize("store", STORES)
def test_a_store_whose_stream_time_is_in_the_future_is_rebuilt(tmp_path: Path, store: str) -> None:
    of, now = view_of(store), time.time_ns() // 1_000_000
    folder = DataDirectory(tmp_path)
    opened, _ = folder.open("orders", 0)
    old_metadata = metadata(of, alive_at=now)
    opened.write(opened.new_batch(), 5, old_metadata, FAR_FUTURE)  # and everything has expired
    opened.close()
    store_partition, reason = open_partition(folder, of, 0, topic_metadata(5), 10)
    assert "ahead of the clock" in (reason or "")
    assert (store_partition.store.position, store_partition.store.stream_time) == (0, None)
    assert not store_partition.progress.answerable
    store_partition.store.close()
    # it is not rebuilt again
    store_partition, reason = open_partition(folder, of, 0, topic_metadata(5), 10)
    assert reason is None
    store_partition.store.close()
    folder.close()


def test_a_clock_that_was_set_back_does_not_cause_a_rebuild(tmp_path: Path) -> None:
    of, now = view_of("window"), time.time_ns() // 1_000_000
    hour = 3_600_000
    folder = DataDirectory(tmp_path)
    opened, _ = folder.open("orders", 0)
    opened.write(opened.new_batch(), 5, metadata(of, alive_at=now + hour), now + hour)
    opened.close()
    store_partition, reason = open_partition(folder, of, 0, topic_metadata(5), 10)
    assert (reason, store_partition.store.stream_time) == (None, now + hour)
    store_partition.store.close()
    folder.close()


# Applier and registry


@pytest.mark.parametrize("store", STORES)
def test_ingest_uses_the_clock_of_this_machine(tmp_path: Path, store: str) -> None:
    hour = 3_600_000
    of, now = view_of(store, retention=hour), time.time_ns() // 1_000_000
    folder, registry = DataDirectory(tmp_path), PartitionRegistry((of,))
    opened, _ = folder.open("orders", 0)
    opened.initialise(0, metadata(of))
    registry.add(StorePartition(of, 0, opened, Progress(0, 0, True), metadata(of), 0.0))
    ingest = ingest_without_broker(of, folder, registry)
    store_partition = registry.get("orders", 0)
    assert store_partition is not None
    log = [record(store, 0, "a", now - 10), record(store, 1, "b", FAR_FUTURE)]
    log += [record(store, 2, "c", now + hour), record(store, 3, "d", now)]
    ingest.applier.apply(Fetched({(of.topic, 0): cast(Any, log)}))
    ingest.applier.expire()
    assert store_partition.store.stream_time == now
    assert len(list(store_partition.store.scan(ENTRY, EXPIRY))) == 4
    assert store_partition.earliest_future_time == now + hour
    opened.close()
    folder.close()
