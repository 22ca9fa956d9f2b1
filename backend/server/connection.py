"""A client's connection: reads HTTP/1.1 requests and writes responses."""

from __future__ import annotations

import asyncio
from functools import cached_property, partial
from time import perf_counter
from typing import Any

from gunicorn.asgi.parser import CallbackRequest

from backend.http.asgi import CLIENT_EXTENSION, RECEIVED_EXTENSION
from backend.security.connection_key import EXTENSION as KEY_EXTENSION
from backend.security.connection_key import ConnectionKey
from backend.security.mutual_tls import is_passed_on, tls_after, tls_of_proxy
from backend.server.bounds import address_of
from backend.server.cluster_requests import answer_to_cluster
from backend.server.deadline import Deadline
from backend.server.exchange import Exchange
from backend.server.pending_data import PendingData
from backend.server.rejections import MAX_UNPARSED, endless, refused_by_parser
from backend.server.response import error_response, response
from backend.server.scope import checked_headers, scope_of
from backend.server.server import Server
from backend.server.slow_readers import SlowReaderGuard
from backend.server.staged_close import SECONDS as CLOSE_SECONDS
from backend.server.staged_close import StagedClose
from backend.server.tls_extension import tls_extension
from backend.wire.answer import Answer
from backend.wire.plain_requests import host_of_get, is_traced, plain_get

_WRITE_BUFFER = 64 * 1024  # unsent bytes of a response; with more, the application is paused
_MAX_PENDING = 64 * 1024  # bytes that wait for the parser; with more, reading is paused
_MAX_PIECES = 256  # of a body, before other connections are served: a chunk may have one byte
# s for the application to return after its client has disconnected; none for reads
_DISCONNECT_GRACE = 3.0


