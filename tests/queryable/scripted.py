"""Calls driven without servers: what is asked is written down, what comes back stands in a list."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from queryable.core.core import Core, Settings
from queryable.core.effects import (
    Call,
    Close,
    Exchange,
    NoConnection,
    Open,
    Pause,
    Read,
    Request,
    Response,
)

BASE = "http://proxy"

ORDERS = {
    "name": "orders", "topic": "orders", "path": "/orders", "key": "string", "value": "json",
    "store": "key-value", "partitioner": "murmur2", "partitions": 6,
}  # fmt: skip


class ScriptedStream:
    def __init__(self, chunks: list[bytes | NoConnection], status: int = 200) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self.chunks = chunks
        self.is_closed = False


Said = Response | NoConnection | ScriptedStream


def problem(status: int, code: str, **headers: str) -> Response:
    body = {"code": code, "detail": "It is so.", "status": status}
    return Response(status, named(headers), json.dumps(body).encode())


def ok(document: Any, **headers: str) -> Response:
    return Response(200, named(headers), json.dumps(document).encode())


def named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in headers.items()}


REFUSED = NoConnection("refused", may_have_arrived=False)
CUT = NoConnection("cut", may_have_arrived=True)


class Driver:
    """Drives calls; its clock goes on with pauses alone."""

    def __init__(self, *said: Said, direct: bool = False, timeout: float = 10.0) -> None:
        self.now = 100.0
        self.asked: list[Request] = []
        self.pauses: list[float] = []
        self.said = list(said)
        self.core = Core(Settings(BASE, timeout, direct), lambda: self.now)

    def ask(self, of: Callable[..., Call[Any]], *args: Any, **kwargs: Any) -> Any:
        return self.run(of(self.core, *args, **kwargs))

    def run(self, call: Call[Any]) -> Any:
        try:
            effect = next(call)
            while True:
                done: Any = None
                match effect:
                    case Exchange(request) | Open(request):
                        self.asked.append(request)
                        done = self.said.pop(0)
                    case Read(stream):
                        done = stream.chunks.pop(0)
                    case Close(stream):
                        stream.is_closed = True
                    case Pause(seconds):
                        self.pauses.append(seconds)
                        self.now += seconds
                if isinstance(done, NoConnection):
                    effect = call.throw(
                        NoConnection(str(done), may_have_arrived=done.may_have_arrived)
                    )
                else:
                    effect = call.send(done)
        except StopIteration as end:
            return end.value

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.asked]
