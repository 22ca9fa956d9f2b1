"""Topics of changes without a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from backend.kafka.clients import Librdkafka


class FakeChangeLog:
    """A `ChangeLog` whose states come from the test, which calls `publish`. `answer`: whether the
    topic exists; None if the broker does not answer."""

    def __init__(self, *of: Any, answer: bool | None = True) -> None:
        self._answer = answer
        self.publish: Callable[[Mapping[str, Any]], None] = of[4]
        self.is_followed = False

    def exists(self, timeout: float) -> bool | None:
        return self._answer

    def start(self) -> None:
        self.is_followed = True

    def wait_until_known(self, timeout: float) -> bool:
        return False

    def stop(self) -> None:
        pass


class FakeTopic:
    """A topic with one partition, and librdkafka's clients of it, as far as a `ChangeLog` uses
    them. `copies`: how often a record that is sent arrives. `refusal`: the error if the topic is
    created; without one, it exists."""

    def __init__(self, copies: int = 1, refusal: int | None = None) -> None:
        self.records: list[tuple[bytes, list[tuple[str, bytes]]]] = []
        self.failures = 0  # how many of the next polls with a record fail
        self._copies = copies
        self._arrived = threading.Condition()
        self.librdkafka = Librdkafka(
            lambda settings: _Admin(refusal),  # type: ignore[arg-type, return-value]
            lambda settings: _Consumer(self),  # type: ignore[arg-type, return-value]
            lambda settings: self,  # type: ignore[arg-type, return-value]
        )

    # a producer

    def produce(
        self,
        topic: str,
        value: bytes,
        key: str,
        partition: int,
        headers: dict[str, bytes],
        on_delivery: Callable[[None, None], None],
    ) -> None:
        with self._arrived:
            self.records += [(value, list(headers.items()))] * self._copies
            self._arrived.notify_all()
        on_delivery(None, None)

    def flush(self, timeout: float) -> int:
        return 0

    def next(self, position: int, timeout: float) -> _Message | None:
        """The record at the position."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.records) > position, timeout):
                return None
            if self.failures:
                self.failures -= 1
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_SERVER_ERROR))
            return _Message(position, *self.records[position])


class _Admin:
    def __init__(self, refusal: int | None) -> None:
        self._refusal = refusal

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        found = _done(SimpleNamespace(topic_id="topic-1"))
        missing = _failed(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return dict.fromkeys(topics.topic_names, found if self._refusal is None else missing)

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        return dict.fromkeys(resources, _failed(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    def create_topics(self, topics: list[Any], **_: Any) -> dict[str, Future[Any]]:
        assert self._refusal is not None
        return {each.topic: _failed(self._refusal) for each in topics}

    def __exit__(self, *_: object) -> None: ...


class _Consumer:
    """After the last record, it says once that this is the end."""

    def __init__(self, topic: FakeTopic) -> None:
        self._topic = topic
        self._position = 0
        self._said_end = False

    def assign(self, partitions: list[Any]) -> None:
        pass

    def poll(self, timeout: float) -> _Message | None:
        message = self._topic.next(self._position, timeout if self._said_end else 0)
        if message is not None:
            self._position += 1
            self._said_end = False
        elif not self._said_end:
            self._said_end = True
            return _Message(self._position, b"", [], KafkaError(KafkaError._PARTITION_EOF))
        return message

    def __exit__(self, *_: object) -> None: ...


class _Message:
    def __init__(
        self,
        offset: int,
        value: bytes,
        headers: list[tuple[str, bytes]],
        error: KafkaError | None = None,
    ) -> None:
        self._of = offset, value, headers, error

    def offset(self) -> int:
        return self._of[0]

    def value(self) -> bytes:
        return self._of[1]

    def headers(self) -> list[tuple[str, bytes]]:
        return self._of[2]

    def error(self) -> KafkaError | None:
        return self._of[3]


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def _failed(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future
