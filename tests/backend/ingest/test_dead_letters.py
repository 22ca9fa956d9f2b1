"""Dead letters and the queue of their producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from backend.ingest.batch import DeadLetter
from backend.ingest.dead_letters import DeadLetters
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.fakes import Rec


class FullProducer:
    """A producer whose queue has space for two records; `poll` delivers them if it may wait."""

    def __init__(self) -> None:
        self.queue: list[tuple[bytes, Callable[[Any, Any], None]]] = []
        self.delivered: list[bytes] = []

    def produce(self, topic: str, key: bytes, on_delivery: Any, **_: Any) -> None:
        if len(self.queue) == 2:
            raise BufferError("Local: Queue full")
        self.queue.append((key, on_delivery))

    def __len__(self) -> int:
        return len(self.queue)

    def poll(self, timeout: float) -> int:
        if not timeout:
            return 0
        for key, on_delivery in self.queue:
            self.delivered.append(key)
            on_delivery(None, None)
        self.queue.clear()
        return 0


def test_a_full_queue_loses_no_dead_letter() -> None:
    """Regression: of many large ones, those that did not fit in the queue were not written."""
    dead_letters, producer = DeadLetters({}, timeout=1), FullProducer()
    dead_letters._producer = cast(Any, producer)
    dead_letters._topics.add(f"{ORDERS.topic}.dead-letter")
    dead_letters.send(ORDERS, 0, [DeadLetter(Rec(at, b"k", b"{"), "value") for at in range(5)])
    assert producer.delivered == [b"orders:0:%d" % at for at in range(5)]
    assert dead_letters.failed == 0
