"""Tests of the metadata poller with a fake broker; tests/system has tests with a real one."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from backend.ingest import metadata_poller
from backend.ingest.metadata_poller import MetadataPoller
from local.waiting import wait_until


class Admin:
    """An admin client with these results by partition."""

    def __init__(self, results: Mapping[int, int | KafkaException]) -> None:
        self._results = results

    def list_offsets(self, requests: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        futures = {}
        for partition in requests:
            future: Future[Any] = Future()
            result = self._results[partition.partition]
            if isinstance(result, KafkaException):
                future.set_exception(result)
            else:
                future.set_result(SimpleNamespace(offset=result))
            futures[partition] = future
        return futures


@pytest.mark.parametrize(
    "result", [OFFSET_INVALID, KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))]
)
def test_a_partition_without_a_valid_offset_is_left_out(result: int | KafkaException) -> None:
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = Admin({0: 7, 1: result, 2: 0})  # type: ignore[assignment]
    assert poller._offsets({"orders": 3}, object()) == {"orders": {0: 7, 2: 0}}  # type: ignore[arg-type]


class SilentAdmin:
    """An admin client that fails with this error."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        future.set_exception(self._error or KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {"orders": future}


@pytest.mark.parametrize(
    ("error", "has_answered"),
    [
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), False),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), False),
        (TimeoutError(), False),
        (KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), True),
    ],
)
def test_a_refusal_is_an_answer(error: Exception, has_answered: bool) -> None:
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    poller._admin = SilentAdmin(error)  # type: ignore[assignment]
    assert poller.poll(["orders"]) is has_answered


def test_a_client_that_gets_no_answer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: after an outage, one waited for the controller for minutes."""
    made: list[SilentAdmin] = []

    def make(settings: Mapping[str, Any]) -> SilentAdmin:
        assert settings["client.id"] == "queryable-metadata-poller"
        made.append(SilentAdmin())
        return made[-1]

    monkeypatch.setattr(metadata_poller, "AdminClient", make)
    monkeypatch.setattr(metadata_poller, "_NEW_CLIENT_AFTER", 0.1)
    poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 0.01, 1.0)
    poller.start()
    try:
        poller.watch(frozenset(["orders"]))
        wait_until(lambda: len(made) >= 3, 10, "new clients", 0.01)
    finally:
        poller.stop()
    assert not poller.alive
