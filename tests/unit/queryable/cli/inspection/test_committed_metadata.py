"""Regression: `check` failed if the bytes after a heartbeat in memory were no text."""

from __future__ import annotations

import json
from typing import cast

import pytest
from confluent_kafka import TopicPartition

from queryable.cli.inspection.broker import metadata_of

HEARTBEAT = '{"state": "running"}'


class Committed:
    """As confluent-kafka reads the C string, which has no zero byte at its end."""

    def __init__(self, content: bytes | None) -> None:
        self._content = content

    @property
    def metadata(self) -> str | None:
        return None if self._content is None else self._content.decode()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (HEARTBEAT.encode(), HEARTBEAT),
        (HEARTBEAT.encode() + b"}x", HEARTBEAT),
        (HEARTBEAT.encode() + b"\xb5", ""),
        (None, ""),
        (b"", ""),
        (b"text", ""),
    ],
)
def test_the_metadata_of_an_offset(content: bytes | None, text: str) -> None:
    assert metadata_of(cast(TopicPartition, Committed(content))) == text
    partition = TopicPartition("t", 0, metadata=HEARTBEAT)
    assert json.loads(metadata_of(partition)) == {"state": "running"}
