"""The client for threads: drives calls with urllib3."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
)

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

_NOT_SENT = (NewConnectionError, ConnectTimeoutError, NameResolutionError)
_CHUNK = 65_536


class _Stream:
    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._answer = answer
        self._chunks = answer.stream(_CHUNK, decode_content=False)
        self._is_whole = False

    def read(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                return chunk
        self._is_whole = True
        return b""

    def close(self) -> None:
        if self._is_whole:
            self._answer.release_conn()
        else:
            self._answer.close()


class Transport:
    """Does what calls want done. `connections`: of each server, kept for the next request."""

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._pools: dict[str, tuple[urllib3.HTTPConnectionPool, str]] = {}

    def do(self, effect: Effect) -> Any:
        """NoConnection."""
        match effect:
            case Exchange(request):
                answer = self._send(request, preload=True)
                return Response(answer.status, answer.headers, answer.data)
            case Open(request):
                return _Stream(self._send(request, preload=False))
            case Read(stream):
                try:
                    return stream.read()
                except (HTTPError, OSError) as e:
                    raise NoConnection(str(e), may_have_arrived=True) from None
            case Close(stream):
                stream.close()
            case Pause(seconds):
                time.sleep(seconds)
        return None

    def _send(self, request: Request, preload: bool) -> urllib3.BaseHTTPResponse:
        pool, prefix = self._pools.get(request.base) or self._pool(request.base)
        try:
            return pool.urlopen(
                request.method,
                prefix + request.target,
                request.body,
                request.headers,
                retries=False,
                redirect=False,
                assert_same_host=False,
                timeout=urllib3.Timeout(total=request.timeout) if preload else request.timeout,
                preload_content=preload,
                decode_content=False,
            )
        except (HTTPError, OSError) as e:
            raise NoConnection(
                f"{request.base}: {e}", may_have_arrived=not isinstance(e, _NOT_SENT)
            ) from None

    def _pool(self, base: str) -> tuple[urllib3.HTTPConnectionPool, str]:
        pool = urllib3.connection_from_url(base, maxsize=self._connections)
        # of two threads that come first at once one wins, and the other's pool is left empty
        return self._pools.setdefault(base, (pool, urlsplit(base).path))

    def close(self) -> None:
        # a call that comes after this opens new ones
        pools, self._pools = self._pools, {}
        for pool, _ in list(pools.values()):
            pool.close()


class Rows(Generic[T]):
    """Rows that come page by page, while they are iterated over; each `iter()` asks anew.

    `source`: where the latest page was from, and how fresh it is.
    """

    def __init__(self, run: Callable[[Call[Any]], Any], start: Callable[[], Call[Any]]) -> None:
        self._run = run
        self._start = start
        self.source: Source | None = None

    def __iter__(self) -> Iterator[T]:
        pager: Pager[T] = self._run(self._start())
        try:
            while (page := self._run(pager.next())) is not None:
                self.source = pager.source
                yield from page
        finally:
            self._run(pager.close())

    def to_pandas(self) -> Any:
        """All of them as a pandas.DataFrame (see frames.py)."""
        return frames.to_pandas(list(self))

    def to_arrow(self) -> Any:
        """All of them as a pyarrow.Table (see frames.py)."""
        return frames.to_arrow(list(self))


def _asks(of: Callable[Concatenate[Core, P], Call[T]]) -> Callable[Concatenate[Client, P], T]:
    @wraps(of)
    def ask(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(of(self._core, *args, **kwargs))  # type: ignore[no-any-return]

    return ask


def _pages(
    of: Callable[Concatenate[Core, P], Call[Pager[T]]],
) -> Callable[Concatenate[Client, P], Rows[T]]:
    @wraps(of)
    def ask(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Rows[T]:
        return Rows(self._run, lambda: of(self._core, *args, **kwargs))

    return ask


class Client:
    """Asks a deployment's proxy, or a backend; for any number of threads.

    >>> with Client("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     client.get("latest-departure", "N14228").value
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = 10.0,
        direct: bool = False,
        connections: int = 100,
    ) -> None:
        """`url`: QUERYABLE_URL, or http://127.0.0.1:8080. `timeout`: s for a call and its retries.
        `direct`: keys are asked of who holds them, without the proxy; the instances' addresses
        must be reachable. `connections`: kept to each server; as many threads at once are fine.
        """
        self._core = Core(client_settings(url, timeout, direct), time.monotonic)
        self._transport = Transport(connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that are kept."""
        self._transport.close()

    def session(self) -> AbstractContextManager[Offsets]:
        """Within it, in this thread, point reads and histories have seen what was appended and read
        before: one's own writes, and never less than before."""
        return self._core.session()

    def _run(self, call: Call[Any]) -> Any:
        do = self._transport.do
        try:
            effect = next(call)
            while True:
                try:
                    done = do(effect)
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
