"""Findings about topics."""

from __future__ import annotations

import json
from dataclasses import replace

from model.partitioner import partition_of
from model.views_file import parse_views
from queryable.cli.check.findings import Finding
from queryable.cli.check.rows import check_sources
from queryable.cli.check.topics import (
    check_classes,
    check_partitioner,
    check_records,
    check_retention,
)
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.schema_sources import FetchedSchemas, open_registry
from tests.support.in_process.avro_examples import registry
from tests.unit.queryable.cli.inspection.records import (
    BOTH,
)
from tests.vectors.debezium_avro import changes, value_schema
from tests.vectors.debezium_avro import schemas as known_schemas
from tests.vectors.debezium_cases import cases
from tests.vectors.frames import frames


def test_no_advice_on_the_producers_of_changelogs() -> None:
    [view] = parse_views(
        '[views.t]\ntopic = "app-t-changelog"\nkey = "string"\nvalue = "string"\n'
    ).views
    placed_elsewhere = [(1, b"key %d" % n) for n in range(30)]
    finding = check_partitioner(view, 3, placed_elsewhere)
    assert finding.status == "wrong"
    assert "producers" not in finding.action
    assert 'partitioner = "none"' in finding.action
    assert (
        "producers" in check_partitioner(replace(view, topic="orders"), 3, placed_elsewhere).action
    )
    # the topic's retention is not that of the store
    finding = check_retention(view, BOTH)
    assert "application's code" in finding.action
    assert "26h" not in finding.action


def test_a_format_whose_class_is_not_installed_here() -> None:
    [view] = parse_views('[views.t]\ntopic = "t"\nkey = "not_there:Key"\nvalue = "json"\n').views
    [finding] = check_classes(view)
    assert finding.status == "wrong"
    assert finding.message == (
        "[views.t], key: not_there:Key cannot be imported: No module named 'not_there'. Put its "
        "folder on PYTHONPATH"
    )
    assert list(check_records(view, 1, [])) == []


def test_the_empty_key_of_librdkafka_may_be_in_any_partition() -> None:
    source = '[views.t]\ntopic = "t"\nkey = "string"\nvalue = "string"\npartitioner = "crc32"\n'
    [view] = parse_views(source).views
    home = partition_of("crc32")
    placed = [(home(key, 3), key) for key in (b"key %d" % n for n in range(30))]
    anywhere = [(0, b""), (1, b""), (2, b"")]
    assert check_partitioner(view, 3, [*placed, *anywhere]).status == "ok"
    assert check_partitioner(view, 3, anywhere).status == "ok"
    others = replace(view, partitioner="murmur2")
    assert check_partitioner(others, 3, anywhere).status == "wrong"


def test_no_partitioner_is_advised_for_keys_that_fields_name() -> None:
    """It hashes the bytes of a key, which do not follow from the fields."""
    source = '[views.t]\ntopic = "t"\nkey = "json"\nvalue = "json"\n'
    home = partition_of("murmur2")
    placed = [(home(key, 3), key) for key in (b'{"id":%d}' % n for n in range(60))]
    for more, status in (('partitioner = "none"', "warning"), ('key_fields = ["id"]', "ok")):
        [view] = parse_views(source + more).views
        assert check_partitioner(view, 3, placed).status == status


def test_values_that_have_no_row() -> None:
    [view] = parse_views(
        '[views.t]\ntopic = "t"\nkey = "string"\nvalue = "json"\nunwrap = "debezium"\n'
    ).views
    values = [case.value for case in cases() if case.name in ("create", "truncate")]
    sample = [SampledRecord(0, 1, b"k", value, {}) for value in values]
    [_, finding, _] = check_records(view, 1, sample)
    assert finding.message.startswith("3 of 6 values of topic t do not fit")
    assert "skip truncates in Debezium" in finding.message
    assert "docs/reference/change-data.md#debezium" in finding.action, "the format is right"


def test_deletions_in_the_topics_of_a_derived_view() -> None:
    text = """[views.t.derive]
from = "a"
fields = { id = "string" }
key = "id"
count = true
join.b = { from = "b", static = true, on = "id", fields = { name = "string" }, unwrap = "debezium" }
"""
    [view] = parse_views(text).views
    found = {(case.name, case.form): case.value for case in cases()}
    nulls = [SampledRecord(0, 1, b"k", found["tombstone: delete", "value"], {})]
    events = [SampledRecord(0, 1, b"k", found["create", "value"], {})]
    [finding] = check_sources(view, "a", nulls)
    assert finding.action == "set null_deletes = true in [views.t.derive]"
    [finding] = check_sources(view, "a", events)
    assert finding.action == 'set unwrap = "debezium" in [views.t.derive]'
    assert list(check_sources(view, "b", events)) == []


def test_changes_in_avro_in_the_topics_of_a_derived_view() -> None:
    text = """[sources.customers]
kind = "table"
format = "avro"
value_schema = "confluent"
{more}
[views.t.derive]
from = "customers"
key = "record_key"
"""
    content = json.dumps(value_schema("customers")).encode()
    sample = [SampledRecord(0, 1, change.key, change.value, {}) for change in changes("customers")]

    def found(more: str, schemas: FetchedSchemas | None) -> list[Finding]:
        [view] = parse_views(text.format(more=more), read=lambda _: content).views
        return list(check_sources(view, "customers", sample, schemas))

    with registry() as running:
        for schema_id, schema in known_schemas().items():
            running.add(schema_id, schema)
        schemas = FetchedSchemas(open_registry(running.url))
        rows, keys = found("", schemas)
        assert rows.action == 'set unwrap = "debezium" in [views.t.derive]'
        assert 'key_fields = ["id"]' in keys.action
        assert found("", None) == [keys]
        assert found('unwrap = "debezium"\nkey_fields = ["id"]', schemas) == []


def test_json_with_a_frame_in_a_view_without_one() -> None:
    [view] = parse_views('[views.t]\ntopic = "t"\nkey = "string"\nvalue = "json"\n').views
    framed = frames()["confluent-kafka JSONSerializer"].record
    sample = [SampledRecord(0, 1, b"k", framed, {})] * 20
    [_, finding, _] = check_records(view, 1, sample)
    assert "JSON with the frame of Confluent" in finding.message
    assert 'set value = "json", value_schema = "confluent" in [views.t]' in finding.action
