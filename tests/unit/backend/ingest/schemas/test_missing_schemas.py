"""A schema that is not there now may be there later: its records wait, for a time that is set."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.ingest import schema_registry as module
from backend.ingest.batch import build_batch
from backend.ingest.schema_registry import SchemaCache, SchemaFolder, SchemaRegistry
from local.waiting import wait_until
from model.formats.avro.schema import AvroSchema
from model.formats.schemas import SchemaNotFound, SchemaNotYet
from model.records import place, unreadable_entry
from model.rows.unreadable import Unreadable, settle, split, value_member
from tests.support.in_process.avro_examples import (
    ORDER,
    FakeRegistry,
    FakeSchemas,
    framed,
    registry,
)
from tests.support.in_process.examples import view
from tests.support.in_process.fakes import Rec
from tests.unit.backend.ingest.test_batch import DictBatch

Start = Callable[[object, float], SchemaCache]


@pytest.fixture
def running() -> Iterator[FakeRegistry]:
    with registry() as running:
        yield running


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr(module, "_RETRY_AFTER", 0.01)
    monkeypatch.setattr(module, "_MAX_RETRY_AFTER", 0.04)
    monkeypatch.setattr(module, "_ERROR_TTL", 0.05)
    started: list[SchemaCache] = []

    def started_cache(source: object, missing_after: float) -> SchemaCache:
        started.append(SchemaCache(source, missing_after))  # type: ignore[arg-type]
        started[-1].start()
        return started[-1]

    yield started_cache
    for each in started:
        each.stop()


def waits(schemas: SchemaCache, schema_id: int = 7) -> bool:
    try:
        schemas.schema(schema_id)
    except SchemaNotYet:
        return True
    except ValueError:
        return False
    return False


def test_records_wait_for_a_registry_that_is_restored(
    running: FakeRegistry, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: two seconds without its schemas emptied a view for good."""
    schemas = start(SchemaRegistry(running.url), 60.0)
    with caplog.at_level(logging.WARNING):
        assert waits(schemas)
        wait_until(lambda: len(running.asked) > 5, 10, "several tries", 0.01)
        assert waits(schemas)
        assert re.search(r"has had no such schema for \d+ s\. After 60 s", schemas.state(7))
    assert (
        len([each for each in caplog.records if "records that need it wait" in each.message]) == 1
    )
    running.add(7, ORDER)
    wait_until(lambda: not waits(schemas), 10, "the schema", 0.01)
    assert isinstance(schemas.schema(7), AvroSchema)


@pytest.mark.slow
def test_only_a_source_that_says_so_steadily_has_no_such_schema(
    running: FakeRegistry, start: Start
) -> None:
    schemas = start(SchemaRegistry(running.url), 0.5)
    assert waits(schemas)
    wait_until(lambda: len(running.asked) > 2, 10, "some tries", 0.01)
    before = schemas._not_found_since[7]
    running.answers["/schemas/ids/7"] = (500, {"error_code": 50001})
    wait_until(lambda: not schemas._not_found_since, 10, "an error", 0.005)
    time.sleep(0.5)
    assert waits(schemas), "an error says nothing about the schema"
    del running.answers["/schemas/ids/7"]
    wait_until(lambda: 7 in schemas._not_found_since, 10, "the next answer", 0.005)
    assert schemas._not_found_since[7] > before + 0.5
    wait_until(lambda: not waits(schemas), 10, "the end of the time", 0.01)
    with pytest.raises(ValueError, match="has no schema with this id"):
        schemas.schema(7)


@pytest.mark.slow
def test_an_id_that_always_fails_delays_no_decision_about_others(
    running: FakeRegistry, start: Start
) -> None:
    """A client can name one, and a registry may have one that it cannot give."""
    running.answers["/schemas/ids/9"] = (500, {"error_code": 50001})
    schemas = start(SchemaRegistry(running.url), 0.5)
    assert waits(schemas, 9)
    assert waits(schemas)
    wait_until(lambda: not waits(schemas), 10, "the end of the time", 0.01)
    with pytest.raises(ValueError, match="has no schema with this id"):
        schemas.schema(7)
    assert waits(schemas, 9)


def test_queries_of_many_entries_do_not_wait_for_a_schema() -> None:
    """Regression: after a restart, each of them was refused until all schemas were decided."""
    of = replace(view(value="avro", value_schema="confluent"), schemas=FakeSchemas(id8=ORDER))
    order = {"id": 1, "price": 2.5, "note": None}
    missing, known = (
        (b"k%d" % id_, place(unreadable_entry(7, 3, framed(id_, ORDER, order)), 2))
        for id_ in (7, 8)
    )
    with pytest.raises(SchemaNotYet):
        settle(of, missing[1])
    assert [key for key, _ in split(of, [missing, known])[0]] == [b"k8"]
    assert json.loads(b"{%b}" % value_member(of, missing[1])) == {
        "unreadable": {"partition": 2, "offset": 3, "reason": "schema 7: asked for."}
    }
    assert b'"value":{"id":1' in value_member(of, known[1])


