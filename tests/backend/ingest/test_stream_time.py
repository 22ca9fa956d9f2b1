"""Records of the future: one producer's clock expires nobody else's entries."""

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
from backend.ingest.expiry import expired
from backend.ingest.lifecycle.recovery import open_partition
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.ingest.stream_time import advance
from backend.ingest.topic_metadata import TopicMetadata
from backend.storage.data_directory import DataDirectory
from model.progress import Progress
from model.records import ENTRY, EXPIRY, decode_entry
from model.views import View
from tests.support.in_process.examples import metadata, view
from tests.support.in_process.fakes import Rec
from tests.support.in_process.ingest import ingest_without_broker

RETENTION = 50
TOLERANCE = 5
STORES = ("key-value", "global", "window", "session", "versioned")
FAR = 4_070_908_800_000  # 2099


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
    """One store partition, fed as ingest feeds it, at times of the clock that the test says."""

    def __init__(self, folder: DataDirectory, store: str) -> None:
        self.view = view_of(store)
        opened, _ = folder.open("orders", 0)
        opened.initialise(0, metadata(self.view))
        self.store_partition = StorePartition(
            self.view, 0, opened, Progress(0, 0, True), metadata(), 0.0
        )

    def feed(self, now: int, *records: Rec) -> None:
        store_partition, reached = self.store_partition, now + TOLERANCE
        if records:
            batch = store_partition.store.new_batch()
            filled = build_batch(
                batch, self.view, records, 0, store_partition.store.stream_time, reached
            )
            store_partition.ahead = min(store_partition.ahead, filled.ahead)
            store_partition.store.write(batch, records[-1].offset() + 1, None, filled.stream_time)
        advance(store_partition, reached)
        while (deletes := expired(store_partition)) is not None:
            store_partition.store.write(deletes, store_partition.store.position or 0)

    def restart(self) -> None:
        """What is not on disk is gone."""
        self.store_partition.ahead = StorePartition.ahead
        self.store_partition.expired_until = StorePartition.expired_until

    def alive(self) -> dict[tuple[str, int], bytes | None]:
        """What is not expired: (key, time) -> value."""
        horizon = self.view.kind.horizon(self.view, self.store_partition.store.stream_time)
        time_of = self.view.kind.time_of
        found = {}
        for stored_key, stored in self.store_partition.store.scan(ENTRY, EXPIRY):
            entry = decode_entry(stored)
            at = time_of(stored_key, entry.timestamp)
            if at >= horizon or self.view.store == "versioned":
                found[self.view.layout.entry_key(stored_key).key.decode(), at] = entry.value
        return found


@contextmanager
def partition(store: str) -> Iterator[Partition]:
    with TemporaryDirectory() as name:
        folder = DataDirectory(Path(name) / "data")
        made = Partition(folder, store)
        yield made
        made.store_partition.store.close()
        folder.close()


@pytest.mark.parametrize("store", STORES)
def test_a_record_of_the_far_future_expires_nobody_elses(store: str) -> None:
    with partition(store) as it:
        it.feed(1000, record(store, 0, "a", 980), record(store, 1, "b", FAR))
        it.feed(1001, record(store, 2, "c", 990), record(store, 3, "d", 1001))
        assert it.store_partition.store.stream_time == 1001
        assert it.alive().keys() == {("a", 980), ("b", FAR), ("c", 990), ("d", 1001)}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_stream_time_gets_there_when_the_clock_does(store: str, restarts: bool) -> None:
    with partition(store) as it:
        it.feed(1000, record(store, 0, "a", 990), record(store, 1, "b", 1100))
        it.feed(1001, record(store, 2, "e", 3000))
        for now, stream_time in ((1094, 990), (1095, 1100), (2994, 1100), (2995, 3000)):
            if restarts:
                it.restart()
            it.feed(now)
            assert it.store_partition.store.stream_time == stream_time, now
        if store != "versioned":  # of those the last version stays
            assert it.alive().keys() == {("e", 3000)}


@pytest.mark.parametrize("store", STORES)
def test_as_far_as_the_tolerance_stream_time_moves_at_once(store: str) -> None:
    with partition(store) as it:
        it.feed(1000, record(store, 0, "a", 1000 + TOLERANCE))
        assert it.store_partition.store.stream_time == 1000 + TOLERANCE
        it.feed(1000, record(store, 1, "a", 1001 + TOLERANCE))
        assert it.store_partition.store.stream_time == 1000 + TOLERANCE


