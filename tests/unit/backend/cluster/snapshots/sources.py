"""Other instances that send snapshots, with every fault, and a fetcher with a real data folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.storage.data_directory import DataDirectory
from backend.wire.snapshot import PATH, file_header
from local.waiting import wait_until
from model.problems import Unavailable
from model.records import ENTRY
from model.topology import Member
from model.views import View
from tests.support.in_process.examples import ORDERS
from tests.unit.backend.snapshots import stream_of

ENTRIES = {b"key %d" % n: b"%d" % n for n in range(50)}
METADATA = TopicMetadata(
    "topic-1", 3, dict.fromkeys(range(3), 0), dict.fromkeys(range(3), 50), None, 0.0
)
SILENCE = 0.5  # s


class Source:
    """A fake instance on a port of its own. `respond(send, stream)` sends the body of the answer.
    `send` fails when the client has disconnected. The first `refusals` requests get a problem with
    `code` and the `seconds_left` of their partition."""

    def __init__(self, id_: str, stream: bytes, respond: Callable[[Any, bytes], None]) -> None:
        source = self
        self.asked: list[int] = []  # the partitions
        self.respond = respond
        self.refusals = 0.0
        self.code = "catching-up"
        self.seconds_left: dict[int, object] = {}
        self.concurrent = self.max_concurrent = 0
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.close_connection = True
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == PATH
                partition = orjson.loads(body)["partition"]
                source._started(partition)
                try:
                    if len(source.asked) <= source.refusals:
                        left = source.seconds_left.get(partition)
                        refusal = Unavailable(
                            source.code, "Ask again later.", seconds_left=left
                        ).body()
                        self.send_response(503)
                        self.send_header("Content-Length", str(len(refusal)))
                        self.end_headers()
                        self.wfile.write(refusal)
                        return
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    source.respond(self._send, stream)
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


def drip(send: Any, stream: bytes) -> None:
    """As `endless`, but a byte now and then."""
    send(file_header("000001.sst", 1 << 60))
    while True:
        send(b"x")
        time.sleep(0.02)


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


AddSource = Callable[..., Source]


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
