"""Fetching copies: from real HTTP servers that fail in every way, into a real data folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.ingest.topic_metadata import TopicMetadata
from backend.storage.data_directory import DataDirectory
from backend.wire.signing import sign, verified
from backend.wire.snapshot import PATH, file_header
from local.ports import free_ports
from local.waiting import wait_until
from model.records import ENTRY
from model.topology import Member
from model.views import View
from tests.backend.snapshots import asked, member_of_a_group, question, stream_of
from tests.support.in_process.examples import ORDERS, view

ENTRIES = {b"key %d" % n: b"%d" % n for n in range(50)}
FACTS = TopicMetadata(
    "topic-1", 3, dict.fromkeys(range(3), 0), dict.fromkeys(range(3), 50), None, 0.0
)
SILENCE = 0.5  # s; long enough for what does come


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole copy, as an instance sends it."""
    folder = DataDirectory(tmp_path_factory.mktemp("giver"))
    giver = member_of_a_group(folder)
    giver.hold(0, ENTRIES)
    sent, problem = asked(giver, sign(question(), "s"))
    assert problem is None
    giver.close()
    folder.close()
    return b"".join(message.get("body", b"") for message in sent)


class Giver:
    """One that is asked for copies, on a port of its own. `tell(send, stream)` is its answer, of
    status 200; `send` fails once the other side has gone."""

    def __init__(self, id_: str, stream: bytes, tell: Callable[[Any, bytes], None]) -> None:
        giver = self
        self.asked: list[int] = []  # the partitions
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.close_connection = True
                body = self.rfile.read(int(self.headers["Content-Length"]))
                text = verified(body, "s")
                assert text is not None
                assert self.path == PATH
                giver._began(orjson.loads(text)["partition"])
                try:
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    tell(self._send, stream)
                except OSError:
                    pass  # who asked has gone
                finally:
                    giver._ended()

            def _send(self, piece: bytes) -> None:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self.member = Member(id_, "127.0.0.1", self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def _began(self, partition: int) -> None:
        with self._lock:
            self.asked.append(partition)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)

    def _ended(self) -> None:
        with self._lock:
            self.at_once -= 1

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def whole(send: Any, stream: bytes) -> None:
    send(stream)
    send(b"")


