"""Results of requests by confluent-kafka's AdminClient."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def only_result(futures: Mapping[Any, Future[_Result]], timeout: float) -> _Result:
    """The result of a request for one thing. Raises KafkaException, TimeoutError (after `timeout`
    s).

    A future refers to its error, the error to the frames that it has passed, and a frame to its
    variables. If one of these variables were the future, only the garbage collector, which rarely
    runs, would free the objects of these frames. One of them may be a client with four threads.
    """
    [future] = futures.values()
    try:
        return future.result(timeout)
    finally:
        del future, futures
