"""The client for asyncio: drives the same calls with aiohttp."""

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

from queryable import frames
from queryable.core import calls, histories
from queryable.core.answers import Source
from queryable.core.core import Core
from queryable.core.effects import (
    Call,
    Close,
    Effect,
    Exchange,
    NoConnection,
    Open,
    Pause,
    Read,
    Request,
    Response,
)
from queryable.core.offsets import Offsets
from queryable.core.pages import Pager
from queryable.settings import client_settings

P = ParamSpec("P")
T = TypeVar("T")

_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class _Stream:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._answer = answer

    async def read(self) -> bytes:
        return await self._answer.content.readany()

    def close(self) -> None:
        if self._answer.content.at_eof():
            self._answer.release()
        else:
            self._answer.close()


class Transport:
    """Does what calls want done, in the event loop in which it is first used."""

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._http: aiohttp.ClientSession | None = None

    async def do(self, effect: Effect) -> Any:
        """NoConnection."""
        match effect:
            case Exchange(request):
                try:
                    async with self._send(request, total=request.timeout) as answer:
                        return Response(answer.status, answer.headers, await answer.read())
                except _FAILURES as e:
                    raise _no_connection(request.base, e) from None
            case Open(request):
                try:
                    return _Stream(await self._send(request, total=None))
                except _FAILURES as e:
                    raise _no_connection(request.base, e) from None
            case Read(stream):
                try:
                    return await stream.read()
                except _FAILURES as e:
                    raise _no_connection("a stream", e) from None
            case Close(stream):
                stream.close()
            case Pause(seconds):
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
            URL(request.base + request.target, encoded=True),
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            # `connect`: until there is a connection, also where others have all that there may be
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


def _no_connection(whom: str, error: BaseException) -> NoConnection:
    said = str(error) or type(error).__name__
    return NoConnection(f"{whom}: {said}", may_have_arrived=not isinstance(error, _NOT_SENT))


class AsyncRows(Generic[T]):
    """Rows that come page by page, while they are iterated over; each `aiter()` asks anew.

    `source`: where the latest page was from, and how fresh it is.
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
        """All of them."""
        return [row async for row in self]

    async def to_pandas(self) -> Any:
        """All of them as a pandas.DataFrame (see frames.py)."""
        return frames.to_pandas(await self.to_list())

    async def to_arrow(self) -> Any:
        """All of them as a pyarrow.Table (see frames.py)."""
        return frames.to_arrow(await self.to_list())


def _asks(
    of: Callable[Concatenate[Core, P], Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @wraps(of)
    async def ask(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(of(self._core, *args, **kwargs))  # type: ignore[no-any-return]

    return ask


def _pages(
    of: Callable[Concatenate[Core, P], Call[Pager[T]]],
) -> Callable[Concatenate[AsyncClient, P], AsyncRows[T]]:
    @wraps(of)
    def ask(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncRows[T]:
        return AsyncRows(self._run, lambda: of(self._core, *args, **kwargs))

    return ask


class AsyncClient:
    """As Client, for one event loop and any number of tasks.

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
        """As those of Client; `connections` at once to each server, beyond which calls wait."""
        self._core = Core(client_settings(url, timeout, direct), time.monotonic)
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
        """Closes the connections that are kept."""
        await self._transport.close()

    def session(self) -> AbstractContextManager[Offsets]:
        """As that of Client, of this task and those that it starts."""
        return self._core.session()

    async def _run(self, call: Call[Any]) -> Any:
        do = self._transport.do
        try:
            effect = next(call)
            while True:
                try:
                    done = await do(effect)
                except NoConnection as e:
                    effect = call.throw(e)
                else:
                    effect = call.send(done)
        except StopIteration as end:
            return end.value

    get = _asks(calls.get)
    get_many = _asks(calls.get_many)
    top = _asks(calls.top)
    count = _asks(calls.count)
    append = _asks(calls.append)
    views = _asks(calls.views)
    view = _asks(calls.view)
    topology = _asks(calls.topology)
    scan = _pages(calls.scan)
    windows = _pages(histories.windows)
    sessions = _pages(histories.sessions)
    versions = _pages(histories.versions)
    changes = _pages(calls.changes)
