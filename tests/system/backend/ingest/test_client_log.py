"""What Kafka's clients of an instance log while a broker is down.

Regression: there were 20 lines per second and client, for appends not in the log's format.
"""

from __future__ import annotations

import time

import pytest

from backend.ingest.appender import Appender
from backend.ingest.batch import DeadLetter
from backend.ingest.consumer import RecordConsumer
from backend.ingest.dead_letters import DeadLetters
from local.ports import free_ports
from local.waiting import wait_until
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.fakes import Rec

_LONG_ENOUGH_S = 2.0


@pytest.fixture
def settings() -> dict[str, str]:
    """Of a broker that refuses connections."""
    [unused] = free_ports(1)
    return {"bootstrap.servers": f"127.0.0.1:{unused}"}


def _refused(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.name, record.levelname)
        for record in caplog.records
        if "Connection refused" in record.getMessage()
    ]


def test_the_consumer_logs_once_that_a_broker_refuses_connections(
    settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    consumer = RecordConsumer(settings)
    try:
        deadline = time.monotonic() + _LONG_ENOUGH_S
        while time.monotonic() < deadline:
            consumer.fetch(1, 0.1)
        assert _refused(caplog) == [("backend.ingest.consumer", "ERROR")]
    finally:
        consumer.close()


def test_the_producer_of_appends_logs_once_that_a_broker_refuses_connections(
    settings: dict[str, str], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    appender = Appender(settings, 1.0)
    appender.start()
    try:
        wait_until(lambda: _refused(caplog), 10, "the first line")
        deadline = time.monotonic() + _LONG_ENOUGH_S
        while time.monotonic() < deadline:
            time.sleep(0.1)
        assert _refused(caplog) == [("backend.ingest.appender", "ERROR")]
    finally:
        appender.stop()
    assert settings["bootstrap.servers"] not in capfd.readouterr().err


def test_the_producer_of_dead_letters_logs_nothing_itself(
    settings: dict[str, str], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is not polled between two failures. Each failure is logged."""
    dead_letters = DeadLetters(settings, 0.5)
    dead_letters.send(ORDERS, 0, [DeadLetter(Rec(0, b"k", b"{"), "value")])
    deadline = time.monotonic() + _LONG_ENOUGH_S
    while time.monotonic() < deadline:
        time.sleep(0.1)
    dead_letters.close()
    assert [record.name for record in caplog.records] == ["backend.ingest.dead_letters"]
    assert "could not write 1 dead letters" in caplog.text
    assert settings["bootstrap.servers"] not in capfd.readouterr().err
