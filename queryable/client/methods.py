"""Calls as methods of both clients, and of both handles of views with types.

`get = method(point.get)` in a base class of both clients makes the call a method of `Client`, which
returns the result, and a coroutine method of `AsyncClient`. `rows_method` is for calls that return
a pager: the methods return Rows and AsyncRows. `view_method` and `view_rows_method` decorate calls
that are written in the base class of both handles.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.pagination import Pager
from queryable.client.protocol.transport import Call
from queryable.client.rows import AsyncRows, Rows

P = ParamSpec("P")
T = TypeVar("T")
SyncResult = TypeVar("SyncResult")
AsyncResult = TypeVar("AsyncResult")


class SyncRunner:
    """A client or a handle that runs a call in the caller's thread."""

    _context: ClientContext

    def _run(self, call: Call[T]) -> T:
        raise NotImplementedError


class AsyncRunner:
    """A client or a handle that runs a call in the caller's event loop."""

    _context: ClientContext

    async def _run(self, call: Call[T]) -> T:
        raise NotImplementedError


class Method(Generic[P, SyncResult, AsyncResult]):
    """A descriptor. SyncRunners get one function as the method, and AsyncRunners another one."""

    def __init__(
        self,
        sync_method: Callable[Concatenate[SyncRunner, P], SyncResult],
        async_method: Callable[Concatenate[AsyncRunner, P], AsyncResult],
    ) -> None:
        self._sync_method = sync_method
        self._async_method = async_method

    @overload
    def __get__(
        self, client: None, owner: type[SyncRunner]
    ) -> Callable[Concatenate[SyncRunner, P], SyncResult]: ...

    @overload
    def __get__(
        self, client: None, owner: type[AsyncRunner]
    ) -> Callable[Concatenate[AsyncRunner, P], AsyncResult]: ...

    @overload
    def __get__(self, client: SyncRunner, owner: type[SyncRunner]) -> Callable[P, SyncResult]: ...

    @overload
    def __get__(
        self, client: AsyncRunner, owner: type[AsyncRunner]
    ) -> Callable[P, AsyncResult]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        function: Any = self._async_method if issubclass(owner, AsyncRunner) else self._sync_method
        return function.__get__(client, owner)


def view_method(
    call: Callable[Concatenate[Any, P], Call[T]],
) -> Method[P, T, Coroutine[Any, Any, T]]:
    """The methods for a call that returns a T. The call's first argument is the runner."""

    @wraps(call)
    def sync_method(runner: SyncRunner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return runner._run(call(runner, *args, **kwargs))

    @wraps(call)
    async def async_method(runner: AsyncRunner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await runner._run(call(runner, *args, **kwargs))

    return Method(sync_method, async_method)


def view_rows_method(
    call: Callable[Concatenate[Any, P], Call[Pager[T]]],
) -> Method[P, Rows[T], AsyncRows[T]]:
    """The methods for a call that returns a pager of T. The call's first argument is the runner."""

    @wraps(call)
    def sync_method(runner: SyncRunner, /, *args: P.args, **kwargs: P.kwargs) -> Rows[T]:
        return Rows(runner._run, lambda: call(runner, *args, **kwargs))

    @wraps(call)
    def async_method(runner: AsyncRunner, /, *args: P.args, **kwargs: P.kwargs) -> AsyncRows[T]:
        return AsyncRows(runner._run, lambda: call(runner, *args, **kwargs))

    return Method(sync_method, async_method)


def method(
    call: Callable[Concatenate[ClientContext, P], Call[T]],
) -> Method[P, T, Coroutine[Any, Any, T]]:
    """The methods for a call that returns a T. The call's first argument is the client's
    context."""
    return view_method(_with_context(call))


def rows_method(
    call: Callable[Concatenate[ClientContext, P], Call[Pager[T]]],
) -> Method[P, Rows[T], AsyncRows[T]]:
    """The methods for a call that returns a pager of T. The call's first argument is the client's
    context."""
    return view_rows_method(_with_context(call))


def _with_context(
    call: Callable[Concatenate[ClientContext, P], T],
) -> Callable[Concatenate[Any, P], T]:
    @wraps(call)
    def with_context(runner: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return call(runner._context, *args, **kwargs)

    return with_context
