"""Descriptions of views: kept until the views may have changed, also if threads share a client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from queryable.client.protocol.calls import metadata, point
from queryable.client.protocol.transport import Response
from tests.support.clients.scripted_transport import ORDERS, VALUE, Driver, ok


@contextmanager
def switching_threads_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_threads_describe_views_while_another_one_sees_a_newer_epoch() -> None:
    driver = Driver()
    errors: list[Exception] = []

    def describe() -> None:
        reader = Driver(*[ok(ORDERS)] * 3000)
        reader.context = driver.context
        for n in range(3000):
            reader.call(metadata.view, f"orders-{n}")

    def see_epochs() -> None:
        try:
            for n in range(1, 1000):
                answering = Driver(ok({}, topology_epoch=f"5-{n}"))
                answering.run(driver.context.get_json("/views"))
        except Exception as e:
            errors.append(e)

    with switching_threads_often():
        threads = [Thread(target=describe), Thread(target=see_epochs)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert errors == []


def test_a_description_of_before_a_newer_epoch_is_not_kept() -> None:
    driver = Driver(ok({}, topology_epoch="5-1"), ok({}, topology_epoch="5-2"))
    described = ok({**ORDERS, "version": 1}, topology_epoch="5-1")
    driver.run(driver.context.get_json("/views"))
    call = driver.context.view("orders")
    next(call)
    driver.run(driver.context.get_json("/views"))  # of another thread
    driver.requests.clear()
    with pytest.raises(StopIteration):
        call.send(described)
    driver.replies = [ok({**ORDERS, "version": 2}), VALUE]
    driver.call(point.get, "orders", "a")
    assert driver.call(metadata.view, "orders").version == 2
    assert driver.targets == ["/views/orders", "/views/orders/keys/a"]


def value(document: Any, epoch: str) -> Response:
    return ok({"key": "a", "value": document}, topology_epoch=epoch)


@pytest.mark.parametrize("epoch", ["6-1", "4-1"])
def test_a_view_is_described_again_if_another_definition_may_be_current(epoch: str) -> None:
    """The deployment was started again, or another one is current: its epochs may be lower."""
    driver = Driver(
        ok({**ORDERS, "value": "string"}, topology_epoch="5-1"), value("dGVh", "5-1"),
    )  # fmt: skip
    assert driver.call(point.get, "orders", "a").value == "dGVh"
    driver.replies = [value("dGVh", epoch), ok({**ORDERS, "value": "bytes"}, topology_epoch=epoch)]
    assert driver.call(point.get, "orders", "a").value == b"tea"
    driver.replies.append(value("dGVh", epoch))
    assert driver.call(point.get, "orders", "a").value == b"tea"


def test_a_description_of_another_deployment_does_not_decode_the_answer() -> None:
    """The former deployment has a new epoch, too, and the proxy already asks the current one."""
    driver = Driver(ok({**ORDERS, "value": "string"}, topology_epoch="9-1"), value("dGVh", "9-1"))
    driver.call(point.get, "orders", "a")
    driver.replies = [
        value("dGVh", "9-2"),
        ok({**ORDERS, "value": "bytes"}, topology_epoch="7-1"),
        ok({**ORDERS, "value": "string"}, topology_epoch="9-2"),
    ]
    assert driver.call(point.get, "orders", "a").value == "dGVh"


def test_a_description_soon_after_a_change_is_kept_for_a_moment_only() -> None:
    """It may be that of an instance or a proxy that does not know of the change yet."""
    driver = Driver(ok(ORDERS, topology_epoch="5-1"), VALUE, ok({}, topology_epoch="5-2"))
    driver.call(point.get, "orders", "a")
    driver.run(driver.context.get_json("/views"))
    driver.requests.clear()
    driver.replies = [ok(ORDERS, topology_epoch="5-1"), VALUE, VALUE, ok(ORDERS), VALUE, VALUE]
    for pause in (0.1, 2, 100, 0):
        driver.call(point.get, "orders", "a")
        driver.now += pause
    read = "/views/orders/keys/a"
    assert driver.targets == ["/views/orders", read, read, "/views/orders", read, read]