class Connection(asyncio.Protocol):
    """Answers the requests of a connection one after another, in order.

    If the bytes that arrive between two requests are one plain point read, it is answered
    immediately. All other bytes go to the parser, and each request becomes an `Exchange` with the
    ASGI application. The hot path is `data_received`: it uses no parser, task or scope, and does
    not reset the timer.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._application = server.application
        self._fast_path = server.application.fast_path
        self._transport: Any = None
        self.address = ""  # of the socket, without the port; "" if it is unknown
        self.client = ""  # the client that the application names; default: the address
        self._parser: Any = None
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_between_requests = True
        self._is_forwarding = False  # a read that `answer_now` has not answered
        self._unparsed = 0  # bytes since the last callback of the parser
        self._has_request_line = False
        self._pending = PendingData()
        self._pieces = 0  # of a body, since other connections were served
        self._is_reading_paused = False
        self._is_writing_paused = False
        self._is_writable = asyncio.Event()
        self._key = ConnectionKey()
        self._reader_guard: Any = None
        self._deadline = Deadline(server.loop, self._expired)
        self.is_open = False
        self._closing: StagedClose | None = None

    # -- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._reader_guard = SlowReaderGuard(
            self._server.loop, transport, self._application.send_timeout
        )
        self.address = self.client = address_of(transport)
        self._server.connections.add(self)
        self.is_open = True
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        self._deadline.set(self._application.request_timeout)
        self._server.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._server.connections.discard(self)
        self._server.open.discard(self)
        self._server.unread.discard(self)
        self._deadline.close()
        self._reader_guard.stop()
        self._parser = None  # the garbage collector does not see this reference cycle
        self._is_writing_paused = False
        self._is_writable.set()
        if self._exchange is not None:
            self._exchange.disconnect()
        if self._task is not None:
            assert self._exchange is not None
            # no client waits for the answer to a read, and its work delays others
            grace = 0.0 if self._exchange.is_read else _DISCONNECT_GRACE
            self._server.loop.call_later(grace, self._task.cancel)

    def data_received(self, data: bytes) -> None:
        may_answer = self._server.keeps_connections and not self._is_writing_paused
        if self._is_between_requests and may_answer:
            answer = self._answer_now(data)
            if answer is not None:
                self._transport.write(response(answer))
                self._deadline.set(self._server.limits.keepalive)
                return
            if self._is_forwarding:
                return
        self._read(data)

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        self._is_writable.clear()
        self._reader_guard.start()
        self._server.unread.add(self, self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        if self.is_open:
            self._reader_guard.stop()
        self._is_writing_paused = False
        self._is_writable.set()
        self._server.unread.discard(self)

    # -- for the worker --------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return self._exchange is None and not self._is_forwarding

    @property
    def request_ends(self) -> float | None:
        """When the timeout for the next request, or for the rest of it, ends; None if the
        application is working on a request."""
        return self._deadline.at

    def close(self) -> None:
        """Close when the client has read the responses, or no longer reads."""
        if self.is_open:
            self.is_open = False
            self._deadline.clear()
            if self._transport.get_write_buffer_size():
                self._reader_guard.start()
            self._transport.close()
        elif self._closing is not None:
            self._transport.close()

    def _end(self, may_send: bool) -> None:
        """Close after the last response. `may_send`: whether the client may be sending."""
        if may_send:
            self._close_in_stages()
        else:
            self.close()

    def _close_in_stages(self) -> None:
        """Close when the client has stopped sending, or after a short time, because it may not have
        read the answer yet."""
        if not self.is_open:
            return
        if not self._server.keeps_connections:
            self.close()
            return
        self.is_open = False
        self._is_between_requests = False
        self._pending.clear()
        self._deadline.set(CLOSE_SECONDS)
        self._closing = StagedClose(self._transport)

    def abort(self) -> None:
        """Close immediately, even if the client has not read the responses."""
        self.is_open = False
        self._server.open.discard(self)
        self._transport.abort()

    # -- requests --------------------------------------------------------------------------------

    def _answer_now(self, data: bytes) -> Answer | None:
        if data.startswith(b"POST"):
            return answer_to_cluster(self._fast_path, data, self.address, self._tls, self._key)
        if (get := plain_get(data)) is not None:
            if self._tls is not None:
                self._tls = tls_after(self._tls, data)
            if not self._fast_path.allows_host(host_of_get(data)):
                return None
            answer = self._fast_path.answer_now(*get)
            if answer is None and not is_traced(data):
                self._forward_now(data, *get)
            return answer
        return answer_to_cluster(self._fast_path, data, self.address, self._tls, self._key)

    def _forward_now(self, data: bytes, raw_path: bytes, token: bytes | None) -> None:
        """Ask another instance. If it is being asked, wait for it; the bytes of further requests
        wait, too."""
        ended = partial(self._forward_ended, data)
        if self._fast_path.forward_now(raw_path, token, ended):
            self._is_forwarding = True
            self._is_between_requests = False
            self._deadline.clear()

    def _forward_ended(self, data: bytes, answer: Answer | None) -> None:
        self._is_forwarding = False
        if not self.is_open:
            return
        self._is_between_requests = True
        if answer is None:
            self._pending.put_back(data)
            self._feed_pending()
            return
        if not self._server.keeps_connections:
            answer.headers.append((b"connection", b"close"))
            self._transport.write(response(answer))
            self._end(bool(self._pending))
            return
        self._transport.write(response(answer))
        self._deadline.set(self._server.limits.keepalive)
        self._feed_pending()
        self.resume_reading()

    def _read(self, data: bytes) -> None:
        if self._closing is not None:
            self._closing.discard(len(data))
            return
        self._pending.add(data)
        self._feed_pending()

    def _feed_pending(self) -> None:
        """Feed the parser up to the end of a request. The bytes after it wait until it is
        answered."""
        while self._pending and self.is_open:
            is_received = self._exchange is not None and self._exchange.is_received
            if self._is_forwarding or is_received or self._pieces > _MAX_PIECES:
                break  # `feed_next` continues after the pieces
            self._feed(self._pending.next())
            if self._pieces > _MAX_PIECES:
                self._server.feed_in_turn(self.feed_next)
        if self._pending.size > _MAX_PENDING:
            self.pause_reading()

    def feed_next(self) -> None:
        """Go on with a body of many pieces."""
        self._pieces = 0
        self._feed_pending()
        if self._exchange is None or self._exchange.has_room:
            self.resume_reading()

    def _feed(self, data: bytes) -> None:
        if self._is_between_requests:
            self._is_between_requests = False
            self._unparsed = 0
            self._has_request_line = False
            self._deadline.set(self._application.request_timeout)
            if self._parser is None:
                self._create_parser()
        is_head = self._exchange is None
        self._unparsed += len(data)
        try:
            self._parser.feed(data)
            if is_head and self._exchange is not None:
                self._start_exchange(self._exchange)
        # The parser's errors have no common base class. Valid requests raise no exception here.
        except Exception as error:
            self._send_error(*refused_by_parser(error))
            return
        if self._exchange is not None and self._exchange.is_received:
            self._deadline.clear()
            return
        self._has_request_line = self._has_request_line or b"\n" in data
        if self._unparsed > MAX_UNPARSED:
            is_body = self._exchange is not None
            self._send_error(*endless(is_body, self._has_request_line))

    def _create_parser(self) -> None:
        """Called before the first request that needs the parser."""
        self._server_address = self._address("sockname")
        self._client_address = self._address("peername")
        self._scheme = "http" if self._tls is None else "https"
        callbacks = self._headers_complete, self._body, self._message_complete
        self._parser = self._server.limits.parser(*callbacks)

    def _headers_complete(self) -> bool:
        self._unparsed = 0
        self._exchange = Exchange(self)
        return False  # do not skip the body

    def _body(self, chunk: bytes) -> None:
        assert self._exchange is not None
        self._unparsed = 0
        self._pieces += 1
        self._exchange.feed(chunk)

    def _message_complete(self) -> None:
        assert self._exchange is not None
        self._exchange.complete()

    def _start_exchange(self, exchange: Exchange) -> None:
        request = CallbackRequest.from_parser(self._parser)
        headers = checked_headers(request)
        extensions = {
            CLIENT_EXTENSION: self._set_client,
            RECEIVED_EXTENSION: perf_counter(),
            KEY_EXTENSION: self._key,
        }
        scope = scope_of(
            request, headers, self._scheme, self._server_address, self._client_address, extensions
        )
        if self._tls is not None:
            if is_passed_on(headers):
                # The certificate belongs to the proxy, not to the client. Later requests of this
                # connection do not count as the proxy's own requests, either.
                self._tls = tls_of_proxy(self._tls)
            extensions["tls"] = self._tls
        exchange.begin(request, scope)
        self._task = self._server.loop.create_task(exchange.run(self._application))

    @cached_property
    def _tls(self) -> dict[str, Any] | None:
        """The extension of ASGI; None without TLS."""
        ssl_object = self._transport.get_extra_info("ssl_object")
        return None if ssl_object is None else tls_extension(ssl_object)

    def _set_client(self, client: str) -> None:
        self.client = client or self.address

    def _address(self, name: str) -> tuple[str, int] | None:
        address = self._transport.get_extra_info(name)
        return tuple(address[:2]) if isinstance(address, tuple) else None

    def _send_error(self, status: int, message: str) -> None:
        if (exchange := self._exchange) is None or exchange.is_unanswered:
            self.write([error_response(status, message)])
        if exchange is not None:
            exchange.disconnect()
        self._close_in_stages()

    def _expired(self) -> None:
        """Called when the timeout ends: the request is incomplete, or the connection is idle or
        closing."""
        if self._closing is not None:
            self._transport.abort()
        elif self._task is not None:
            assert self._exchange is not None
            self._exchange.disconnect()  # the application responds, and the connection closes
        elif self._is_between_requests:
            self.close()
        else:
            seconds = self._application.request_timeout
            self._send_error(408, f"The request has not arrived within {seconds:g} s")

    # -- for the exchange ------------------------------------------------------------------------

    @property
    def may_stay_open(self) -> bool:
        return self._server.keeps_connections

    def write(self, parts: list[bytes]) -> None:
        """Send bytes; does nothing if the connection is closed."""
        if not self.is_open:
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)

    async def writable(self) -> None:
        """Wait until the client has read enough of the response."""
        if self._is_writing_paused:
            await self._is_writable.wait()

    def pause_reading(self) -> None:
        if not self._is_reading_paused and self.is_open:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_reading_paused and self.is_open and self._pending.size <= _MAX_PENDING:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def exchange_ended(self, keep_open: bool) -> None:
        """Close the connection, or go on with the next request."""
        assert self._exchange is not None
        may_send = not self._exchange.is_received or bool(self._pending)
        self._exchange = self._task = None
        if not keep_open or not self._server.keeps_connections:
            self._end(may_send)
            return
        unread: bytes = self._parser.remaining()
        self._parser.reset()
        self._is_between_requests = True
        self._deadline.set(self._server.limits.keepalive)
        self._pieces = 0
        if self._pending:
            self._pending.put_back(unread)
            self._feed_pending()
        elif unread:
            self.data_received(unread)
        self.resume_reading()
