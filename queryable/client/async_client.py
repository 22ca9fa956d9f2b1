"""The client for asyncio: runs the calls with aiohttp."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import aiohttp
from yarl import URL

from queryable.client import dataframes
from queryable.client.protocol import calls
from queryable.client.protocol.answers import Source
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.pagination import Pager
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
from queryable.client.settings import client_settings

P = ParamSpec("P")
T = TypeVar("T")

_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class _Stream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response

    async def read(self) -> bytes:
        return await self._response.content.readany()

    def close(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Transport:
    """Performs I/O operations, in the event loop in which it is first used."""

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._http: aiohttp.ClientSession | None = None

    async def perform(self, operation: Operation) -> Any:
        """The operation's result; TransportError."""
        match operation:
            case Exchange(request):
                try:
                    async with self._send(request, total=request.timeout) as response:
                        body = await response.read()
                        return Response(response.status, response.headers, body)
                except _FAILURES as e:
                    raise _transport_error(request.base_url, e) from None
            case OpenStream(request):
                try:
                    return _Stream(await self._send(request, total=None))
                except _FAILURES as e:
                    raise _transport_error(request.base_url, e) from None
            case ReadChunk(stream):
                try:
                    return await stream.read()
                except _FAILURES as e:
                    raise _transport_error("Stream", e) from None
            case CloseStream(stream):
                stream.close()
            case Sleep(seconds):
                await asyncio.sleep(seconds)
        return None

    def _send(self, request: Request, total: float | None) -> Any:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=self._connections),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"accept-encoding": "identity"},
            )
        return self._http.request(
            request.method,
            URL(request.base_url + request.target, encoded=True),
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            # `connect` includes the wait for a free connection
            timeout=aiohttp.ClientTimeout(
                total=total,
                connect=request.timeout,
                sock_read=request.timeout if total is None else None,
            ),
        )

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None


def _transport_error(source: str, error: BaseException) -> TransportError:
    detail = str(error) or type(error).__name__
    return TransportError(f"{source}: {detail}", may_have_arrived=not isinstance(error, _NOT_SENT))


class AsyncRows(Generic[T]):
    """Rows that are fetched page by page during iteration. Each `aiter()` starts a new query.

    `source`: where the latest page comes from, and how fresh it is.
    """

    def __init__(
        self,
        run: Callable[[Call[Any]], Awaitable[Any]],
        start: Callable[[], Call[Any]],
    ) -> None:
        self._run = run
        self._start = start
        self.source: Source | None = None

    async def __aiter__(self) -> AsyncIterator[T]:
        pager: Pager[T] = await self._run(self._start())
        try:
            while (page := await self._run(pager.next())) is not None:
                self.source = pager.source
                for row in page:
                    yield row
        finally:
            await self._run(pager.close())

    async def to_list(self) -> list[T]:
        """All rows."""
        return [row async for row in self]

    async def to_pandas(self) -> Any:
        """All rows as a pandas.DataFrame; see `dataframes`."""
        return dataframes.to_pandas(await self.to_list())

    async def to_arrow(self) -> Any:
        """All rows as a pyarrow.Table; see `dataframes`."""
        return dataframes.to_arrow(await self.to_list())


def _method(
    call: Callable[Concatenate[ClientContext, P], Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @wraps(call)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(call(self._context, *args, **kwargs))  # type: ignore[no-any-return]

    return method


def _rows_method(
    call: Callable[Concatenate[ClientContext, P], Call[Pager[T]]],
) -> Callable[Concatenate[AsyncClient, P], AsyncRows[T]]:
    @wraps(call)
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncRows[T]:
        return AsyncRows(self._run, lambda: call(self._context, *args, **kwargs))

    return method


class AsyncClient:
    """Like Client, for one event loop. Tasks may share it.

    >>> async with AsyncClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     (await client.get("latest-departure", "N14228")).value
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = 10.0,
        direct: bool = False,
        connections: int = 100,
    ) -> None:
        """The arguments are those of Client, except `connections`: the most to have per server at a
        time; further calls wait for a free one.
        """
        self._context = ClientContext(client_settings(url, timeout, direct), time.monotonic)
        self._transport = Transport(connections)

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
        """Closes all connections."""
        await self._transport.close()

    def session(self) -> AbstractContextManager[SessionOffsets]:
        """As Client.session, for this task and the tasks that it starts."""
        return self._context.session()

    async def _run(self, call: Call[Any]) -> Any:
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
            return end.value

    get = _method(calls.get)
    get_many = _method(calls.get_many)
    top = _method(calls.top)
    count = _method(calls.count)
    append = _method(calls.append)
    views = _method(calls.views)
    view = _method(calls.view)
    topology = _method(calls.topology)
    scan = _rows_method(calls.scan)
    windows = _rows_method(calls.windows)
    sessions = _rows_method(calls.sessions)
    versions = _rows_method(calls.versions)
    changes = _rows_method(calls.changes)
