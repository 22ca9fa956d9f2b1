"""Server-sent events of one key: its value, then every change, across rebalances."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.client import TIMEOUT, key_path
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer


@dataclass(frozen=True)
class Event:
    id: str
    kind: str
    data: Any

    @property
    def offset(self) -> int:
        return int(self.id.partition(":")[2])


class Stream:
    """An open stream, read by a thread until the server ends it."""

    def __init__(self, port: int, path: str, last_event_id: str | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        resumed = f"Last-Event-ID: {last_event_id}\r\n" if last_event_id else ""
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: t\r\n{resumed}\r\n".encode())
        self._events: queue.Queue[Event] = queue.Queue()
        self.head = b""
        self._thread = threading.Thread(target=self._read, name="sse", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        seen = b""
        try:
            while chunk := self._socket.recv(65536):
                seen += chunk
                if not self.head and b"\r\n\r\n" in seen:
                    self.head, _, seen = seen.partition(b"\r\n\r\n")
                seen = self._take(seen)
                if seen.rstrip().endswith(b"\r\n0") or seen.strip() == b"0":
                    return
        except OSError:
            return

    def _take(self, seen: bytes) -> bytes:
        """Events end with an empty line; chunk sizes are on separate lines."""
        *events, rest = seen.replace(b"\r\n", b"\r").split(b"\n\n")
        for text in events:
            fields = dict(
                line.decode().split(": ", 1)
                for line in text.replace(b"\r", b"\n").splitlines()
                if b": " in line and not line.startswith(b":")
            )
            if fields:
                self._events.put(Event(fields["id"], fields["event"], json.loads(fields["data"])))
        return rest.replace(b"\r", b"\r\n")

    def next(self) -> Event:
        return self._events.get(timeout=TIMEOUT)

    def silent(self) -> bool:
        return self._events.empty()

    def wait_end(self) -> None:
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()

    def close(self) -> None:
        with suppress(OSError):  # the server was faster
            # close() alone would wait for the reading thread
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def stream(port: int, key: str, last_event_id: str | None = None) -> Iterator[Stream]:
    opened = Stream(port, key_path("v", key) + "/changes", last_event_id)
    try:
        yield opened
    finally:
        opened.close()


def owner_of(backend: Backend, key: str) -> str:
    return backend.get(key_path("v", key)).headers["Served-By"].partition(";")[0]


def test_every_instance_sends_every_change_once_and_in_order(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(4)
    writer.table(topic, {"a": 0, "other": 1})
    deployment = deploy(views_toml(v={"topic": topic}))
    backends = deployment.start(2)
    nginx = deployment.proxy()
    ports = [*(backend.port for backend in backends), nginx.port]
    opened = [Stream(port, key_path("v", "a") + "/changes") for port in ports]
    for each in opened:
        first = each.next()
        assert (first.kind, first.data) == ("value", {"key": "a", "value": 0})
        assert b"text/event-stream" in each.head
    for number in range(1, 30):
        writer.table(topic, {"a": number, "other": number})
    writer.table(topic, {"a": None})
    # a value that cannot be read is a change, too
    writer.send(topic, [(b"a", b"{broken")])
    writer.table(topic, {"a": {"last": True}})
    for each in opened:
        events = [each.next() for _ in range(32)]
        assert [e.data.get("value") for e in events[:29]] == list(range(1, 30))
        assert (events[29].kind, events[29].data) == ("deleted", {"key": "a"})
        assert (events[30].kind, events[30].data["key"]) == ("unreadable", "a")
        assert "not JSON" in events[30].data["unreadable"]["reason"]
        assert events[31].data == {"key": "a", "value": {"last": True}}
        offsets = [event.offset for event in events]
        assert offsets == sorted(set(offsets))
        each.close()


def test_a_stream_resumes_at_its_position_on_another_instance(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(1)
    writer.table(topic, {"a": 0})
    deployment = deploy(views_toml(v={"topic": topic}))
    backends = deployment.start(2)
    owner = next(b for b in backends if b.id == owner_of(backends[0], "a"))
    [other] = [backend for backend in backends if backend is not owner]
    with stream(owner.port, "a") as before, stream(other.port, "a") as forwarded:
        last = before.next()
        assert forwarded.next() == last
        owner.stop()
        before.wait_end()
        forwarded.wait_end()
    other.wait_ready(1)
    with stream(other.port, "a", last.id) as resumed:
        # there is no event without a new record, and one for the next record
        writer.table(topic, {"a": 1})
        event = resumed.next()
        assert (event.data["value"], event.offset > last.offset) == (1, True)
        assert resumed.silent()
    writer.table(topic, {"a": 2})
    wait_until(
        lambda: other.get(key_path("v", "a")).json()["value"] == 2, 10, "the change to be applied"
    )
    with stream(other.port, "a", event.id) as resumed:
        # a change while there was no stream
        assert resumed.next().data["value"] == 2
    with stream(other.port, "nobody") as absent:
        first = absent.next()
        assert (first.kind, first.data) == ("deleted", {"key": "nobody"})


def test_disconnected_clients_free_their_streams(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(1)
    writer.table(topic, {"a": 0})
    # one client may have three of four streams
    [backend] = deploy(views_toml(v={"topic": topic}), max_streams="4").start(1)
    for _ in range(4):
        opened = wait_until(lambda: open_streams(backend, 3), 10, "room for three streams")
        for each in opened:
            assert each.next().data["value"] == 0
        refused = backend.get(key_path("v", "a") + "/changes")
        assert (refused.status, refused.code) == (503, "overloaded")
        for each in opened:
            each.close()
    assert backend.get(key_path("v", "a")).status == 200


def open_streams(backend: Backend, count: int) -> list[Stream]:
    """All streams, or none if one is rejected."""
    opened = [Stream(backend.port, key_path("v", "a") + "/changes") for _ in range(count)]
    for each in opened:
        wait_until(lambda each=each: each.head, 10, "an answer")
    if all(b" 200 " in each.head for each in opened):
        return opened
    for each in opened:
        each.close()
    return []
