"""gunicorn's asgi worker, made to stop well, to bound its connections and to read by a short way.

As it comes, SIGTERM leaves idle keep-alive connections open until the arbiter kills the worker,
before the application's shutdown has run; `worker_connections` is not enforced; a client that
never reads its answer keeps its place for as long as it likes, and so does one that never sends a
request, or half of one; what is no valid request is refused
in plain text; and the scope, the task and the messages of an ASGI call cost more than a point read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi

from backend.server.plain_requests import body_of_reads, path_of_get
from backend.wire.answer import Answer, problem_answer
from model.problems import Problem

log = logging.getLogger("backend.worker")

_PATIENCE = 10.0  # s for requests under way when the worker is told to stop

# It notes on the class what the parser can do and reads it from ASGIProtocol by name: ask there,
# before the subclass is asked.
ASGIProtocol._check_h1c_protocol_available()


_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
# of what gunicorn refuses by itself; as nginx says it
_CODES = {
    408: "request-timeout",
    414: "uri-too-long",
    431: "headers-too-large",
    500: "internal-error",
    501: "not-implemented",
}


class _Clock:
    """The Server and Date headers, which end the header block; made once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._lines = b""

    def lines(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second = now
            date = formatdate(now, usegmt=True).encode()
            self._lines = b"Server: gunicorn/asgi\r\nDate: %b\r\n\r\n" % date
        return self._lines


_clock = _Clock()


def _response(answer: Answer) -> bytes:
    """The whole of it; headers of our own making need no check for line breaks."""
    parts = [_STATUS_LINES[answer.status]]
    for name, value in answer.headers:
        parts += (name, b": ", value, b"\r\n")
    parts += (_clock.lines(), answer.body)
    return b"".join(parts)


class _Connection(ASGIProtocol):  # type: ignore[misc]
    """A client's connection that its worker knows of, and that ends if nobody reads from it."""

    _unread = 0  # bytes that waited at the last look
    _next_look: Any = None
    _deadline: Any = None  # ends the wait for a request, or for the rest of one
    _has_begun = False  # the parser has got something of a request that is not answered yet
    _used_at = 0.0  # when a request was last answered at once: gunicorn knows nothing of it

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.worker.connections.add(self)
        if len(self.worker.connections) > self.worker.worker_connections:
            transport.abort()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self.worker.connections.discard(self)
        self._forget_look()
        self._forget_deadline()
        super().connection_lost(exc)

    def _set_deadline(self) -> None:
        self._forget_deadline()
        seconds = self.worker.asgi.request_timeout
        self._deadline = self.worker.loop.call_later(seconds, self._is_late)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _is_late(self) -> None:
        """The request is not whole yet; or none has begun on a new connection."""
        self._deadline = None
        if self._body_receiver is not None:
            # the reader of the body sees that it breaks off, and gunicorn closes behind the answer
            self._body_receiver._body_wait_expired = True
            self._body_receiver._wake_waiter()
            return
        if self._has_begun:
            seconds = self.worker.asgi.request_timeout
            self._send_error_response(408, f"The request has not arrived within {seconds:g} s")
        self._close_transport()
        self._request_ready.set()  # the task that waits for a request ends

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_later()

    def resume_writing(self) -> None:
        self._forget_look()
        super().resume_writing()

    def _look_later(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._next_look = self.worker.loop.call_later(self.worker.asgi.send_timeout, self._look)

    def _forget_look(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _look(self) -> None:
        """A slow reader has taken something since; who took nothing gets no more."""
        if self.transport.get_write_buffer_size() < self._unread:
            self._look_later()
            return
        self._next_look = None
        log.warning(
            "a client has read nothing for %g s, %d bytes wait for it: its connection is closed",
            self.worker.asgi.send_timeout,
            self._unread,
        )
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Point reads that can be answered at once go round gunicorn and ASGI; the answers are the
        same."""
        # nothing of a request may have been read before
        if not self._has_begun:
            answer = self._at_once(data)
            if answer is not None:
                self._forget_deadline()
                self._safe_write(_response(answer))
                self._used_at = self.worker.loop.time()
                if self._keepalive_handle is None:
                    self._arm_keepalive_timer()
                return
        super().data_received(data)

    def _at_once(self, data: bytes) -> Answer | None:
        if not self.worker.alive or self._flow_control.write_paused:
            return None
        if (path := path_of_get(data)) is not None:
            answer: Answer | None = self.worker.asgi.answer_now(path)
            return answer
        if (body := body_of_reads(data)) is not None:
            return self.worker.asgi.reads_now(body)  # type: ignore[no-any-return]
        return None

    def _feed_callback_parser(self, data: bytes) -> bool:
        if not self._has_begun:
            self._has_begun = True
            self._set_deadline()
        return bool(super()._feed_callback_parser(data))

    def _on_message_complete(self) -> None:
        self._forget_deadline()
        super()._on_message_complete()

    async def _serve_http_request(self, request: Any, sockname: Any, peername: Any) -> bool:
        keeps = bool(await super()._serve_http_request(request, sockname, peername))
        # what came behind it is fed to the parser before anything else can be received
        self._has_begun = not keeps
        return keeps

    def _keepalive_timeout(self) -> None:
        left = self._used_at + self._keepalive - self.worker.loop.time()
        if left > 0:
            self._keepalive_handle = self.worker.loop.call_later(left, self._keepalive_timeout)
        else:
            super()._keepalive_timeout()

    def _send_error_response(
        self, status: int, message: str, extra_headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Errors that no application is asked about are problem documents, too."""
        problem = Problem(_CODES.get(status, "bad-request"), f"{message.rstrip('.')}.")
        problem.status, problem.title = status, HTTPStatus(status).phrase
        more = [(name.encode(), value.encode()) for name, value in extra_headers]
        answer = problem_answer(problem, [*more, (b"connection", b"close")])
        answer.headers.append((b"content-length", b"%d" % len(answer.body)))
        self._safe_write(_response(answer))

    @property
    def idle(self) -> bool:
        return bool(getattr(self, "_awaiting_request", False))


class Worker(gasgi.ASGIWorker):  # type: ignore[misc]
    """Drains on SIGTERM: says so, closes idle connections, lets requests under way end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connections: set[_Connection] = set()
        self._drains = False
        # the worker's serve loop makes its connections by this name
        gasgi.ASGIProtocol = _Connection

    def run(self) -> None:
        # it listens anew without saying how many may wait, which then are 100: a proxy that opens
        # more connections at once than that would take the instance for dead
        self.loop.create_server = partial(self.loop.create_server, backlog=self.cfg.backlog)
        super().run()

    def handle_exit_signal(self) -> None:
        """Answers on until proxies and peers have heard of it; a second signal ends that."""
        if self._drains:
            super().handle_exit_signal()
            return
        self._drains = True
        self.loop.call_later(self.asgi.drain(), super().handle_exit_signal)

    async def _shutdown(self) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.connections):
            if connection.idle:
                connection.transport.close()
        # whatever does not end by itself must not cost the application its shutdown
        impatience = self.loop.call_later(_PATIENCE, self._abort_connections)
        await super()._shutdown()
        impatience.cancel()

    def _abort_connections(self) -> None:
        for connection in list(self.connections):
            connection.transport.abort()
