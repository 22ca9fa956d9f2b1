"""Descriptions of views: kept until the views may have changed, also if threads share a client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from queryable.client.protocol.calls import metadata, point
from tests.queryable.client.protocol.scripted_transport import ORDERS, VALUE, Driver, ok


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
    driver = Driver()
    driver.context._note_epoch({"topology-epoch": "5-1"})
    described = ok({**ORDERS, "version": 1}, topology_epoch="5-1")

    def another_thread_sees_a_newer_epoch() -> None:
        driver.context._note_epoch({"topology-epoch": "5-2"})

    call = driver.context.view("orders")
    next(call)
    another_thread_sees_a_newer_epoch()
    with pytest.raises(StopIteration):
        call.send(described)
    driver.replies = [ok({**ORDERS, "version": 2}), VALUE]
    driver.call(point.get, "orders", "a")
    assert driver.call(metadata.view, "orders").version == 2
    assert driver.targets == ["/views/orders", "/views/orders/keys/a"]
