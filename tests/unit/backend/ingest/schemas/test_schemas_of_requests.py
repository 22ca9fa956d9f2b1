"""Tests of schemas whose ids clients choose: they must not delay or displace those of records."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.ingest import schema_registry as module
from backend.ingest.schema_registry import SchemaCache, SchemaRegistry
from backend.instance.app import Instance
from backend.instance.constants import Constants
from backend.instance.settings import Settings, read_views
from backend.kafka.clients import kafka_clients
from local.waiting import wait_until
from model.formats.schemas import Schema, SchemaNotYet, SchemaSource
from tests.support.deployment import views_toml
from tests.support.in_process.avro_examples import ORDER, FakeRegistry, framed, registry


@pytest.fixture
def running() -> Iterator[FakeRegistry]:
    with registry() as running:
        yield running


@pytest.fixture
def schemas(running: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaCache]:
    """Not started yet. It has room for two schemas of records."""
    monkeypatch.setattr(module, "_RETRY_AFTER", 0.02)
    monkeypatch.setattr(module, "_MAX_CACHED", 2)
    schemas = SchemaCache(SchemaRegistry(running.url))
    yield schemas
    schemas.stop()


def ask(schemas: SchemaSource, schema_id: int) -> SchemaNotYet:
    """Asks for a schema that is not available yet."""
    with pytest.raises(SchemaNotYet) as error:
        schemas.schema(schema_id)
    return error.value


def fetched(schemas: SchemaSource, schema_id: int) -> Schema:
    """Waits for the schema; ValueError if there is none."""

    def get() -> Schema | None:
        try:
            return schemas.schema(schema_id)
        except SchemaNotYet:
            return None

    return wait_until(get, 10, "a schema", 0.01)


def test_ids_of_clients_wait_behind_those_of_records(
    running: FakeRegistry, schemas: SchemaCache
) -> None:
    for schema_id in range(1000, 3000):
        ask(schemas.for_requests, schema_id)
    running.add(7, "int")
    running.add(8, "int")
    missing = ask(schemas, 7)
    with pytest.raises(SchemaNotYet):
        schemas.for_requests.stored_schema(8)
    schemas.start()
    wait_until(lambda: len(running.asked) >= 18, 10, "the queued ids")
    assert missing.over
    paths = [path for path, _ in running.asked]
    assert paths[:2] == ["/schemas/ids/7", "/schemas/ids/8"]
    assert paths[2:] == [f"/schemas/ids/{schema_id}" for schema_id in range(1000, 1016)]
    assert schemas.for_requests.schema(7) is schemas.schema(7)


def test_ids_of_clients_are_fetched_while_one_of_a_record_fails(
    running: FakeRegistry, schemas: SchemaCache
) -> None:
    running.answers["/schemas/ids/7"] = (500, {"error_code": 50001})
    running.add(8, "int")
    schemas.start()
    ask(schemas, 7)
    assert fetched(schemas.for_requests, 8).format == "avro"
    ask(schemas, 7)


def test_a_client_asks_for_an_id_before_it_is_registered(
    running: FakeRegistry, schemas: SchemaCache
) -> None:
    """Its records must not become dead letters."""
    schemas.start()
    with pytest.raises(ValueError, match="has no schema with"):
        fetched(schemas.for_requests, 7)
    running.add(7, "int")
    schema = fetched(schemas, 7)
    assert schemas.for_requests.schema(7) is schema


def test_a_schema_in_use_stays_cached(running: FakeRegistry, schemas: SchemaCache) -> None:
    schemas.start()
    for schema_id in range(1, 6):
        running.add(schema_id, "int")
    used = fetched(schemas, 1)
    for schema_id in (2, 3):
        fetched(schemas, schema_id)
        assert schemas.schema(1) is used
    for schema_id in (4, 5):
        fetched(schemas.for_requests, schema_id)
    assert schemas.schema(1) is used
    schemas.schema(3)
    ask(schemas, 2)


def test_an_instance_separates_the_ids_of_requests(tmp_path: Path) -> None:
    views = tmp_path / "views.toml"
    of_view = {"topic": "t", "key": "avro", "key_schema": "confluent", "value": "json"}
    views.write_text(views_toml(v=of_view) + f'[schemas]\nfolder = "{tmp_path}"\n')
    (tmp_path / "7.avsc").write_text(json.dumps(ORDER))
    settings = Settings(views=views, data_dir=tmp_path / "data")
    instance = Instance(settings, read_views(views), kafka_clients({}, "127.0.0.1:1"), Constants())
    view, schemas = instance.context.views["v"], instance._schemas
    assert schemas is not None
    raw = framed(7, ORDER, {"id": 1, "price": 2.5})
    with pytest.raises(SchemaNotYet):
        view.key_codec.check(raw)
    assert list(schemas._for_requests.queue) == [7]
    assert not schemas._for_records.queue
    with pytest.raises(SchemaNotYet):
        view.key_codec.to_json(raw)
    assert list(schemas._for_records.queue) == [7]
    instance.stop()
