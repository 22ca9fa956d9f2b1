"""Decides which thread destroys the clients of librdkafka in this process.

librdkafka aborts the process if one of the threads of a client destroys this client. In Python, the
thread that drops the last reference destroys it. For an `AdminClient`, this may be its own thread,
which calls back with results. The error in a result refers to the frames that it has passed. One of
them is the frame of the function that has made the client. The callback may have the last reference
to the error. The garbage collector, too, runs in any thread.

So this module keeps a reference to each client until the process ends, or until the thread that has
made the client closes it:

- `closing`: a client for one task, such as a request that is rare.
- `own`: a client for as long as the process lives.
- `close`: for a client that is owned, and is replaced.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

_Client = TypeVar("_Client", bound=AbstractContextManager[Any])

# by `id`: the client, and the thread that has made it
_owned: dict[int, tuple[AbstractContextManager[Any], int]] = {}


def own(client: _Client) -> _Client:
    """Return the client, which only `close` destroys from now on. This thread has just made it."""
    _owned[id(client)] = client, threading.get_ident()
    return client


def close(client: AbstractContextManager[Any]) -> None:
    """Destroy a client that is owned. A producer delivers its records first: see `Producer.purge`.

    Raises RuntimeError if another thread has made the client. An error of a callback is raised
    after the client was destroyed.
    """
    if _owned[id(client)][1] != threading.get_ident():
        raise RuntimeError("another thread has made this client, and only that one may close it")
    try:
        client.__exit__(None, None, None)
    finally:
        del _owned[id(client)]


@contextmanager
def closing(client: _Client) -> Iterator[_Client]:
    """Own a client, and close it at the end. This thread has just made it."""
    own(client)
    try:
        yield client
    finally:
        close(client)
