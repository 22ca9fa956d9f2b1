"""Reads the newest dead letters of a topic, for people who want to know why a record is missing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from backend.ingest.record_reader import POLL, reading, shown
from model.dead_letters import SUFFIX
from model.kafka.headers import headers_of

MAX_LETTERS = 1000
MAX_BYTES = 8 << 20  # of all keys and values that are read
MAX_SHOWN = 2000  # bytes of a key or value
_MAX_PARTITIONS = 16
_EXPLAINED = {  # header -> name in the document
    "by": "by",
    "reason": "reason",
    "source-topic": "topic",
    "source-partition": "partition",
    "source-offset": "offset",
    "source-timestamp": "timestamp",
}
_NUMBERS = ("partition", "offset", "timestamp")
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)


class DeadLetterReader:
    """A reader of dead letters. Any thread may use it."""

    def __init__(self, client_settings: Mapping[str, Any], timeout: float) -> None:
        """`client_settings`: of librdkafka. `timeout` (s): for the whole request."""
        self._settings = {
            **client_settings,
            "client.id": "queryable-dead-letters",
        }
        self._timeout = timeout

    def newest(self, topic: str, limit: int) -> dict[str, Any]:
        """The newest dead letters of a topic's records, newest first. Blocks. Raises Unavailable.

            {"topic": of the dead letters, "stored": how many offsets it has,
             "items": [{"topic", "partition", "offset", "timestamp": ms, "by", "reason",
                        "key", "value"}]}

        A key or value is null, {"text"} or {"base64"}. If it is cut, "bytes" is its full size.
        """
        letters = topic + SUFFIX
        with reading(self._settings) as consumer:
            stored, messages = self._read(consumer, letters, limit)
        messages.sort(key=lambda message: message.timestamp()[1], reverse=True)
        return {"topic": letters, "stored": stored, "items": [*map(_document, messages[:limit])]}

    def _read(self, consumer: Consumer, topic: str, limit: int) -> tuple[int, list[Message]]:
        """The number of offsets of the topic, and its newest messages."""
        deadline = time.monotonic() + self._timeout
        described = consumer.list_topics(topic, self._timeout).topics[topic]
        if described.error is not None:
            if described.error.code() in _UNKNOWN:
                return 0, []  # no dead letter has been written
            raise KafkaException(described.error)
        starts, stored = [], 0
        for partition in sorted(described.partitions)[:_MAX_PARTITIONS]:
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), self._timeout
            )
            stored += high - low
            if high > low:
                starts.append(TopicPartition(topic, partition, max(low, high - limit)))
        if not starts:
            return stored, []
        consumer.assign(starts)
        messages: list[Message] = []
        size, unread = 0, {start.partition for start in starts}
        while unread and size < MAX_BYTES and time.monotonic() < deadline:
            message = consumer.poll(POLL)
            if message is None:
                continue
            if (error := message.error()) is None:
                messages.append(message)
                size += len(message.key() or b"") + len(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition() or 0)
            else:
                raise KafkaException(error)
        return stored, messages


def _document(message: Message) -> dict[str, Any]:
    headers = {name: value for name, value in headers_of(message) or () if value is not None}
    document: dict[str, Any] = {
        name: headers[header].decode(errors="replace") if header in headers else None
        for header, name in _EXPLAINED.items()
    }
    for name in _NUMBERS:
        text = document[name] or ""
        document[name] = int(text) if text.isdecimal() and len(text) < 20 else None
    is_null = headers.get("source-value") == b"null"
    document["key"] = _shown(headers.get("source-key"), headers.get("source-key-bytes"))
    value = None if is_null else message.value() or b""
    document["value"] = _shown(value, headers.get("source-value-bytes"))
    return document


def _shown(content: bytes | None, size: bytes | None) -> dict[str, Any] | None:
    """The document of a key or value. `size`: of the record's key or value, if the dead letter has
    only a part of it."""
    if content is None:
        return None
    total = int(size) if size is not None and size.isdigit() else len(content)
    cut = content[:MAX_SHOWN]
    full_size = {"bytes": total} if total > len(cut) else {}
    # a cut may be within a character
    return {**shown(cut, "strict" if len(cut) == len(content) else "ignore"), **full_size}
