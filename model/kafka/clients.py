"""Who destroys the clients of librdkafka in this process.

librdkafka aborts the process if one of the threads of a client destroys this client. In Python, the
thread that drops the last reference destroys it. For an `AdminClient`, this may be its own thread,
which calls back with results: the error in a result refers to the frames that it has passed, among
them that of the function that has made the client, and the callback may be the last one to let go
of the error. The garbage collector, too, runs in any thread.

So this module holds a reference to each client, for as long as the process lives or until the
client is closed, in the thread that has made it:

- `closing`: a client for one task, such as a request that is rare.
- `own`: a client for as long as the process lives.
- `close`: for one that is owned, and is replaced.
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
    """The client, which nothing but `close` destroys. This thread has just made it."""
    _owned[id(client)] = client, threading.get_ident()
    return client


def close(client: AbstractContextManager[Any]) -> None:
    """Destroy a client that is owned. A producer delivers its records first: see `Producer.purge`.

    RuntimeError in another thread than that which has made it. An error of a callback is raised
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
