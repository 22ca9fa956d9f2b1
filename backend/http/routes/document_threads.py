"""Threads in which documents wait for other instances, and for the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

_THREADS = 8

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DocumentThreads:
    """Runs functions as `asyncio.to_thread` does, but in threads of its own. asyncio has only a few
    threads: if another instance hangs, documents would keep commands, copies and the stop of this
    instance waiting. Gates limit how many requests wait."""

    def __init__(self, name: str = "admin-documents", count: int = _THREADS) -> None:
        """A thread starts when it is needed."""
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Runs the function in a thread. Returns or raises what the function does. Called in the
        event loop."""
        call = partial(copy_context().run, function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def stop(self) -> None:
        """End the threads, after the current calls. Calls that wait for a thread are cancelled."""
        self._pool.shutdown(wait=False, cancel_futures=True)