LOG = st.lists(
    st.tuples(
        st.integers(0, 40),  # the clock moves so far before it comes
        st.sampled_from(["a", "b", "c"]),
        st.integers(-60, 20) | st.integers(-60, 400),  # its time, less the clock's
        st.none() | st.integers(0, 9),
        st.booleans(),  # whether the instance restarts then
    ),
    max_size=25,
)


@pytest.mark.parametrize("store", ["key-value", "window", "session"])
@given(log=LOG, more=st.integers(0, 500))
@settings(max_examples=40, deadline=None)
def test_a_replay_comes_to_the_same(store: str, log: list[Any], more: int) -> None:
    """Whoever has read the log as it came, and whoever reads it later, answer the same."""
    with partition(store) as live, partition(store) as later:
        now, records = 1000, []
        for offset, (passed, key, ahead, value, restarts) in enumerate(log):
            now += passed
            records.append(record(store, offset, key, now + ahead, value))
            if restarts:
                live.restart()
            live.feed(now, records[-1])
            assert (live.store_partition.store.stream_time or 0) <= now + TOLERANCE
        live.feed(now + more)
        later.feed(now + more, *records)
        assert live.store_partition.store.stream_time == later.store_partition.store.stream_time
        assert live.alive() == later.alive()


# From a version before


def facts(records: int) -> TopicMetadata:
    return TopicMetadata("topic-1", 1, {0: 0}, {0: records}, None, 0.0)


@pytest.mark.parametrize("store", STORES)
def test_one_whose_stream_time_is_in_the_future_already_is_rebuilt(
    tmp_path: Path, store: str
) -> None:
    of, now = view_of(store), time.time_ns() // 1_000_000
    folder = DataDirectory(tmp_path)
    opened, _ = folder.open("orders", 0)
    made_from = metadata(of, alive_at=now)
    opened.write(opened.new_batch(), 5, made_from, FAR)  # and everything has expired
    opened.close()
    store_partition, reason = open_partition(folder, of, 0, facts(5), 10)
    assert "ahead of the clock" in (reason or "")
    assert (store_partition.store.position, store_partition.store.stream_time) == (0, None)
    assert not store_partition.progress.answerable
    store_partition.store.close()
    # once is enough
    store_partition, reason = open_partition(folder, of, 0, facts(5), 10)
    assert reason is None
    store_partition.store.close()
    folder.close()


def test_a_clock_that_was_set_back_is_no_reason_to_rebuild(tmp_path: Path) -> None:
    of, now = view_of("window"), time.time_ns() // 1_000_000
    hour = 3_600_000
    folder = DataDirectory(tmp_path)
    opened, _ = folder.open("orders", 0)
    opened.write(opened.new_batch(), 5, metadata(of, alive_at=now + hour), now + hour)
    opened.close()
    store_partition, reason = open_partition(folder, of, 0, facts(5), 10)
    assert (reason, store_partition.store.stream_time) == (None, now + hour)
    store_partition.store.close()
    folder.close()


# All of ingest


@pytest.mark.parametrize("store", STORES)
def test_ingest_goes_by_this_machines_clock(tmp_path: Path, store: str) -> None:
    hour = 3_600_000
    of, now = view_of(store, retention=hour), time.time_ns() // 1_000_000
    folder, registry = DataDirectory(tmp_path), PartitionRegistry((of,))
    opened, _ = folder.open("orders", 0)
    opened.initialise(0, metadata(of))
    registry.add(StorePartition(of, 0, opened, Progress(0, 0, True), metadata(of), 0.0))
    ingest = ingest_without_broker(of, folder, registry)
    this = registry.get("orders", 0)
    assert this is not None
    log = [record(store, 0, "a", now - 10), record(store, 1, "b", FAR)]
    log += [record(store, 2, "c", now + hour), record(store, 3, "d", now)]
    ingest.applier.apply_run(this, cast(Any, log))
    ingest.applier.expire()
    assert this.store.stream_time == now
    assert len(list(this.store.scan(ENTRY, EXPIRY))) == 4
    assert this.ahead == now + hour
    opened.close()
    folder.close()
