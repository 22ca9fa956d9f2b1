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
    """A parsed request. Method, raw path, query string and headers are as received. `__init__` says
    what each attribute is, and who sets it later."""

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
        "socket_address",
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
        # as received
        self.scope = scope
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.headers: list[Header] = scope["headers"]
        self.socket_address: str = (scope.get("client") or ("",))[0]  # "": unknown
        self.receive = receive
        self.body = b""  # the whole body, on routes that read one; set by the router
        # the variables of the path
        self.view = view  # `view_versions` may replace it by another version
        self.key = key  # percent-decoded
        self.more = more or {}
        self.is_pinned = False  # whether another instance has chosen the version of the view
        # the sender; set by the router and by `access`
        self.client = self.socket_address  # behind proxies: as `Clients.named_in` gives it
        self.identity: Identity | None = None  # if authentication is on, and the route needs it
        self.is_admitted: Callable[[], bool] = lambda: True  # whether the token is still valid
        self.is_from_cluster = False  # an instance or a proxy, on a route that also admits tokens
        self.sender: Sender | None = None  # an instance or a proxy, on an internal route
        # for the audit log; set by handlers
        self.details: dict[str, Any] = {}
        # the streamed answer; set by `send`
        self._send = send
        self._extra_headers = extra_headers
        self.was_started = False
        self.status = 0  # 0 until it was started
        self.started_at = 0.0  # s, of perf_counter
        self.answered_by = ""  # see `role_of`

    @property
    def routed_view(self) -> View:
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
