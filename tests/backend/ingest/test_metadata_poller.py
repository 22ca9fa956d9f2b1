"""Tests of the metadata poller with a fake broker; tests/system has tests with a real one."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from backend.ingest.metadata_poller import MetadataPoller


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
    metadata_poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    metadata_poller._admin = Admin({0: 7, 1: result, 2: 0})  # type: ignore[assignment]
    assert metadata_poller._offsets({"orders": 3}, object()) == {"orders": {0: 7, 2: 0}}  # type: ignore[arg-type]
