"""One request, as the handlers of routes see it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from backend.http.asgi import Receive, Scope, Send
from backend.wire.answer import Header
from model.views import View


class Request:
    """Method, raw path, query string and headers as they came; what the path names; the body.

    `view` and `key` (percent-decoded text) are those of the path, if it has them; `more` has its
    other variables. `body` is the whole body, of routes that read one.
    """

    __slots__ = (
        "_send",
        "_started_with",
        "body",
        "headers",
        "key",
        "method",
        "more",
        "query",
        "raw_path",
        "receive",
        "view",
        "was_started",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        started_with: Header,
        view: View | None = None,
        key: bytes = b"",
        more: Mapping[str, str] | None = None,
    ) -> None:
        """`started_with`: the header that every streamed answer has."""
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.headers: list[Header] = scope["headers"]
        self.view = view
        self.key = key
        self.more = more or {}
        self.body = b""
        self.receive = receive
        self._send = send
        self._started_with = started_with
        self.was_started = False

    @property
    def of(self) -> View:
        """The view that the path names; only for routes whose pattern has one."""
        assert self.view is not None
        return self.view

    def header(self, name: bytes) -> bytes | None:
        """The first header of this (lower-case) name."""
        return next((value for given, value in self.headers if given == name), None)

    @property
    def target(self) -> bytes:
        """Path and query, to forward the request."""
        return self.raw_path + b"?" + self.query if self.query else self.raw_path

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """For handlers that stream: ASGI's `send`; adds the header that every answer has."""
        if message["type"] == "http.response.start":
            self.was_started = True
            message["headers"] = [*message["headers"], self._started_with]
        await self._send(message)
