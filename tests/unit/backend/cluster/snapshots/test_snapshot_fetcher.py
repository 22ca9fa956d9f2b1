"""Fetching snapshots from HTTP servers with every fault into a real data folder."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.lifecycle import snapshot_fetcher
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.storage.data_directory import DataDirectory
from local.ports import free_ports
from local.waiting import wait_until
from model.topology import Member
from model.views import View
from tests.support.in_process.examples import ORDERS, view
from tests.unit.backend.cluster.snapshots.sources import (
    METADATA,
    AddSource,
    Setup,
    changed,
    check_installed,
    cut,
    drip,
    endless,
    half,
    no_store,
    whole,
)
from tests.unit.backend.snapshots import member_of_a_group


def test_no_source_is_asked_after_a_complete_copy(
    setup: Setup, add_source: AddSource, stream: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, second = add_source(whole), add_source(whole)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA)
    setup.wait()
    assert (first.asked, second.asked) == ([0], [])
    check_installed(setup)
    pattern = r"received a snapshot of (\d+) bytes from \S+ in ([0-9.]+) s"
    [(size, seconds)] = re.findall(pattern, caplog.text)
    assert 0 < int(size) < len(stream)
    assert 0 <= float(seconds) < 20


@pytest.mark.parametrize("fault", [cut, half, changed, no_store])
def test_after_one_that_fails_the_next_is_asked(
    setup: Setup, add_source: AddSource, fault: Any
) -> None:
    first, second, third = add_source(fault), add_source(whole), add_source(whole)
    setup.wait()
    assert (first.asked, second.asked, third.asked) == ([0], [0], [])
    check_installed(setup)


def test_a_transfer_that_has_failed_is_repeated_later_if_the_store_is_needed(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = add_source(cut)
    setup.wait()
    setup.snapshot_sources.clear()
    add_source(whole)
    setup.snapshot_fetcher.retry(ORDERS, 0)
    assert setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA), "too early"
    monkeypatch.setattr(snapshot_fetcher, "_RETRY_AFTER", 0.0)
    setup.snapshot_fetcher.retry(ORDERS, 0)
    setup.wait()
    assert failing.asked == [0]
    check_installed(setup)


@pytest.mark.slow
def test_after_a_source_that_refuses_or_is_silent_the_next_is_asked(
    setup: Setup, add_source: AddSource
) -> None:
    gone = threading.Event()

    def silent(send: Any, stream: bytes) -> None:
        send(stream[: len(stream) // 2])
        gone.wait(20)

    setup.snapshot_sources.append(Member("nobody", "127.0.0.1", *free_ports(1)))
    first, second = add_source(silent), add_source(whole)
    setup.wait()
    gone.set()
    assert (first.asked, second.asked) == ([0], [0])
    check_installed(setup)


def test_without_a_copy_the_log_is_read(setup: Setup, add_source: AddSource) -> None:
    snapshot_sources = [add_source(fault) for fault in (cut, half, changed, no_store)]
    setup.wait()
    assert [source.asked for source in snapshot_sources] == [[0]] * 4
    assert setup.left() == []
    assert setup.snapshot_fetcher.under_way() == {}
    setup.wait()
    assert [source.asked for source in snapshot_sources] == [[0]] * 4, "no source is asked again"
    # when the partition is assigned again, the sources are asked again
    setup.snapshot_fetcher.keep(set())
    add_source(whole)
    setup.wait()
    check_installed(setup)


def test_a_folder_that_cannot_be_written_does_not_end_the_thread(
    setup: Setup, add_source: AddSource
) -> None:
    add_source(whole)
    of = view("other")
    blocking_file = setup.folder.root / of.name
    blocking_file.touch()
    setup.wait(of)
    blocking_file.unlink()
    setup.wait()
    check_installed(setup)


def test_two_copies_are_fetched_at_a_time(setup: Setup, add_source: AddSource) -> None:
    proceed = threading.Event()

    def waiting(send: Any, stream: bytes) -> None:
        send(stream[:10])
        proceed.wait(20)
        send(stream[10:])
        send(b"")

    source = add_source(waiting)
    for partition in range(3):
        assert not setup.snapshot_fetcher.has_ended(ORDERS, partition, METADATA)
    wait_until(lambda: len(source.asked) == 2, 20, "two copies in progress", 0.01)
    proceed.set()
    for partition in range(3):
        setup.wait(partition=partition)
    assert sorted(source.asked) == [0, 1, 2]
    assert source.max_concurrent == 2
    assert setup.left() == ["0", "1", "2"]


def test_a_copy_that_is_not_needed_any_more_is_abandoned_before_the_next_one(
    setup: Setup, add_source: AddSource, caplog: pytest.LogCaptureFixture
) -> None:
    source, other = add_source(endless), add_source(whole)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA)
    wait_until(lambda: source.asked, 20, "the first copy", 0.01)
    source.respond = whole
    setup.snapshot_fetcher.keep(set())
    setup.wait()
    assert "it is no longer needed" in caplog.text
    assert (source.asked, other.asked) == ([0, 0], [])
    check_installed(setup)


@pytest.mark.parametrize("respond", [endless, drip])
def test_stopping_the_instance_ends_a_copy_in_progress(
    setup: Setup, add_source: AddSource, respond: Callable[[Any, bytes], None]
) -> None:
    """Regression: a source that drips was noticed after 256 kB only."""
    add_source(respond)
    other = add_source(whole)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA)

    def has_begun() -> bool:
        copying = setup.snapshot_fetcher.under_way().get(("orders", 0))
        return copying is not None and copying.received > 0

    wait_until(has_begun, 20, "its first bytes", 0.01)
    setup.snapshot_fetcher.stop(20)
    assert other.asked == []
    assert setup.left() == []


def test_partitions_that_are_not_copied(setup: Setup, add_source: AddSource) -> None:
    def is_not_copied(
        of: View = ORDERS, partition: int = 0, topic_metadata: TopicMetadata = METADATA
    ) -> bool:
        return setup.snapshot_fetcher.has_ended(of, partition, topic_metadata)

    assert is_not_copied(), "no sources"
    source = add_source(whole)
    assert is_not_copied(topic_metadata=replace(METADATA, ends={0: 149}, starts={0: 100})), (
        "too few records"
    )
    assert is_not_copied(of=view(persistence="memory"))
    assert is_not_copied(of=view(store="tests.stores:Store"))
    setup.folder.path("orders", 2).mkdir(parents=True)
    assert is_not_copied(partition=2), "it exists already"
    assert source.asked == []
    assert not is_not_copied(), "fifty records are enough"


def test_a_small_partition_is_copied_if_its_topic_may_lack_tombstones(
    setup: Setup, add_source: AddSource
) -> None:
    """Kafka compacts each partition: the delete of a key may be gone from one, and its value still
    be in another. A copy has the delete."""
    source = add_source(whole)
    few = replace(METADATA, ends={0: 149}, starts={0: 100}, delete_retention=1000)
    assert setup.snapshot_fetcher.has_ended(ORDERS, 0, few)
    setup.in_several.add("orders")
    assert setup.snapshot_fetcher.has_ended(ORDERS, 0, replace(few, delete_retention=None))
    assert setup.snapshot_fetcher.has_ended(ORDERS, 0, replace(few, ends={0: 100})), "it is empty"
    assert source.asked == []
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, few)
    setup.wait()
    check_installed(setup)


def test_the_order_of_sources(tmp_path: Path) -> None:
    """Standbys are asked before the active, and suspects last."""
    folder = DataDirectory(tmp_path)
    context = member_of_a_group(folder).context
    members = tuple(Member(f"b{n}", "127.0.0.1", 8080 + n) for n in range(1, 5))
    placed = replace(context.group.topology.views["orders"], active=(1,), standbys=((0, 2, 3),))
    context.group.topology = replace(
        context.group.topology, members=members, views={"orders": placed}
    )
    context.group.peers.keep(member.id for member in members)

    def order() -> list[str]:
        return [member.id for member in context.group.snapshot_sources("orders", 0)]

    assert order() == ["b3", "b4", "b2"]
    context.group.peers.failed("b3")
    assert order() == ["b4", "b2", "b3"]
    context.group.peers.failed("b2")
    assert order() == ["b4", "b3", "b2"]
    assert context.group.snapshot_sources("orders", 7) == []
    folder.close()
