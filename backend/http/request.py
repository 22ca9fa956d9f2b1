"""The request, as route handlers get it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from time import perf_counter
from typing import Any

from backend.http.asgi import Receive, Scope, Send
from backend.http.sending import add_missing, role_of
from backend.security.cluster import Sender
from backend.security.identity import Identity
from backend.wire.answer import Header
from model.views import View


class Request:
    """A parsed request. Method, raw path, query string and headers are as received.

    `view`, `key` (percent-decoded text) and `more` are the variables of the path. `body` is the
    whole body, for routes that read one. `client`: the address of its socket; "" if it is unknown.
    `identity` is the sender, if authentication is on and the route needs a token; `is_admitted`
    says whether the token is still valid, for routes that stream. `sender` is the instance or proxy
    that has signed a request for an internal route. `is_from_cluster`: whether an instance or a
    proxy has sent the request, on a route that also admits tokens. `details` are for the audit log;
    `status` is that of a streamed answer, or 0; `started_at` (s, of perf_counter) and `answered_by`
    (see `role_of`) are known when it has started. `is_pinned`: whether the sender, another
    instance, has chosen the version of the view.
    """

    __slots__ = (
        "_extra_headers",
        "_send",
        "answered_by",
        "body",
        "client",
        "details",
        "headers",
        "identity",
        "is_admitted",
        "is_from_cluster",
        "is_pinned",
        "key",
        "method",
        "more",
        "query",
        "raw_path",
        "receive",
        "scope",
        "sender",
        "started_at",
        "status",
        "view",
        "was_started",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        extra_headers: Callable[[View | None], list[Header]],
        view: View | None = None,
        key: bytes = b"",
        more: Mapping[str, str] | None = None,
    ) -> None:
        """`extra_headers(view)`: added to streamed answers that do not have them."""
        self.scope = scope
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.headers: list[Header] = scope["headers"]
        self.client: str = (scope.get("client") or ("",))[0]
        self.sender: Sender | None = None
        self.view = view
        self.key = key
        self.more = more or {}
        self.body = b""
        self.details: dict[str, Any] = {}
        self.status = 0
        self.started_at = 0.0
        self.answered_by = ""
        self.identity: Identity | None = None
        self.is_admitted: Callable[[], bool] = lambda: True
        self.is_from_cluster = False
        self.receive = receive
        self._send = send
        self._extra_headers = extra_headers
        self.is_pinned = False
        self.was_started = False

    @property
    def of(self) -> View:
        """The view in the path; only for routes whose pattern has one."""
        assert self.view is not None
        return self.view

    @property
    def target(self) -> bytes:
        """The raw path with the query string."""
        return self.raw_path + b"?" + self.query if self.query else self.raw_path

    def header(self, name: bytes) -> bytes | None:
        """The value of the first header with this (lower-case) name, or None."""
        return next((value for given, value in self.headers if given == name), None)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """ASGI's `send`, for handlers that stream; adds the extra headers."""
        if message["type"] == "http.response.start":
            self.was_started = True
            self.status = message["status"]
            headers = list(message["headers"])
            add_missing(headers, self._extra_headers(self.view))
            message["headers"] = headers
            self.started_at, self.answered_by = perf_counter(), role_of(headers)
        await self._send(message)
