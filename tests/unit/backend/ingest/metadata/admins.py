"""Admin clients with the answers of a test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition


class Admin:
    """An admin client with these results by partition."""

    def __init__(self, results: dict[int, int | KafkaException]) -> None:
        self.results = results

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        futures = {}
        for partition in requests:
            future: Future[Any] = Future()
            result = self.results[partition.partition]
            if isinstance(result, KafkaException):
                future.set_exception(result)
            else:
                future.set_result(SimpleNamespace(offset=result))
            futures[partition] = future
        return futures


class SilentAdmin:
    """An admin client that fails with this error."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.closed = False

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        future.set_exception(self._error or KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {"orders": future}

    def __exit__(self, *_: object) -> None:
        self.closed = True


class DescribingAdmin(Admin):
    """A topic with five partitions. Partition 3 has three records, and so on. `asked` has the
    partitions of each request for offsets. Those in `without_leader` have no offsets, but for
    `is_known`, their description does not say so."""

    def __init__(self, without_leader: Collection[int] = (), is_known: bool = False) -> None:
        self._without_leader = without_leader if is_known else ()
        no_leader = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        super().__init__(
            {number: no_leader if number in without_leader else number for number in range(5)}
        )
        self.topic_id, self.partitions = "topic-1", 5
        self.asked: list[set[int]] = []
        self.configs = {"cleanup.policy": "delete"}
        self.refused: set[str] = set()  # topics whose configuration may not be read

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        future.set_result(
            SimpleNamespace(
                topic_id=self.topic_id,
                partitions=[
                    SimpleNamespace(id=n, leader=None if n in self._without_leader else "a broker")
                    for n in range(self.partitions)
                ],
            )
        )
        return dict.fromkeys(topics.topic_names, future)

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        self.asked.append({partition.partition for partition in requests})
        return super().list_offsets(requests)

    def describe_configs(self, resources: Any, **_: Any) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        if resources[0].name in self.refused:
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            future.set_exception(KafkaException(error))
        else:
            configs = self.configs.items()
            future.set_result({name: SimpleNamespace(value=value) for name, value in configs})
        return {resources[0]: future}
