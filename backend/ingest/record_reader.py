"""Reads records from a topic for one request, if a store partition does not have them, or has only
a part of them."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from model.kafka.admin import reason_of
from model.kafka.clients import closing
from model.kafka.headers import headers_of
from model.problems import NotAcceptable, Unavailable

POLL = 0.2
"""Timeout of one call of `Consumer.poll`, in s."""
_GONE = (KafkaError._PARTITION_EOF, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


@contextmanager
def reading(settings: Mapping[str, Any]) -> Iterator[Consumer]:
    """Open a consumer without a group until the end of the block. `settings`: of librdkafka.
    Requests are rare, so each has a consumer of its own. Raises Unavailable, also for a
    KafkaException in the block."""
    own_settings = {
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    try:
        with closing(Consumer({**settings, **own_settings})) as consumer:
            yield consumer
    except KafkaException as e:
        raise Unavailable(
            "broker-unreachable", f"The broker did not answer, or refused: {reason_of(e)}."
        ) from None


def shown(content: bytes, errors: str = "strict") -> dict[str, str]:
    """{"text"}; or {"base64"}, if the bytes are not UTF-8. `errors`: as for `bytes.decode`."""
    try:
        return {"text": content.decode(errors=errors)}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


class RecordReader:
    """Reads one record again, for its headers. Any thread may use it."""

    def __init__(self, client_settings: Mapping[str, Any], timeout: float) -> None:
        """`client_settings`: of librdkafka. `timeout` (s): for the whole request."""
        self._settings = {
            **client_settings,
            "client.id": "queryable-record-headers",
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": 1024,
        }
        self._timeout = timeout

    def headers(
        self, topic: str, partition: int, offset: int, timestamp: int | None
    ) -> list[dict[str, Any]] | None:
        """The headers of the record at this offset, in their order, as [{"name", "value"}]; a value
        is {"text"}, {"base64"} or null. None if the topic no longer has the record, or has another
        record at this offset. Blocks. Raises Unavailable, NotAcceptable."""
        deadline = time.monotonic() + self._timeout
        with reading(self._settings) as consumer:
            consumer.assign([TopicPartition(topic, partition, offset)])
            while (left := deadline - time.monotonic()) > 0:
                message = consumer.poll(min(POLL, left))
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    if error.code() in _GONE:
                        return None
                    raise KafkaException(error)
                identity = message.offset(), _time(message)
                return _documents(message) if identity == (offset, timestamp) else None
        raise Unavailable("broker-unreachable", "The broker has not sent the record in time.")


def _time(message: Any) -> int | None:
    kind, time_ = message.timestamp()
    return None if kind == 0 or time_ < 0 else int(time_)


def _documents(message: Any) -> list[dict[str, Any]]:
    headers = headers_of(message)
    if headers is None:
        raise NotAcceptable("headers-unreadable", "The name of a header is not UTF-8.")
    return [
        {"name": name, "value": None if value is None else shown(value)} for name, value in headers
    ]
