"""What the broker does not tell is not known; the real answers are those of tests/system."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from backend.ingest.metadata_poller import MetadataPoller


class Admin:
    """Answers of a broker that knows the offsets of some partitions."""

    def __init__(self, said: Mapping[int, int | KafkaException]) -> None:
        self._said = said

    def list_offsets(self, asked: Mapping[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        answers = {}
        for partition in asked:
            future: Future[Any] = Future()
            said = self._said[partition.partition]
            if isinstance(said, KafkaException):
                future.set_exception(said)
            else:
                future.set_result(SimpleNamespace(offset=said))
            answers[partition] = future
        return answers


@pytest.mark.parametrize(
    "said", [OFFSET_INVALID, KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))]
)
def test_an_offset_that_is_not_told_is_not_known(said: int | KafkaException) -> None:
    metadata_poller = MetadataPoller({"bootstrap.servers": "127.0.0.1:1"}, 1.0, 1.0)
    metadata_poller._admin = Admin({0: 7, 1: said, 2: 0})  # type: ignore[assignment]
    assert metadata_poller._offsets({"orders": 3}, object()) == {"orders": {0: 7, 2: 0}}  # type: ignore[arg-type]
