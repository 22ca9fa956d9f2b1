"""Appends are retried only if that is safe."""

from __future__ import annotations

from typing import Any

import pytest

from queryable import (
    NoAnswer,
    TooManyRequests,
    Unconfirmed,
)
from queryable.client.protocol.calls.append import append
from queryable.client.protocol.transport import Response
from tests.support.clients.scripted_transport import (
    CUT,
    REFUSED,
    Driver,
    ok,
    orders,
    problem,
)


def append_value(driver: Driver) -> Any:
    return driver.call(append, "orders", "a", {"n": 1})


def test_append_is_retried_only_if_nothing_can_have_been_written() -> None:
    done = ok({"partition": 2, "offset": 9})
    for first in (
        REFUSED,
        problem(503, "overloaded", retry_after="1"),
        problem(503, "keys-unavailable", retry_after="1"),
    ):
        driver = orders(first, done)
        assert append_value(driver) == (2, 9)
        assert len(driver.requests) == 2
        assert driver.requests[1].body == b'{"key":"a","value":{"n":1}}'
    for first in (
        CUT,
        problem(503, "append-unconfirmed", retry_after="1"),
        problem(503, "no-backend", retry_after="1"),
        problem(503, "no-answer"),
        Response(504, {}, b"<html>"),
    ):
        driver = orders(first)
        with pytest.raises(Unconfirmed):
            append_value(driver)
        assert len(driver.requests) == 1
    for code in ("quota-exceeded", "too-many-requests"):
        with pytest.raises(TooManyRequests):
            append_value(orders(problem(429, code, retry_after="1")))
    # if the request cannot have arrived, the error says so
    with pytest.raises(NoAnswer):
        append_value(orders(*[REFUSED] * 20))
