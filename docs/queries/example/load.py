"""Writes the records of the examples into their topics, which it creates where they are missing.

    .venv/bin/python docs/queries/example/load.py 127.0.0.1:9092

A line of records.jsonl is a record: topic, key, and the value as its view answers it (null
deletes); times are those of a window or session, which Kafka Streams' changelogs have in the
record's key, or the record's own.
"""

from __future__ import annotations

import json
import struct
import sys
import tomllib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from model.partitioner import partition_of

HERE = Path(__file__).parent
PARTITIONS = {"latest-departure": 9, "word-count": 6}  # as `make up` has them; of others 3
SCHEMA = fastavro.parse_schema(json.loads((HERE / "order.avsc").read_text()))


def load(bootstrap_servers: str) -> None:
    """Returns when the broker has all of it; RuntimeError if it does not take it."""
    declared = tomllib.loads((HERE / "views.toml").read_text())["views"]
    views = {view["topic"]: view for view in declared.values()}
    topics = [Topic(topic, PARTITIONS.get(topic, 3), {"retention.ms": "-1"}) for topic in views]
    create_topics(quiet_admin(bootstrap_servers), topics)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    refused: list[str] = []
    for line in (HERE / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        topic, view = record["topic"], views[record["topic"]]
        key = encoded(view["key"], record["key"])
        time = milliseconds(record.get("timestamp", record.get("start")))
        producer.produce(
            topic,
            encoded(view["value"], record["value"]),
            key + record_times(view.get("store"), record),
            # that of the bare key
            partition_of("murmur2")(key, PARTITIONS.get(topic, 3)),
            timestamp=time or 0,
            on_delivery=lambda error, _: refused.append(str(error)) if error else None,
        )
    if producer.flush(30) or refused:
        raise RuntimeError(f"the broker does not take the records: {refused or 'no answer'}")


def encoded(of: str, value: Any) -> bytes | None:
    """A key or a value as Kafka's own serializers write it."""
    if value is None:
        return None
    if of == "int64":
        return struct.pack(">q", value)
    if of == "avro":
        written = BytesIO()
        fastavro.schemaless_writer(written, SCHEMA, {**value, "price": Decimal(value["price"])})
        return written.getvalue()
    return (value if of == "string" else json.dumps(value, separators=(",", ":"))).encode()


def record_times(store: str | None, record: Mapping[str, Any]) -> bytes:
    """What follows the key in a record of such a store."""
    start, end = milliseconds(record.get("start")), milliseconds(record.get("end"))
    if store == "window":
        return struct.pack(">qi", start, 0)
    return struct.pack(">qq", end, start) if store == "session" else b""


def milliseconds(moment: str | None) -> int | None:
    return None if moment is None else round(datetime.fromisoformat(moment).timestamp() * 1000)


if __name__ == "__main__":
    load(sys.argv[1])
