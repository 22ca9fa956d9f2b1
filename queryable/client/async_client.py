"""The client for asyncio: runs the calls with aiohttp."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar, overload
from weakref import WeakValueDictionary

import aiohttp
from yarl import URL

from model.http.answers import TLS
from model.http.problems import NOT_IN_TIME, connection_problem
from queryable.client.api import ApiMethods
from queryable.client.methods import AsyncRunner
from queryable.client.protocol.answers import K, V
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import BadUse
from queryable.client.protocol.session_offsets import SessionOffsets
from queryable.client.protocol.transport import (
    Call,
    CloseStream,
    Exchange,
    OpenStream,
    Operation,
    ReadChunk,
    Request,
    Response,
    Sleep,
    TransportError,
)
from queryable.client.protocol.views import View
from queryable.client.settings import client_settings
from queryable.client.tls import client_tls, handshake_problem
from queryable.client.tokens import Token
from queryable.client.typed_views import AsyncTypedView

T = TypeVar("T")

_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


class _Sent:
    """Whether aiohttp has begun to send a request. Its errors do not tell on a busy event loop."""

    def __init__(self) -> None:
        self.began = False


async def _note_sent(session: Any, context: Any, params: Any) -> None:
    context.trace_request_ctx.began = True


class _Stream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response

    async def read(self) -> bytes:
        return await self._response.content.readany()

    def end(self) -> None:
        """Closes the connection. A task that waits for data gets an error."""
        self._response.content.set_exception(aiohttp.ClientConnectionError("The client was closed"))
        self._response.close()

    def close(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Transport:
    """Performs I/O operations, in the process and the event loop in which it is first used."""

    def __init__(self, connections: int, tls: TLS) -> None:
        self._connections = connections
        self._tls = tls
        self._http: aiohttp.ClientSession | None = None
        # weak, because a call that is interrupted does not close its stream
        self._streams: WeakValueDictionary[int, _Stream] = WeakValueDictionary()
        self._pid = 0  # of the process that opened the connections

    async def perform(self, operation: Operation) -> Any:
        """The operation's result. Raises TransportError."""
        match operation:
            case Exchange(request):
                sent = _Sent()
                try:
                    async with self._send(request, sent, total=request.timeout) as response:
                        body = await response.read()
                        return Response(response.status, response.headers, body)
                except _FAILURES as e:
                    raise _transport_error(request.base_url, e, sent.began) from None
            case OpenStream(request):
                sent = _Sent()
                try:
                    async with asyncio.timeout(request.timeout):
                        opened = _Stream(await self._send(request, sent, total=None))
                        self._streams[id(opened)] = opened
                        return opened
                except _FAILURES as e:
                    raise _transport_error(request.base_url, e, sent.began) from None
            case ReadChunk(stream):
                try:
                    return await stream.read()
                except _FAILURES as e:
                    raise _transport_error("Stream", e, sent=True) from None
            case CloseStream(stream):
                self._streams.pop(id(stream), None)
                stream.close()
            case Sleep(seconds):
                await asyncio.sleep(seconds)
        return None

    def _send(self, request: Request, sent: _Sent, total: float | None) -> Any:
        if self._http is not None and self._pid != os.getpid():
            raise BadUse("The client is in use by the process before the fork: create another one.")
        if self._http is None:
            self._pid = os.getpid()
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_note_sent)
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=self._connections),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"accept-encoding": "identity"},
                trace_configs=[trace],
            )
        return self._http.request(
            request.method,
            URL(request.base_url + request.target, encoded=True),
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            trace_request_ctx=sent,
            ssl=self._tls() if request.base_url.startswith("https:") else True,
            # `connect` includes the wait for a free connection
            timeout=aiohttp.ClientTimeout(
                total=total,
                connect=request.connect_timeout or request.timeout,
                sock_read=request.read_timeout,
                ceil_threshold=math.inf,  # else long times are rounded up to the second
            ),
        )

    async def close(self) -> None:
        # after a fork, closing the connections would remove them from the other process's event
        # loop, too
        if self._http is not None and self._pid == os.getpid():
            # a call that begins meanwhile opens new connections
            http, self._http = self._http, None
            for reference in self._streams.valuerefs():
                if (stream := reference()) is not None:
                    stream.end()
            await http.close()


def _transport_error(source: str, error: BaseException, sent: bool) -> TransportError:
    problem, reason = handshake_problem(error), connection_problem(error)
    detail = problem or f"{reason}."
    return TransportError(
        f"{source}: {detail}",
        may_have_arrived=problem is None and sent,
        is_final=problem is not None,
        timed_out=problem is None and reason == NOT_IN_TIME,
    )


class AsyncClient(ApiMethods, AsyncRunner):
    """Like Client, for one event loop. Tasks may share it.

    >>> async with AsyncClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     (await client.get("latest-departure", "N14228")).value
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        timeout: float = 10.0,
        direct: bool = False,
        connections: int = 100,
        token: Token | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        verify: bool = True,
    ) -> None:
        """The arguments are those of Client, except `connections`: the maximum per server. Further
        calls wait for a free connection.
        """
        settings = client_settings(url, timeout, direct, token, token_file)
        self._context = ClientContext(settings, time.monotonic)
        self._transport = Transport(connections, client_tls(ca_file, verify))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections. Reading from a stream that was open raises NoAnswer."""
        self._context.closings += 1
        await self._transport.close()

    def session(self) -> AbstractContextManager[SessionOffsets]:
        """Like Client.session, for this task and the tasks that it starts."""
        return self._context.session()

    @overload
    def view(self, name: str) -> Coroutine[Any, Any, View]: ...

    @overload
    def view(self, name: str, *, key: type[K], value: type[V]) -> AsyncTypedView[K, V]: ...

    @overload
    def view(self, name: str, *, value: type[V]) -> AsyncTypedView[Any, V]: ...

    def view(self, name: str, *, key: Any = Any, value: Any = None) -> Any:
        """One view. Raises NotFound.

        With `value` (and `key`), a handle bound to the view, whose keys and values have these
        types: dataclasses, pydantic models, msgspec structs, or types such as str and
        dict[str, int]. No request is sent before its first call. Raises BadUse for other types.
        """
        if value is None:
            return self._describe(name)
        return AsyncTypedView(self, name, key, value)

    async def _run(self, call: Call[T]) -> T:
        perform = self._transport.perform
        try:
            operation = next(call)
            while True:
                try:
                    result = await perform(operation)
                except TransportError as e:
                    operation = call.throw(e)
                else:
                    operation = call.send(result)
        except StopIteration as end:
            answer: T = end.value
            return answer
