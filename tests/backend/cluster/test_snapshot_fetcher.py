"""Fetching snapshots from HTTP servers with every fault into a real data folder."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from typing import Any

import orjson
import pytest

from backend.ingest.lifecycle import snapshot_fetcher
from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.ingest.topic_metadata import TopicMetadata
from backend.storage.data_directory import DataDirectory
from backend.wire.snapshot import PATH, file_header
from bench.rows.copy import received
from local.ports import free_ports
from local.waiting import wait_until
from model.problems import Unavailable
from model.records import ENTRY
from model.topology import Member
from model.views import View
from tests.backend.snapshots import asked, member_of_a_group, question, stream_of
from tests.support.in_process.examples import ORDERS, view

ENTRIES = {b"key %d" % n: b"%d" % n for n in range(50)}
METADATA = TopicMetadata(
    "topic-1", 3, dict.fromkeys(range(3), 0), dict.fromkeys(range(3), 50), None, 0.0
)
SILENCE = 0.5  # s


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A complete snapshot, as an instance sends it."""
    folder = DataDirectory(tmp_path_factory.mktemp("source"))
    source = member_of_a_group(folder)
    source.hold(0, ENTRIES)
    sent, problem = asked(source, question())
    assert problem is None
    source.close()
    folder.close()
    return b"".join(message.get("body", b"") for message in sent)


