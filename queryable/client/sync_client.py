"""The client for threads: runs the calls with urllib3."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
)

from model.http.answers import TLS
from model.http.problems import NOT_IN_TIME, connection_problem
from model.http.timed_connections import READ_TIMEOUT, use_timed_connections
from model.machine.extras import how_to_install
from queryable.client.api import ApiMethods
from queryable.client.methods import SyncRunner
from queryable.client.protocol.answers import K, V
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import BadUse
from queryable.client.protocol.parameters import Stale
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
from queryable.client.typed_views import TypedView

if TYPE_CHECKING:
    from queryable.client.arrow.dataset import ViewDataset
    from queryable.client.arrow.local_sql import LocalRows

T = TypeVar("T")

_NOT_SENT = (NewConnectionError, ConnectTimeoutError, NameResolutionError)
_CHUNK = 65_536


class _Stream:
    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._chunks = response.stream(_CHUNK, decode_content=False)
        self._is_complete = False
        self._pid = os.getpid()
        self._reading = Lock()

    def read(self) -> bytes:
        if self._pid != os.getpid():
            raise TransportError("Stream: it is that of another process.", may_have_arrived=True)
        with self._reading:
            for chunk in self._chunks:
                if chunk:
                    return chunk
            self._is_complete = True
            return b""

    def end(self) -> None:
        """Closes the connection. If another thread reads from it, that thread reads the end."""
        if self._reading.acquire(blocking=False):
            try:
                self._response.close()
            finally:
                self._reading.release()
        elif hasattr(self._response, "shutdown"):  # urllib3 2.3 has it
            with suppress(OSError, RuntimeError, ValueError):  # it has just ended
                self._response.shutdown()

    def close(self) -> None:
        if self._is_complete:
            self._response.release_conn()
        else:
            self._response.close()


class Transport:
    """Performs I/O operations. It keeps up to `connections` idle connections per server. After a
    fork, the child opens its own."""

    def __init__(self, connections: int, tls: TLS) -> None:
        self._connections = connections
        self._tls = tls
        self._pools: dict[str, tuple[urllib3.HTTPConnectionPool, str]] = {}
        # weak, because a call that is interrupted does not close its stream
        self._streams: WeakValueDictionary[int, _Stream] = WeakValueDictionary()
        self._pid = os.getpid()  # of the process that opened the connections

    def perform(self, operation: Operation) -> Any:
        """The operation's result. Raises TransportError."""
        match operation:
            case Exchange(request):
                response = self._send(request, preload=True)
                return Response(response.status, response.headers, response.data)
            case OpenStream(request):
                opened = _Stream(self._send(request, preload=False))
                self._streams[id(opened)] = opened
                return opened
            case ReadChunk(stream):
                try:
                    return stream.read()
                except (HTTPError, OSError) as e:
                    raise TransportError(
                        f"Stream: {connection_problem(e)}.", may_have_arrived=True
                    ) from None
            case CloseStream(stream):
                self._streams.pop(id(stream), None)
                stream.close()
            case Sleep(seconds):
                time.sleep(seconds)
        return None

    def _send(self, request: Request, preload: bool) -> urllib3.BaseHTTPResponse:
        self._leave_inherited()
        pool, prefix = self._pools.get(request.base_url) or self._new_pool(request.base_url)
        READ_TIMEOUT.set(request.read_timeout)
        try:
            return pool.urlopen(
                request.method,
                prefix + request.target,
                request.body,
                request.headers,
                retries=False,
                redirect=False,
                assert_same_host=False,
                timeout=urllib3.Timeout(connect=request.connect_timeout, total=request.timeout),
                preload_content=preload,
                decode_content=False,
            )
        except (HTTPError, OSError) as e:
            problem, reason = handshake_problem(e), connection_problem(e)
            raise TransportError(
                f"{request.base_url}: {problem or f'{reason}.'}",
                may_have_arrived=problem is None and not isinstance(e, _NOT_SENT),
                is_final=problem is not None,
                timed_out=problem is None and reason == NOT_IN_TIME,
            ) from None

    def _new_pool(self, base_url: str) -> tuple[urllib3.HTTPConnectionPool, str]:
        tls = {"ssl_context": self._tls()} if base_url.startswith("https:") else {}
        pool = urllib3.connection_from_url(base_url, maxsize=self._connections, **tls)
        use_timed_connections(pool)
        # if two threads race, one pool is kept and the other is discarded unused
        return self._pools.setdefault(base_url, (pool, urlsplit(base_url).path))

    def _leave_inherited(self) -> None:
        """Leaves the connections of the parent process: two processes that share a connection would
        get each other's answers."""
        if self._pid != os.getpid():
            self._pools = {}
            self._streams = WeakValueDictionary()
            self._pid = os.getpid()

    def close(self) -> None:
        # a later call opens new connections
        self._leave_inherited()
        pools, self._pools = self._pools, {}
        for pool, _ in list(pools.values()):
            pool.close()
        for reference in self._streams.valuerefs():
            if (stream := reference()) is not None:
                stream.end()


