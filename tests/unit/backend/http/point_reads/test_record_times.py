"""The timestamps of records in answers: also of those that have none, and of unreadable ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backend.wire.answer import timestamp_headers
from model.records import ENTRY, entry_head, timestamp_json, unreadable_entry, with_timestamp
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.examples import view
from tests.support.in_process.world import world


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (0, b"0"),
        (1_400_000_000_000, b"1400000000000"),
        (2**63 - 1, b"9223372036854775807"),
        (-1, None),  # a record of a producer of before Kafka 0.10
        (-(2**63), None),
    ],
)
def test_a_timestamp(time: int, said: bytes | None) -> None:
    entry = entry_head(time, 5) + b"{}"
    headers = () if said is None else ((b"record-timestamp", said),)
    assert timestamp_headers(entry) == headers
    assert timestamp_json(entry) == (said or b"null")
    item = b'{"key":1,"timestamp":%b}' % (said or b"null")
    assert with_timestamp(b'{"key":1}', entry) == item


@pytest.mark.parametrize("partitioner", ["murmur2", "none"])
def test_bytes_of_an_unreadable_value_need_no_schema(tmp_path: Path, partitioner: str) -> None:
    avro = view(value="avro", value_schema="confluent", partitioner=partitioner)
    with world(tmp_path, replace(avro, schemas=FakeSchemas())) as made:
        opened, value = made.store_partitions[made.partition(b"a")], framed(7, "int", 1)
        batch = opened.store.new_batch()
        batch.put(ENTRY + b"a", unreadable_entry(9, 0, value))
        opened.metadata = replace(opened.metadata, unreadable_values=1)
        opened.store.write(batch, 1, opened.metadata)
        opened.progress.applied(1)
        answer = made.ask("keys/a", accept="application/octet-stream")
        assert (answer.status, answer.body) == (200, value)
        assert answer.named[b"record-timestamp"] == b"9"
        assert made.ask("keys/a").json["code"] == "schema-unavailable"
