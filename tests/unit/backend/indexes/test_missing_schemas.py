"""Indexes of values whose schemas are not there now: as after a restart, or if a registry has lost
them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.indexes.partition_indexes import ALL_KEYS, IndexedBatch
from backend.ingest.indexes.work import IndexWork, next_work
from backend.ingest.read_priority import ReadPriority
from backend.ingest.writer import PartitionWriter
from model.indexes.encoding import UNREADABLE, key_head
from model.kinds.layout import ALL
from model.rows.declared_fields import parse_declared_fields
from model.views import View
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.examples import view
from tests.support.in_process.world import world
from tests.unit.backend.indexes.test_index_work import BY_DEST, Partition, ready
from tests.unit.backend.unreadable.applied import put as put_record

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "dest", "type": "string"}],
}
BY_ATL = "keys?where=dest%20%3D%20%27ATL%27"
FIELDS = parse_declared_fields({"dest": "string?"})


@pytest.fixture
def schemas() -> FakeSchemas:
    return FakeSchemas(id7=FLIGHT, id8=FLIGHT)


@pytest.fixture
def partition(tmp_path: Path, schemas: FakeSchemas) -> Iterator[Partition]:
    of = replace(view(value="avro", value_schema="confluent"), schemas=schemas)
    made = Partition(tmp_path, of)
    yield made
    made.opened.store.close()
    made.folder.close()


def put(partition: Partition, key: str, dest: str, schema: int = 7) -> None:
    partition.put_bytes(key, framed(schema, FLIGHT, {"dest": dest}))


def unreadable_key(partition: Partition, key: bytes) -> bytes:
    indexes = partition.opened.indexes
    assert indexes is not None
    return key_head(indexes.ids["by-dest"]) + UNREADABLE + key


def index_keys(partition: Partition) -> set[bytes]:
    return partition.keys()


def sweep(partition: Partition) -> None:
    assert partition.opened.indexes is not None
    partition.opened.indexes.begin_sweep()
    partition.finish()


def open_(partition: Partition, *indexes: Any) -> None:
    partition.open(*indexes, fields=FIELDS)


def test_a_build_waits_for_a_schema(partition: Partition, schemas: FakeSchemas) -> None:
    """After a restart, each schema is fetched again."""
    open_(partition)
    put(partition, "k1", "ATL")
    put(partition, "k2", "JFK")
    known, schemas.by_id = schemas.by_id, {}
    open_(partition, BY_DEST)
    partition.work.run(partition.opened, time.monotonic() + 30)
    assert next_work(partition.opened) is not None
    assert ready(partition) == set()
    schemas.by_id = known
    partition.finish()
    assert ready(partition) == {"by-dest"}
    assert index_keys(partition) == partition.expected()
    assert len(index_keys(partition)) == 2


def test_a_sweep_waits_for_a_schema(partition: Partition, schemas: FakeSchemas) -> None:
    open_(partition, BY_DEST)
    put(partition, "k1", "ATL")
    put(partition, "k1", "JFK")
    known, schemas.by_id = schemas.by_id, {}
    assert partition.opened.indexes is not None
    partition.opened.indexes.begin_sweep()
    partition.work.run(partition.opened, time.monotonic() + 30)
    assert len(index_keys(partition)) == 2
    schemas.by_id = known
    partition.finish()
    assert index_keys(partition) == partition.expected()


def test_a_value_whose_schema_is_gone_is_in_each_look_up(
    partition: Partition, schemas: FakeSchemas
) -> None:
    """A scan cannot leave it out, either. The build ends, so a push can be installed."""
    open_(partition)
    put(partition, "k1", "ATL")
    put(partition, "k2", "ATL", schema=8)
    schemas.by_id[8] = None
    open_(partition, BY_DEST)
    partition.finish()
    assert ready(partition) == {"by-dest"}
    assert index_keys(partition) == partition.expected()
    assert unreadable_key(partition, b"k2") in index_keys(partition)
    # it is back, and it is gone again
    for schema, is_readable in ((FLIGHT, True), (None, False)):
        schemas.by_id[8] = schema
        sweep(partition)
        assert index_keys(partition) == partition.expected()
        assert len(index_keys(partition)) == 2
        assert (unreadable_key(partition, b"k2") in index_keys(partition)) is not is_readable


def test_a_schema_that_is_dropped_while_records_are_applied(
    partition: Partition, schemas: FakeSchemas
) -> None:
    """The cache may drop it after the records were checked; ingest goes on."""
    open_(partition, BY_DEST)
    put(partition, "k1", "ATL")
    indexes, store = partition.opened.indexes, partition.opened.store
    assert indexes is not None
    known, schemas.by_id = schemas.by_id, {}
    batch = store.new_batch()
    indexed = IndexedBatch(batch)
    indexed.written.update(store.scan(*ALL))
    indexes.add_entries(indexed)
    store.write(batch, partition.offset)
    schemas.by_id = known
    assert unreadable_key(partition, b"k1") in index_keys(partition)
    sweep(partition)
    assert index_keys(partition) == partition.expected()


def flights_in_avro(schemas: FakeSchemas) -> View:
    return replace(
        view(value="avro", value_schema="confluent"),
        schemas=schemas,
        fields=FIELDS,
        indexes=(BY_DEST,),
    )


def test_an_order_is_refused_while_a_schema_is_not_there(tmp_path: Path) -> None:
    """As a scan is. The key of an entry may have been written when its value could be read."""
    schemas = FakeSchemas(id7=FLIGHT)
    with world(tmp_path, flights_in_avro(schemas)) as made:
        put_record(made, b"k1", framed(7, FLIGHT, {"dest": "ATL"}))
        [item] = made.ask("keys?order_by=dest").json["items"]
        assert item["value"] == {"dest": "ATL"}
        schemas.by_id = {}
        assert made.code("keys?order_by=dest", 503) == "schema-unavailable"
        schemas.by_id = {7: None}
        assert made.code("keys?order_by=dest", 503) == "schema-unavailable"


def test_an_order_is_refused_until_an_entry_has_its_key(tmp_path: Path) -> None:
    """The schema was not there when the key was written."""
    schemas = FakeSchemas(id7=FLIGHT)
    with world(tmp_path, flights_in_avro(schemas)) as made:
        put_record(made, b"k1", framed(7, FLIGHT, {"dest": "ATL"}))
        partition = made.store_partitions[made.partition(b"k1")]
        indexes, store = partition.indexes, partition.store
        assert indexes is not None
        known, schemas.by_id = schemas.by_id, {}
        batch = store.new_batch()
        batch.delete_range(*ALL_KEYS)
        indexed = IndexedBatch(batch)
        indexed.written.update(store.scan(*ALL))
        indexes.add_entries(indexed)
        store.write(batch, store.position or 0)
        schemas.by_id = known
        assert [item["key"] for item in made.ask(BY_ATL).json["items"]] == ["k1"]
        assert made.code("keys?order_by=dest", 503) == "index-building"
        work = IndexWork(PartitionWriter(lambda: None), ReadPriority(lambda: 0))
        work.run(partition, time.monotonic() + 30)
        assert [item["key"] for item in made.ask("keys?order_by=dest").json["items"]] == ["k1"]
        # a key that an unreadable value has left does no harm
        put_record(made, b"k1", b"unreadable")
        put_record(made, b"k1", framed(7, FLIGHT, {"dest": "JFK"}))
        [item] = made.ask("keys?order_by=dest").json["items"]
        assert item["value"] == {"dest": "JFK"}