def cut(send: Any, stream: bytes) -> None:
    """The connection ends in the middle."""
    send(stream[: len(stream) // 2])


def half(send: Any, stream: bytes) -> None:
    """The answer ends as it should, and is not the whole."""
    send(stream[: len(stream) // 2])
    send(b"")


def changed(send: Any, stream: bytes) -> None:
    at = stream.index(b"\n") + 10
    send(stream[:at] + bytes([stream[at] ^ 1]) + stream[at + 1 :])
    send(b"")


def no_store(send: Any, stream: bytes) -> None:
    """Whole files, of something else."""
    send(stream_of({"CURRENT": b"MANIFEST-000001\n"}))
    send(b"")


def endless(send: Any, stream: bytes) -> None:
    """Until who asked has gone."""
    send(file_header("000001.sst", 1 << 60))
    while True:
        send(bytes(10_000))


@dataclass
class SnapshotSender:
    """A copier, its folder, and those it may ask."""

    folder: DataDirectory
    snapshot_fetcher: SnapshotFetcher
    snapshot_sources: list[Member]

    def wait(self, of: View = ORDERS, partition: int = 0) -> None:
        """Until a copy that was asked for is there, or cannot be had."""
        wait_until(
            lambda: self.snapshot_fetcher.has_ended(of, partition, FACTS), 20, "its end", 0.01
        )

    def left(self) -> list[str]:
        """What is in the view's folder."""
        return sorted(path.name for path in (self.folder.root / "orders").iterdir())


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[SnapshotSender]:
    folder, snapshot_sources = DataDirectory(tmp_path), list[Member]()
    snapshot_fetcher = SnapshotFetcher(
        folder, lambda view, partition: snapshot_sources, lambda: "s", 50, SILENCE
    )
    snapshot_fetcher.start()
    yield SnapshotSender(folder, snapshot_fetcher, snapshot_sources)
    snapshot_fetcher.stop(20)
    folder.close()


Give = Callable[..., Giver]


@pytest.fixture
def give(copies: SnapshotSender, stream: bytes) -> Iterator[Give]:
    """`give(tell)`: one more giver, asked after those before it."""
    made: list[Giver] = []

    def start(tell: Callable[[Any, bytes], None]) -> Giver:
        made.append(Giver(f"b{len(made) + 2}", stream, tell))
        copies.snapshot_sources.append(made[-1].member)
        return made[-1]

    yield start
    for giver in made:
        giver.stop()


def test_the_first_one_that_gives_a_whole_copy_is_the_last_to_be_asked(
    copies: SnapshotSender, give: Give
) -> None:
    first, second = give(whole), give(whole)
    assert not copies.snapshot_fetcher.has_ended(ORDERS, 0, FACTS)
    copies.wait()
    assert (first.asked, second.asked) == ([0], [])
    check_adopted(copies)


def check_adopted(copies: SnapshotSender) -> None:
    assert copies.left() == ["0"]
    store, rebuilt = copies.folder.open("orders", 0)
    assert rebuilt is None
    assert store.position == len(ENTRIES)
    for key, value in ENTRIES.items():
        found = store.get(ENTRY + ORDERS.key_codec.to_store(key))
        assert found is not None
        assert found[16:] == value
    store.close()


@pytest.mark.parametrize("fault", [cut, half, changed, no_store])
def test_after_one_that_fails_the_next_is_asked(
    copies: SnapshotSender, give: Give, fault: Any
) -> None:
    first, second, third = give(fault), give(whole), give(whole)
    copies.wait()
    assert (first.asked, second.asked, third.asked) == ([0], [0], [])
    check_adopted(copies)


def test_after_one_that_refuses_or_is_silent_the_next_is_asked(
    copies: SnapshotSender, give: Give
) -> None:
    gone = threading.Event()

    def silent(send: Any, stream: bytes) -> None:
        send(stream[: len(stream) // 2])
        gone.wait(20)

    copies.snapshot_sources.append(Member("nobody", "127.0.0.1", *free_ports(1)))
    first, second = give(silent), give(whole)
    copies.wait()
    gone.set()
    assert (first.asked, second.asked) == ([0], [0])
    check_adopted(copies)


def test_when_nobody_gives_one_it_is_read_from_the_log(copies: SnapshotSender, give: Give) -> None:
    snapshot_sources = [give(fault) for fault in (cut, half, changed, no_store)]
    copies.wait()
    assert [giver.asked for giver in snapshot_sources] == [[0]] * 4
    assert copies.left() == []
    assert copies.snapshot_fetcher.under_way() == {}
    copies.wait()
    assert [giver.asked for giver in snapshot_sources] == [[0]] * 4, "nobody is asked again"
    # once it is no longer wanted, a new one is worth another try
    copies.snapshot_fetcher.keep(set())
    give(whole)
    copies.wait()
    check_adopted(copies)


def test_a_folder_that_cannot_be_written_to_ends_no_thread(
    copies: SnapshotSender, give: Give
) -> None:
    give(whole)
    of = view("other")
    in_the_way = copies.folder.root / of.name
    in_the_way.touch()
    copies.wait(of)
    in_the_way.unlink()
    copies.wait()
    check_adopted(copies)


def test_one_copy_at_a_time(copies: SnapshotSender, give: Give) -> None:
    giver = give(whole)
    for partition in range(3):
        assert not copies.snapshot_fetcher.has_ended(ORDERS, partition, FACTS)
    for partition in range(3):
        copies.wait(partition=partition)
    assert giver.asked == [0, 1, 2]
    assert giver.most_at_once == 1
    assert copies.left() == ["0", "1", "2"]


def test_a_copy_under_way_ends_with_the_instance(copies: SnapshotSender, give: Give) -> None:
    give(endless)
    other = give(whole)
    assert not copies.snapshot_fetcher.has_ended(ORDERS, 0, FACTS)

    def comes() -> bool:
        copying = copies.snapshot_fetcher.under_way().get(("orders", 0))
        return copying is not None and copying.received > 0

    wait_until(comes, 20, "its first bytes", 0.01)
    copies.snapshot_fetcher.stop(20)
    assert other.asked == []
    assert copies.left() == []


def test_what_is_not_worth_a_copy(copies: SnapshotSender, give: Give) -> None:
    def none_is_made(
        of: View = ORDERS, partition: int = 0, topic_metadata: TopicMetadata = FACTS
    ) -> bool:
        return copies.snapshot_fetcher.has_ended(of, partition, topic_metadata)

    assert none_is_made(), "there is nobody to ask"
    giver = give(whole)
    assert none_is_made(topic_metadata=replace(FACTS, ends={0: 149}, starts={0: 100})), (
        "too few records"
    )
    assert none_is_made(of=view(persistence="memory"))
    assert none_is_made(of=view(store="tests.stores:Store"))
    copies.folder.path("orders", 2).mkdir(parents=True)
    assert none_is_made(partition=2), "it lies there"
    assert giver.asked == []
    assert not none_is_made(), "fifty are enough"


def test_whom_to_ask(tmp_path: Path) -> None:
    """Standbys have time for it; who seems to be dead may be alive all the same."""
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