class Source:
    """A fake instance on a port of its own. `respond(send, stream)` sends the body of the answer.
    `send` fails when the client has disconnected. The first `refusals` requests get a problem with
    `code`."""

    def __init__(self, id_: str, stream: bytes, respond: Callable[[Any, bytes], None]) -> None:
        source = self
        self.asked: list[int] = []  # the partitions
        self.refusals = 0.0
        self.code = "catching-up"
        self.concurrent = self.max_concurrent = 0
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.close_connection = True
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == PATH
                source._started(orjson.loads(body)["partition"])
                try:
                    if len(source.asked) <= source.refusals:
                        refusal = Unavailable(source.code, "Ask again later.").body()
                        self.send_response(503)
                        self.send_header("Content-Length", str(len(refusal)))
                        self.end_headers()
                        self.wfile.write(refusal)
                        return
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    respond(self._send, stream)
                except OSError:
                    pass  # the client has disconnected
                finally:
                    source._ended()

            def _send(self, piece: bytes) -> None:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self.member = Member(id_, "127.0.0.1", self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def _started(self, partition: int) -> None:
        with self._lock:
            self.asked.append(partition)
            self.concurrent += 1
            self.max_concurrent = max(self.max_concurrent, self.concurrent)

    def _ended(self) -> None:
        with self._lock:
            self.concurrent -= 1

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def whole(send: Any, stream: bytes) -> None:
    send(stream)
    send(b"")


def cut(send: Any, stream: bytes) -> None:
    """The connection is closed in the middle of the body."""
    send(stream[: len(stream) // 2])


def half(send: Any, stream: bytes) -> None:
    """A well-formed answer with half of the snapshot."""
    send(stream[: len(stream) // 2])
    send(b"")


def changed(send: Any, stream: bytes) -> None:
    at = stream.index(b"\n") + 10
    send(stream[:at] + bytes([stream[at] ^ 1]) + stream[at + 1 :])
    send(b"")


def no_store(send: Any, stream: bytes) -> None:
    """Complete files that are not a store."""
    send(stream_of({"CURRENT": b"MANIFEST-000001\n"}))
    send(b"")


def endless(send: Any, stream: bytes) -> None:
    """Sends until the client disconnects."""
    send(file_header("000001.sst", 1 << 60))
    while True:
        send(bytes(10_000))


@dataclass
class Setup:
    """A SnapshotFetcher with its folder and sources."""

    folder: DataDirectory
    snapshot_fetcher: SnapshotFetcher
    snapshot_sources: list[Member]
    in_several: set[str]

    def wait(self, of: View = ORDERS, partition: int = 0) -> None:
        """Waits for the end of a transfer."""
        wait_until(
            lambda: self.snapshot_fetcher.has_ended(of, partition, METADATA),
            20,
            "the end of the transfer",
            0.01,
        )

    def left(self) -> list[str]:
        """The names in the folder of the view."""
        return sorted(path.name for path in (self.folder.root / "orders").iterdir())


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    folder, snapshot_sources, in_several = DataDirectory(tmp_path), list[Member](), set[str]()
    snapshot_fetcher = SnapshotFetcher(
        folder,
        lambda view, partition: snapshot_sources,
        None,
        50,
        SILENCE,
        may_be_in_several=lambda view: view.name in in_several,
    )
    snapshot_fetcher.start()
    yield Setup(folder, snapshot_fetcher, snapshot_sources, in_several)
    snapshot_fetcher.stop(20)
    folder.close()


AddSource = Callable[..., Source]


@pytest.fixture
def add_source(setup: Setup, stream: bytes) -> Iterator[AddSource]:
    """`add_source(respond)`: adds a source, to be asked last."""
    made: list[Source] = []

    def start(respond: Callable[[Any, bytes], None]) -> Source:
        made.append(Source(f"b{len(made) + 2}", stream, respond))
        setup.snapshot_sources.append(made[-1].member)
        return made[-1]

    yield start
    for source in made:
        source.stop()


def test_no_source_is_asked_after_a_complete_copy(
    setup: Setup, add_source: AddSource, stream: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, second = add_source(whole), add_source(whole)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA)
    setup.wait()
    assert (first.asked, second.asked) == ([0], [])
    check_installed(setup)
    [(size, seconds)] = received(caplog.text)  # as `make bench` reads the log
    assert 0 < size < len(stream)
    assert 0 <= seconds < 20


def check_installed(setup: Setup, partitions: Sequence[str] = ("0",)) -> None:
    assert setup.left() == [*partitions]
    store, rebuilt = setup.folder.open("orders", 0)
    assert rebuilt is None
    assert store.position == len(ENTRIES)
    for key, value in ENTRIES.items():
        found = store.get(ENTRY + ORDERS.key_codec.to_store(key))
        assert found is not None
        assert found[16:] == value
    store.close()


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


@pytest.mark.parametrize("max_wait", [600.0, 0.0])
def test_a_source_that_is_busy_is_asked_again(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch, max_wait: float
) -> None:
    """Regression: the log was read, which may lack deletes of moved keys."""
    monkeypatch.setattr(snapshot_fetcher, "_ASK_AGAIN_AFTER", 0.01)
    monkeypatch.setitem(snapshot_fetcher._MAX_WAIT, "overloaded", max_wait)
    busy = add_source(whole)
    busy.code, busy.refusals = "overloaded", 3
    setup.wait()  # also as the active
    assert busy.asked == [0] * (4 if max_wait else 1)
    assert setup.left() == (["0"] if max_wait else [])


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


def test_a_standby_waits_for_an_instance_that_is_catching_up(
    setup: Setup, add_source: AddSource, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise two new instances would both replay all partitions that they share."""
    caplog.set_level(logging.INFO)
    source = add_source(whole)
    source.refusals = inf
    standby = partial(setup.snapshot_fetcher.has_ended, ORDERS, 0, METADATA, may_wait=True)
    assert not standby()
    wait_until(lambda: len(source.asked) >= 2, 20, "a second request", 0.01)
    assert not standby()
    assert setup.snapshot_fetcher.under_way()["orders", 0].is_waiting
    source.refusals = 0
    wait_until(standby, 20, "the end of the transfer", 0.01)
    check_installed(setup)
    assert caplog.text.count("cannot send a snapshot yet: catching-up") == 1
    assert "WARNING" not in caplog.text


def test_an_active_does_not_wait(setup: Setup, add_source: AddSource) -> None:
    source = add_source(whole)
    source.refusals = inf
    setup.wait()
    assert source.asked == [0]
    assert setup.left() == []


def test_a_standby_that_becomes_active_waits_no_longer(setup: Setup, add_source: AddSource) -> None:
    source = add_source(whole)
    source.refusals = inf
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA, may_wait=True)
    wait_until(lambda: len(source.asked) >= 2, 20, "a second request", 0.01)
    setup.wait()  # as the active
    assert setup.left() == []


def test_a_standby_does_not_wait_for_ever(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(snapshot_fetcher._MAX_WAIT, "catching-up", 0.6)
    source = add_source(whole)
    source.refusals = inf
    standby = partial(setup.snapshot_fetcher.has_ended, ORDERS, 0, METADATA, may_wait=True)
    assert not standby()
    wait_until(standby, 20, "the end of the wait", 0.01)
    assert len(source.asked) >= 2
    assert setup.left() == []


def test_the_time_in_the_queue_is_no_waiting(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: behind long transfers, a partition was not asked for again."""
    monkeypatch.setitem(snapshot_fetcher._MAX_WAIT, "overloaded", 0.9)
    proceed = threading.Event()

    def slow(send: Any, stream: bytes) -> None:
        send(stream[:10])
        for _ in range(6):
            proceed.wait(0.2)
            send(stream[10:11])
        raise OSError

    source = add_source(slow)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 1, METADATA)
    wait_until(lambda: source.asked, 20, "the first transfer", 0.01)
    source.code, source.refusals = "overloaded", inf
    setup.wait(partition=1)
    assert source.asked.count(1) >= 2


def test_a_partition_that_was_assigned_again_while_it_waited_is_copied_once(
    setup: Setup, add_source: AddSource
) -> None:
    source = add_source(whole)
    source.refusals = inf
    standby = partial(setup.snapshot_fetcher.has_ended, ORDERS, 0, METADATA, may_wait=True)
    assert not standby()
    wait_until(lambda: source.asked, 20, "a request", 0.01)
    setup.snapshot_fetcher.keep(set())
    source.refusals = 0
    asked_before = len(source.asked)
    assert not standby()
    wait_until(standby, 20, "the end of the transfer", 0.01)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 1, METADATA)
    setup.wait(partition=1)
    # the request of the first assignment is due by now, and is not repeated
    time.sleep(2 * snapshot_fetcher._ASK_AGAIN_AFTER)
    assert source.asked[asked_before:] == [0, 1]
    check_installed(setup, ["0", "1"])


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


def test_copies_are_fetched_one_at_a_time(setup: Setup, add_source: AddSource) -> None:
    source = add_source(whole)
    for partition in range(3):
        assert not setup.snapshot_fetcher.has_ended(ORDERS, partition, METADATA)
    for partition in range(3):
        setup.wait(partition=partition)
    assert source.asked == [0, 1, 2]
    assert source.max_concurrent == 1
    assert setup.left() == ["0", "1", "2"]


def test_stopping_the_instance_ends_a_copy_in_progress(setup: Setup, add_source: AddSource) -> None:
    add_source(endless)
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
    placed = replace(context.topology.views["orders"], active=(1,), standbys=((0, 2, 3),))
    context.topology = replace(context.topology, members=members, views={"orders": placed})
    context.peers.keep(member.id for member in members)

    def order() -> list[str]:
        return [member.id for member in context.snapshot_sources("orders", 0)]

    assert order() == ["b3", "b4", "b2"]
    context.peers.failed("b3")
    assert order() == ["b4", "b2", "b3"]
    context.peers.failed("b2")
    assert order() == ["b4", "b3", "b2"]
    assert context.snapshot_sources("orders", 7) == []
    folder.close()
