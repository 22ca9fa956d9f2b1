"""Runs calls without a server: responses come from a script, and requests are recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from queryable.client.methods import SyncRunner
from queryable.client.protocol.calls import metadata
from queryable.client.protocol.context import ClientContext, Settings
from queryable.client.protocol.transport import (
    Call,
    CloseStream,
    Exchange,
    OpenStream,
    ReadChunk,
    Request,
    Response,
    Sleep,
    TransportError,
)

BASE = "http://proxy"

ORDERS = {
    "name": "orders", "topic": "orders", "path": "/orders", "key": "string", "value": "json",
    "store": "key-value", "partitioner": "murmur2", "partitions": 6,
}  # fmt: skip


class ScriptedStream:
    def __init__(self, chunks: list[bytes | TransportError], status: int = 200) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self.chunks = chunks
        self.is_closed = False


def stream_of(version: int, *chunks: bytes | TransportError) -> ScriptedStream:
    """Of a version of the view, soon after a switch."""
    stream = ScriptedStream([*chunks])
    stream.headers = {"view-version": str(version), "topology-epoch": "5-2"}
    return stream


Reply = Response | TransportError | ScriptedStream


def problem(status: int, code: str, **headers: str) -> Response:
    body = {"code": code, "detail": "A detail.", "status": status}
    return Response(status, named(headers), json.dumps(body).encode())


def ok(document: Any, **headers: str) -> Response:
    return Response(200, named(headers), json.dumps(document).encode())


def named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in headers.items()}


REFUSED = TransportError("refused", may_have_arrived=False)
CUT = TransportError("cut", may_have_arrived=True)
LATE = TransportError("no answer in time", may_have_arrived=True, timed_out=True)


class Driver(SyncRunner):
    """Runs calls, also of a TypedView. Its clock advances only when a call sleeps, or reads if
    `seconds_per_read`."""

    def __init__(
        self,
        *replies: Reply,
        direct: bool = False,
        timeout: float = 10.0,
        other_urls: tuple[str, ...] = (),
        seconds_per_read: float = 0.0,
    ) -> None:
        self.seconds_per_read = seconds_per_read
        self.now = 100.0
        self.requests: list[Request] = []
        self.sleeps: list[float] = []
        self.replies = list(replies)
        self.context = self._context = ClientContext(
            Settings(BASE, timeout, direct, other_urls=other_urls), lambda: self.now
        )

    def call(self, call: Callable[..., Call[Any]], *args: Any, **kwargs: Any) -> Any:
        return self.run(call(self.context, *args, **kwargs))

    def run(self, call: Call[Any]) -> Any:
        try:
            operation = next(call)
            while True:
                result: Any = None
                match operation:
                    case Exchange(request) | OpenStream(request):
                        self.requests.append(request)
                        result = self.replies.pop(0)
                    case ReadChunk(stream):
                        result = stream.chunks.pop(0)
                        self.now += self.seconds_per_read
                    case CloseStream(stream):
                        stream.is_closed = True
                    case Sleep(seconds):
                        self.sleeps.append(seconds)
                        self.now += seconds
                if isinstance(result, TransportError):
                    operation = call.throw(
                        TransportError(
                            str(result),
                            may_have_arrived=result.may_have_arrived,
                            is_final=result.is_final,
                            timed_out=result.timed_out,
                        )
                    )
                else:
                    operation = call.send(result)
        except StopIteration as end:
            return end.value

    _run = run

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]


PROCESSORS = {
    "epoch": "5-1",
    "views": {"orders": {"partitions": 6, "partitioner": "murmur2"}},
    "processors": [
        {"id": "b1", "host": "h1", "port": 1, "state": "running",
         "topicPartitions": {"orders": [0, 1, 2]}, "standbyPartitions": {"orders": [3, 4, 5]}},
        {"id": "b2", "host": "h2", "port": 2, "state": "running",
         "topicPartitions": {"orders": [3, 4, 5]}, "standbyPartitions": {"orders": [0, 1, 2]}},
    ],
}  # fmt: skip


VALUE = ok({"key": "a", "value": 1}, partition="2", offset="7", lag="0", served_by="b1; active")


def orders(*replies: Reply, **options: Any) -> Driver:
    """A driver whose client has fetched the view `orders`."""
    driver = Driver(ok(ORDERS), *replies, **options)
    driver.call(metadata.view, "orders")
    driver.requests.clear()
    return driver


def rows(driver: Driver, call: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """All rows of a call that returns a pager."""
    pager = driver.call(call, *args, **kwargs)
    result: list[Any] = []
    while (page := driver.run(pager.next())) is not None:
        result += page
    driver.run(pager.close())
    return result