@pytest.mark.slow
def test_a_missing_schema_is_looked_for_again(running: FakeRegistry, start: Start) -> None:
    """Its records become readable without a rebuild, and no reader waits meanwhile."""
    schemas = start(SchemaRegistry(running.url), 0.0)
    wait_until(lambda: not waits(schemas), 10, "that it is missing", 0.01)
    of = replace(view(value="avro", value_schema="confluent"), schemas=schemas.for_requests)
    raw = framed(7, ORDER, {"id": 1, "price": 2.5, "note": None})
    stored = place(unreadable_entry(7, 3, raw), 0)
    for _ in range(20):
        found = settle(of, stored)
        assert isinstance(found, Unreadable)
        assert "has no schema with this id" in found.reason
        time.sleep(0.01)
    running.add(7, ORDER)

    def value() -> bytes | None:
        found = settle(of, stored)
        return None if isinstance(found, Unreadable) else of.value_codec.to_json(found[16:])

    assert json.loads(wait_until(value, 10, "the value", 0.01))["id"] == 1


def test_a_new_schema_does_not_wait_for_one_that_is_missing(
    running: FakeRegistry, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_AFTER", 30.0)
    monkeypatch.setattr(module, "_MAX_RETRY_AFTER", 30.0)
    schemas = start(SchemaRegistry(running.url), 600.0)
    assert waits(schemas)
    wait_until(lambda: running.asked, 10, "the first try", 0.01)
    running.add(8, "int")
    assert waits(schemas, 8)
    wait_until(lambda: not waits(schemas, 8), 10, "the other schema", 0.01)


@pytest.mark.parametrize("more", [{}, {"unwrap": "debezium"}, {"retention": "1d"}], ids=str)
def test_all_missing_schemas_of_a_run_are_waited_for_at_the_same_time(
    running: FakeRegistry, start: Start, more: dict[str, str]
) -> None:
    """Regression: several schemas that were deleted took the time of each, one after the other."""
    schemas = start(SchemaRegistry(running.url), 600.0)
    plain = view(key="avro", key_schema="confluent", value="avro", value_schema="confluent", **more)
    of = replace(plain, schemas=schemas)
    key = framed(5, "string", "k")
    running.add(5, "string")
    assert waits(schemas, 5)
    wait_until(lambda: not waits(schemas, 5), 10, "the schema of keys", 0.01)
    values = [b"not framed", None, *(framed(number, "int", 1) for number in (8, 9))]
    records = [
        Rec(0, key, framed(7, "int", 1)),
        *(Rec(at, key, value) for at, value in enumerate(values, 1)),
    ]
    records += [Rec(5, framed(6, "string", "k"), None), Rec(6, None, None)]
    result = build_batch(DictBatch(), of, records)
    assert result.missing_schema is not None
    assert (result.missing_schema.schema_id, result.stopped_at) == (7, 0)
    since = schemas._not_found_since
    wait_until(lambda: since.keys() == {6, 7, 8, 9}, 10, "that all are missing", 0.01)


def test_a_file_that_is_written_later(start: Start, tmp_path: Path) -> None:
    schemas = start(SchemaFolder(tmp_path), 60.0)
    assert waits(schemas)
    wait_until(lambda: "has had no such schema" in schemas.state(7), 10, "a try", 0.01)
    (tmp_path / "7.avsc").write_text(json.dumps(ORDER))
    wait_until(lambda: not waits(schemas), 10, "the file", 0.01)


@pytest.mark.parametrize("code", [40401, 40402])
def test_a_reference_that_is_missing(running: FakeRegistry, start: Start, code: int) -> None:
    """Regression: a schema with a reference that the registry does not have made its records wait
    for ever."""
    refers = {"references": [{"name": "shop.Order", "subject": "a", "version": 1}]}
    running.add(7, {"type": "array", "items": "shop.Order"}, **refers)
    running.answers["/subjects/a/versions/1"] = (404, {"error_code": code})
    with pytest.raises(SchemaNotFound, match="/subjects/a/versions/1"):
        SchemaRegistry(running.url).fetch(7)
    schemas = start(SchemaRegistry(running.url), 0.0)
    wait_until(lambda: not waits(schemas), 10, "that it is missing", 0.01)