class Client(ApiMethods, SyncRunner):
    """A client of a deployment: of its proxy, or of a backend. Threads may share it.

    >>> with Client("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     client.get("latest-departure", "N14228").value
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
        """`url`: default QUERYABLE_URL, else http://127.0.0.1:8080. Several URLs of one deployment
        (a list, or separated by commas) are asked in turn if one does not answer. `timeout`:
        seconds for a call with its retries. `direct`: send reads of keys to the instances that own
        them, without the proxy; the instances' addresses must be reachable. `connections`: the
        maximum number of idle connections per server; more threads than that may use the client.

        `token`: a bearer token, or a function that returns the current one. `token_file`: a file
        with the token, which is read again when it changes. Default: QUERYABLE_TOKEN, else no
        token. It is sent to `url`, and with `direct` to the instances that the deployment names; no
        redirect is followed. `ca_file`: the authorities (PEM) of servers' certificates, for https;
        default QUERYABLE_CA_FILE, else those of the system. `verify=False`: accept any certificate,
        for tests. Both also apply to the instances that `direct` uses.
        """
        settings = client_settings(url, timeout, direct, token, token_file)
        self._context = ClientContext(settings, time.monotonic)
        self._transport = Transport(connections, client_tls(ca_file, verify))

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
        """Closes all connections. Reading from a stream that was open raises NoAnswer."""
        self._context.closings += 1
        self._transport.close()

    def session(self) -> AbstractContextManager[SessionOffsets]:
        """A context manager. Within it, in this thread, reads of keys include all records that were
        appended or read before: a session reads its own writes, and its reads are monotonic."""
        return self._context.session()

    @overload
    def view(self, name: str) -> View: ...

    @overload
    def view(self, name: str, *, key: type[K], value: type[V]) -> TypedView[K, V]: ...

    @overload
    def view(self, name: str, *, value: type[V]) -> TypedView[Any, V]: ...

    def view(self, name: str, *, key: Any = Any, value: Any = None) -> Any:
        """One view. Raises NotFound.

        With `value` (and `key`), a handle bound to the view, whose keys and values have these
        types: dataclasses, pydantic models, msgspec structs, or types such as str and
        dict[str, int]. No request is sent before its first call. Raises BadUse for other types.
        """
        if value is None:
            return self._describe(name)
        return TypedView(self, name, key, value)

    def dataset(
        self,
        view: str,
        *,
        where: str | None = None,
        timestamps: bool = False,
        stale: Stale | None = None,
        timeout: float | None = None,
    ) -> ViewDataset:
        """The view as a pyarrow dataset, which DuckDB, Polars and DataFusion can query as well.

        Each scan is one request for the columns that the reader needs, with its filter as far as
        it can be a condition. `where`: a condition of all scans. `timestamps`: whether there is a
        column with the timestamps of records. `timeout` is for each read. Raises BadUse without
        pyarrow.
        """
        try:
            from queryable.client.arrow.dataset import ViewDataset
        except ImportError:
            raise BadUse(f"This requires pyarrow. {how_to_install('frames')}") from None
        return ViewDataset(
            self, view, where=where, timestamps=timestamps, stale=stale, timeout=timeout
        )

    def local_sql(
        self,
        statement: str,
        *parameters: Any,
        stale: Stale | None = None,
        timeout: float | None = None,
    ) -> LocalRows:
        """The rows of an SQL statement whose tables are views, run by DuckDB in this process.

        It may join views, and do everything that DuckDB can. Each view is read once for each time
        that the statement names it: the columns and the conditions that DuckDB asks for are sent.
        For a statement about one view, `sql` lets the instances compute groups. `parameters`: the
        values of `?`, in order. `timeout` is for each read. Raises BadUse without duckdb and
        pyarrow.
        """
        try:
            from queryable.client.arrow.local_sql import local_sql
        except ImportError as e:
            raise BadUse(
                f"This requires {e.name}. {how_to_install('frames')}, and: pip install duckdb"
            ) from None
        return local_sql(self, statement, parameters, stale, timeout)

    def _run(self, call: Call[T]) -> T:
        perform = self._transport.perform
        try:
            operation = next(call)
            while True:
                try:
                    result = perform(operation)
                except TransportError as e:
                    operation = call.throw(e)
                else:
                    operation = call.send(result)
        except StopIteration as end:
            answer: T = end.value
            return answer
