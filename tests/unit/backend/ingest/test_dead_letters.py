"""Dead letters and the queue of their producer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from backend.ingest import dead_letters as dead_letters_module
from backend.ingest.batch import DeadLetter
from backend.ingest.dead_letters import DeadLetters
from backend.kafka.clients import Librdkafka
from backend.storage.data_directory import DataDirectory
from local.waiting import wait_until
from model.topology import STANDBY
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.fakes import Rec
from tests.support.in_process.instance import Instance


class FullProducer:
    """A producer whose queue has space for two records; `poll` delivers them if it may wait."""

    def __init__(self, is_stuck: bool = False) -> None:
        self.is_stuck = is_stuck  # then `poll` delivers nothing
        self.queue: list[tuple[bytes, Callable[[Any, Any], None]]] = []
        self.delivered: list[bytes] = []

    def produce(self, topic: str, key: bytes, on_delivery: Any, **_: Any) -> None:
        if len(self.queue) == 2:
            raise BufferError("Local: Queue full")
        self.queue.append((key, on_delivery))

    def __len__(self) -> int:
        return len(self.queue)

    def poll(self, timeout: float) -> int:
        if not timeout or self.is_stuck:
            return 0
        for key, on_delivery in self.queue:
            self.delivered.append(key)
            on_delivery(None, None)
        self.queue.clear()
        return 0

    def purge(self) -> None:
        for _, on_delivery in self.queue:
            on_delivery(KafkaError(KafkaError._PURGE_QUEUE), None)
        self.queue.clear()

    def flush(self, timeout: float) -> int:
        return 0


class Admin:
    """The topic exists."""

    def create_topics(self, topics: Any, **_: Any) -> dict[str, Future[None]]:
        future: Future[None] = Future()
        future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
        return {each.topic: future for each in topics}

    def __exit__(self, *_: object) -> None: ...


def clients(producer: FullProducer) -> Librdkafka:
    return Librdkafka(
        admin=lambda settings: cast(Any, Admin()), producer=lambda settings: cast(Any, producer)
    )


def letter(offset: int) -> DeadLetter:
    return DeadLetter(cast(Any, Rec(offset, b"k", b"{")), "value")


def test_a_full_queue_loses_no_dead_letter() -> None:
    """Regression: of many large ones, those that did not fit in the queue were not written."""
    producer = FullProducer()
    dead_letters = DeadLetters({}, timeout=1, librdkafka=clients(producer))
    dead_letters.send(ORDERS, 0, [DeadLetter(Rec(at, b"k", b"{"), "value") for at in range(5)])
    assert producer.delivered == [b"orders:0:%d" % at for at in range(5)]
    assert dead_letters.failed == 0


@pytest.mark.slow
def test_ingest_waits_for_a_topic_that_does_not_work_a_tenth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: each batch with a dead letter waited, and so did all other views."""
    folder = DataDirectory(tmp_path)
    opened = Instance(folder, ORDERS).hold(0)
    producer = FullProducer(is_stuck=True)
    dead_letters = DeadLetters({}, timeout=0.3, librdkafka=clients(producer))
    dead_letters.take(opened, [letter(0)])
    assert dead_letters.failed == 1
    producer.is_stuck = False
    for offset in range(1, 151):
        dead_letters.take(opened, [letter(offset)])
    assert (producer.delivered, dead_letters.failed) == ([], 51), "it keeps the newest hundred"

    def are_sent() -> bool:
        dead_letters.take(opened)
        return not opened.unsent

    wait_until(are_sent, 30, "the dead letters", 0.05)
    assert producer.delivered == [b"orders:0:%d" % at for at in range(51, 151)]
    assert dead_letters.failed == 51
    folder.close()


def test_a_pause_is_short_although_the_process_was_stopped_while_it_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: after a stop of ten minutes, no dead letter was written for 100 minutes."""
    now = 0.0

    class StoppedProducer(FullProducer):
        def poll(self, timeout: float) -> int:
            nonlocal now
            now += 600
            return super().poll(timeout)

    folder = DataDirectory(tmp_path)
    opened = Instance(folder, ORDERS).hold(0)
    monkeypatch.setattr(dead_letters_module, "time", SimpleNamespace(monotonic=lambda: now))
    producer = StoppedProducer(is_stuck=True)
    dead_letters = DeadLetters({}, timeout=5, librdkafka=clients(producer))
    dead_letters.take(opened, [letter(0)])
    assert dead_letters.failed == 1
    producer.is_stuck = False
    now += 100
    dead_letters.take(opened, [letter(1)])
    assert producer.delivered == []
    now += 200
    dead_letters.take(opened)
    assert producer.delivered == [b"orders:0:1"]
    folder.close()


@pytest.mark.slow
def test_dead_letters_that_wait_when_the_store_is_closed_are_counted(tmp_path: Path) -> None:
    folder = DataDirectory(tmp_path)
    opened = Instance(folder, ORDERS).hold(0)
    dead_letters = DeadLetters({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, timeout=0.2)
    dead_letters.take(opened, [letter(0)])
    dead_letters.take(opened, [letter(1), letter(2)])
    assert dead_letters.failed == 1
    dead_letters.forget(opened)
    assert dead_letters.failed == 3
    opened.role = STANDBY
    dead_letters.take(opened, [letter(3)])
    dead_letters.forget(opened)
    assert dead_letters.failed == 3, "the active sends them"
    folder.close()


@pytest.mark.slow
def test_a_controller_that_does_not_answer_does_not_stop_ingest() -> None:
    """Regression: it was an unexpected error of the ingest thread."""
    dead_letters = DeadLetters({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, timeout=0.2)
    dead_letters.send(ORDERS, 0, [letter(0), letter(1)])
    assert dead_letters.failed == 2
