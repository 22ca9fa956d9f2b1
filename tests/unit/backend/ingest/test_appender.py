"""The producer of appends while no broker answers."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException

from backend.ingest.appender import Appender, NotTaken, QueueFull
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


def test_settings_that_librdkafka_refuses_are_an_error_of_the_start() -> None:
    """Its thread makes the producer. A start that waited for it would hang."""
    with pytest.raises(KafkaException, match="acks"):
        Appender({"bootstrap.servers": "127.0.0.1:1", "acks": "1"}, 1.0).start()


def test_a_producer_that_is_closed_meanwhile_takes_no_record() -> None:
    """The append thread replaces a producer with a fatal error, and closes it."""
    appender = Appender({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, 1.0)
    appender.start()
    appender.stop()
    assert appender._producer is not None
    assert appender._producer.close()
    with pytest.raises(NotTaken, match="closed"):
        appender.append("t", 0, b"k", b"v", lambda offset, why: None)
