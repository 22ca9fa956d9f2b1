"""The producer of appends while no broker answers."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from backend.ingest.appender import Appender, QueueFull
from local.ports import free_ports

MB = 1 << 20


@pytest.mark.slow
def test_records_that_wait_for_the_broker_are_bounded_in_bytes() -> None:
    [port] = free_ports(1)
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
    appender, given_up = Appender(settings, 1.0), threading.Semaphore(0)
    appender.start()
    taken = 0

    def append(size: int) -> None:
        appender.append("t", 0, b"k", bytes(size), lambda offset, why: given_up.release())

    with suppress(QueueFull):
        while taken < 80:
            append(900_000)
            taken += 1
    assert 60 * MB < taken * 900_000 <= 64 * MB
    for _ in range(taken):
        assert given_up.acquire(timeout=10)
    append(900_000)  # there is room again
    appender.stop()
