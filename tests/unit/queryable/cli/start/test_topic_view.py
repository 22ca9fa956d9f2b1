"""What `queryable init` writes for a topic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from model.partitioner import partition_of
from model.views import View
from model.views_file import parse_views
from queryable.cli.adopt.prompts import no_answer
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.start.topic_view import findings, kafka_table, record_text, topic_entry
from queryable.client.protocol.errors import BadUse
from tests.support.in_process.avro_examples import ORDER, binary, framed, registry
from tests.vectors.debezium_cases import cases
from tests.vectors.frames import frames

NO_SCHEMAS = Schemas()
COMPACT = {"cleanup.policy": "compact"}
PARTITIONS = 5
FRAMES = frames()


def records(partitioner: str, value: bytes = b'{"n":1}') -> list[SampledRecord]:
    partition = partition_of(partitioner)
    assert partition is not None
    keys = [b"order-%d" % n for n in range(50)]
    return [SampledRecord(partition(key, PARTITIONS), 1, key, value, {}) for key in keys]


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32", "fnv1a"])
def test_formats_and_partitioner_are_those_of_the_records(partitioner: str) -> None:
    text = topic_entry("orders", PARTITIONS, COMPACT, records(partitioner), no_answer, NO_SCHEMAS)
    [view] = parse_views(text).views
    assert (view.name, view.topic, view.path) == ("orders", "orders", "/orders")
    assert (view.key, view.value, view.partitioner) == ("string", "json", partitioner)
    assert f"50 of 50 keys are in the partition of {partitioner}" in text
    assert "TODO" not in text


def test_the_entry_says_where_to_look_before_partitions_are_added() -> None:
    text = topic_entry("orders", PARTITIONS, COMPACT, records("murmur2"), no_answer, NO_SCHEMAS)
    [link] = re.findall(r"before you add partitions: (\S+)", text)
    page, _, anchor = link.partition("#")
    headings = re.findall(r"^#+ (.+)$", Path(page).read_text(), re.MULTILINE)
    assert anchor in {each.lower().replace(" ", "-") for each in headings}


def test_numbers_as_text_are_strings() -> None:
    numbers = [SampledRecord(0, 1, b"%d" % n, b"{}", {}) for n in range(20)]
    text = topic_entry("orders", 1, COMPACT, numbers, no_answer, NO_SCHEMAS)
    assert parse_views(text).views[0].key == "string"
    assert "TODO" not in text
    assert "TODO" in topic_entry("orders", 1, COMPACT, numbers[:19], no_answer, NO_SCHEMAS)


CONNECT = b'{"schema":{"type":"struct","fields":[]},"payload":{"order":%d,"sku":"a"}}'


@pytest.mark.parametrize(
    ("key", "fields"),
    [(b'{"order":%d,"sku":"a"}', ("order", "sku")), (CONNECT, ("order", "sku")), (b"[%d]", None)],
)
def test_keys_that_are_objects_are_named_by_their_fields(
    key: bytes, fields: tuple[str, ...] | None
) -> None:
    objects = [SampledRecord(n % 4, 1, key % n, b"{}", {}) for n in range(50)]
    text = topic_entry("lines", PARTITIONS, COMPACT, objects, no_answer, NO_SCHEMAS)
    [view] = parse_views(text).views
    assert (view.key, view.key_fields) == ("json", fields)
    assert fields is None or "TODO" not in text


@pytest.mark.parametrize("last", [b'{"order":1}', b'{"order":1,"sku":"a","x":1}', b'{"order":{}}'])
def test_keys_with_different_fields_are_named_by_their_bytes(last: bytes) -> None:
    keys = [*(b'{"order":%d,"sku":"a"}' % n for n in range(50)), last]
    objects = [SampledRecord(n % 4, 1, key, b"{}", {}) for n, key in enumerate(keys)]
    text = topic_entry("lines", PARTITIONS, COMPACT, objects, no_answer, NO_SCHEMAS)
    assert parse_views(text).views[0].key_fields is None


def test_a_topic_that_is_not_compacted_is_a_table_too() -> None:
    config = {"cleanup.policy": "delete", "retention.ms": "604800000"}
    text = topic_entry("orders", PARTITIONS, config, records("murmur2"), no_answer, NO_SCHEMAS)
    assert parse_views(text).views[0].store == "key-value"
    [finding] = findings(text, PARTITIONS, config, records("murmur2"), NO_SCHEMAS)
    assert "deletes records after 7d" in finding.message
    assert 'retention = "7d"' in finding.action


def test_keys_in_any_partition_are_marked() -> None:
    scattered = [each._replace(partition=n % PARTITIONS) for n, each in enumerate(records("crc32"))]
    text = topic_entry("orders", PARTITIONS, COMPACT, scattered, no_answer, NO_SCHEMAS)
    assert parse_views(text).views[0].partitioner == "none"
    assert "TODO?" in text


def test_what_the_user_answers_is_written() -> None:
    few = records("murmur2")[:3]
    text = topic_entry("orders", PARTITIONS, COMPACT, few, lambda _, field, found: "bytes"
                       if field == "value" else found.value, NO_SCHEMAS)  # fmt: skip
    [view] = parse_views(text).views
    assert (view.key, view.value) == ("string", "bytes")
    assert "TODO" not in text


@pytest.mark.parametrize("topic", ["views", "topics", "a_b.c-d", "v" * 200])
def test_any_name_of_a_topic_gives_a_valid_file(topic: str) -> None:
    text = topic_entry(topic, PARTITIONS, COMPACT, records("murmur2"), no_answer, NO_SCHEMAS)
    [view] = parse_views(text).views
    assert view.topic == topic
    assert view.path == (None if topic in ("views", "topics") else f"/{topic}")


def test_records_without_a_key_are_a_finding() -> None:
    mixed = [*records("murmur2"), SampledRecord(0, 1, None, b"{}", {})]
    text = topic_entry("orders", PARTITIONS, COMPACT, mixed, no_answer, NO_SCHEMAS)
    [finding] = findings(text, PARTITIONS, COMPACT, mixed, NO_SCHEMAS)
    assert "1 of 51 records of topic orders have no key" in finding.message


def test_connection_settings_are_a_table() -> None:
    settings = {"sasl.password": '${env:A}"\\', "security.protocol": "SASL_SSL"}
    entry = topic_entry("orders", PARTITIONS, COMPACT, records("murmur2"), no_answer, NO_SCHEMAS)
    assert parse_views(kafka_table(settings) + entry).kafka == settings
    assert kafka_table({}) == ""


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        (b"a", b'{"n":1}', 'a ► {"n":1}'),
        (b"a\x1b[2J", None, "a\\x1b[2J ► none"),
        (b"\xff\x00", b"x" * 100, "ff 00 ► " + "x" * 60 + "…"),
    ],
)
def test_a_record_is_shown_on_one_line(key: bytes, value: bytes | None, shown: str) -> None:
    assert record_text(SampledRecord(0, 1, key, value, {})) == shown


@pytest.mark.parametrize(
    ("name", "form", "line"),
    [
        ("create", "value", 'unwrap = "debezium"  # 50 of 51 values have op'),
        ("create", "with_schema", 'unwrap = "debezium"  # 50 of 51 values have op'),
        ("rewrite: create", "value", 'unwrap = "debezium"  # 50 of 51 values have __deleted'),
        ("tombstone: create", "value", "null_deletes = true  # 1 of 51 values are null"),
        ("tombstone: create", "numeric", "null_deletes = true  # 1 of 51 values are null"),
    ],
)
def test_deletions_of_debezium_are_proposed(name: str, form: str, line: str) -> None:
    found = {(case.name, case.form): case.value for case in cases()}
    sample = records("murmur2", found[name, form] or b"")
    sample.append(sample[0]._replace(value=found["tombstone: delete", form]))
    text = topic_entry("customers", PARTITIONS, COMPACT, sample, no_answer, NO_SCHEMAS)
    assert line in text
    [view] = parse_views(text).views
    assert view.row_reader is not None
    assert list(findings(text, PARTITIONS, COMPACT, sample, NO_SCHEMAS)) == []
    without = text.replace(line, "# " + line)
    [warning] = findings(without, PARTITIONS, COMPACT, sample, NO_SCHEMAS)
    assert "deleted rows are answered as if they were there" in warning.message
    assert warning.action == f"set {line.partition('  #')[0]} in [views.customers]"


def test_rows_of_debezium_with_their_schemas_are_proposed() -> None:
    """Regression: `init` proposed null_deletes at most, and each row was answered with the schema
    of its table next to it."""
    found = {case.name: case.value for case in cases() if case.form == "with_schema"}
    line = 'unwrap = "debezium"  # 51 of 51 values have the schema of a row'
    for last in ("tombstone: create", "tombstone: delete"):  # with and without deletions
        sample = records("murmur2", found["tombstone: create"] or b"")
        sample.append(sample[0]._replace(value=found[last]))
        text = topic_entry("customers", PARTITIONS, COMPACT, sample, no_answer, NO_SCHEMAS)
        assert line in text
        assert list(findings(text, PARTITIONS, COMPACT, sample, NO_SCHEMAS)) == []
        without = text.replace("unwrap =", "# ")
        [warning] = findings(without, PARTITIONS, COMPACT, sample, NO_SCHEMAS)
        assert "answers have the schema next to the row" in warning.message
        assert warning.action == 'set unwrap = "debezium" in [views.customers]'


@pytest.mark.parametrize("what", ["text", "bytes"])
def test_placeholders_of_flattened_rows_are_noticed(what: str) -> None:
    """Regression: the placeholder was answered as if the database had it."""
    found = {(case.name, case.form): case.value for case in cases()}
    sample = records("murmur2", found["tombstone: create", "value"] or b"")
    value = found[f"tombstone: unavailable {what}", "value"]
    sample.append(sample[0]._replace(value=value))
    text = topic_entry("customers", PARTITIONS, COMPACT, sample, no_answer, NO_SCHEMAS)
    assert 'unwrap = "debezium"  # 1 of 51 values have a placeholder of Debezium' in text
    without = text.replace("unwrap =", "# ")
    [warning] = findings(without, PARTITIONS, COMPACT, sample, NO_SCHEMAS)
    assert "placeholders are answered as if they were values" in warning.message


def test_no_deletions_are_proposed_for_other_values() -> None:
    for value in (b'{"op":"d","id":1}', b'{"n":null}', b"null and void", b"[null]"):
        text = topic_entry(
            "t", PARTITIONS, COMPACT, records("murmur2", value), no_answer, NO_SCHEMAS
        )
        assert "null_deletes" not in text
        assert "unwrap" not in text


def test_json_with_confluents_frame_is_proposed() -> None:
    framed = FRAMES["confluent-kafka JSONSerializer"].record
    sample = records("murmur2", framed)
    text = topic_entry("orders", PARTITIONS, COMPACT, sample, no_answer, NO_SCHEMAS)
    assert 'value = "json"  # JSON with the frame of Confluent' in text
    [view] = parse_views(text).views
    assert (view.value, view.value_schema, view.null_deletes) == ("json", "confluent", None)
    assert list(findings(text, PARTITIONS, COMPACT, sample, NO_SCHEMAS)) == []
    sample.append(sample[0]._replace(value=framed[:5] + b"null"))
    text = topic_entry("orders", PARTITIONS, COMPACT, sample, no_answer, NO_SCHEMAS)
    assert parse_views(text).views[0].null_deletes
    keys = [each._replace(key=framed[:5] + b'{"id":%d}' % n) for n, each in enumerate(sample)]
    text = topic_entry("orders", PARTITIONS, COMPACT, keys, no_answer, NO_SCHEMAS)
    assert parse_views(text).views[0].key_schema == "confluent"


def test_schema_ids_in_headers_are_named() -> None:
    def sample(tool: str) -> list[SampledRecord]:
        framed = FRAMES[f"confluent-kafka {tool}, id in a header"]
        return [each._replace(headers=framed.headers) for each in records("murmur2", framed.record)]

    json, avro = sample("JSONSerializer"), sample("AvroSerializer")
    text = topic_entry("orders", PARTITIONS, COMPACT, json, no_answer, NO_SCHEMAS)
    assert "# The schema id is in a record header" in text
    assert parse_views(text).views[0].value == "json"
    text = text.replace('value = "json"', 'value = "json"\nvalue_schema = "confluent" #')
    [finding] = findings(text, PARTITIONS, COMPACT, json, NO_SCHEMAS)
    assert "set the schema to a file" in finding.message
    # Avro may look like text: a string of 16 characters and more
    as_text = [each._replace(value=binary("string", "a" * 40)) for each in avro]
    for values in (avro, as_text):
        with pytest.raises(
            BadUse, match=r"values of orders cannot be read\. The schema id is in a"
        ):
            topic_entry("orders", PARTITIONS, COMPACT, values, no_answer, NO_SCHEMAS)
        text = topic_entry("orders", PARTITIONS, COMPACT, values, no_answer, Schemas("-"))
        assert parse_views(text).views[0].value == "bytes"
        assert 'value = "bytes"  # TODO? a guess: The schema id' in text
    # Confluent's serializers, and the constants of Apicurio's class SerdeHeaders
    for name in ("__key_schema_id", "apicurio.key.globalId", "apicurio.key.contentId"):
        keys = [each._replace(headers={name: b"1"}) for each in records("murmur2")]
        with pytest.raises(BadUse, match=r"keys of orders cannot be read\. The schema id is in a"):
            topic_entry("orders", PARTITIONS, COMPACT, keys, no_answer, NO_SCHEMAS)
        values = [each._replace(headers={name.replace("key", "value"): b"1"}) for each in as_text]
        with pytest.raises(BadUse, match="values of orders cannot be read"):
            topic_entry("orders", PARTITIONS, COMPACT, values, no_answer, NO_SCHEMAS)


@pytest.mark.parametrize("what", ["key", "value"])
@pytest.mark.parametrize("tool", ["AWS Glue, NONE", "Apicurio DefaultIdHandler"])
def test_frames_that_are_not_read_are_refused_by_name(what: str, tool: str) -> None:
    """Regression: they were bytes, which `serve` served as base64."""
    sample = [each._replace(**{what: FRAMES[tool].record}) for each in records("murmur2")]
    with pytest.raises(BadUse) as raised:
        topic_entry("orders", PARTITIONS, COMPACT, sample, no_answer, NO_SCHEMAS)
    assert f"The {what}s of orders cannot be read. All have the frame of " in str(raised.value)
    assert tool.split()[0] in str(raised.value)
    text = topic_entry("orders", PARTITIONS, COMPACT, sample, no_answer, Schemas("-"))
    assert f'{what} = "bytes"  # TODO? a guess: all have the frame' in text
    parse_views(text)


def entry_by(schema: Any, sample: list[SampledRecord]) -> tuple[str, View, list[str]]:
    """The entry by a registry with the schema as id 7, its view, and the findings."""
    with registry() as running:
        running.add(7, schema)
        schemas = Schemas(running.url)
        text = topic_entry("orders", PARTITIONS, COMPACT, sample, no_answer, schemas)
        found = [each.message for each in findings(text, PARTITIONS, COMPACT, sample, schemas)]
    [view] = parse_views(schemas.toml + text).views
    return text, view, found


def test_values_are_what_their_schema_says() -> None:
    value = {"id": 1, "price": 2.5, "note": None}
    text, view, found = entry_by(ORDER, records("murmur2", framed(7, ORDER, value)))
    assert (view.value, view.value_schema) == ("avro", "confluent")
    assert 'value = "avro"  # schema 7 of the registry, which 50 of 50 fit' in text
    assert "TODO" not in text
    assert found == []
    sample = [*records("murmur2", framed(7, ORDER, value)), SampledRecord(1, 1, b"k", b"{}", {})]
    sample[3] = sample[3]._replace(value=sample[3].value + b"!")
    text, view, found = entry_by(ORDER, sample[:50])
    assert 'value = "avro"  # TODO? likely: schema 7 of the registry, which 49 of 50 fit' in text
    assert "50 of 50 values have schema 7, which does not fit" in found[0]


KEY = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "order", "type": "int"}, {"name": "sku", "type": "string"}],
}


def test_keys_with_a_schema_are_named_by_their_fields() -> None:
    keys = [framed(7, KEY, {"order": 8192 + n, "sku": "a"}) for n in range(50)]
    sample = [SampledRecord(n % 4, 1, key, b"{}", {}) for n, key in enumerate(keys)]
    text, view, found = entry_by(KEY, sample)
    assert (view.key, view.key_schema, view.key_fields) == ("avro", "confluent", ("order", "sku"))
    assert view.partitioner == "none"
    assert "partitioner" not in text
    assert found == []


def test_keys_with_a_schema_that_are_no_objects_are_read_by_their_bytes() -> None:
    sample = [each._replace(key=framed(7, "string", f"k{n}")) for n, each in enumerate(
        records("murmur2"))]  # fmt: skip
    text, view, _ = entry_by("string", sample)
    assert (view.key, view.key_schema, view.key_fields) == ("avro", "confluent", None)
    assert "# keys with a schema id are read by their bytes" in text


ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", {**KEY, "name": "Value"}], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}


def test_changes_of_debezium_in_avro_are_proposed() -> None:
    change = {"before": None, "after": {"order": 1, "sku": "a"}, "op": "c", "ts_ms": 5}
    text, view, found = entry_by(ENVELOPE, records("murmur2", framed(7, ENVELOPE, change)))
    assert 'unwrap = "debezium"  # 50 of 50 values have op' in text
    assert view.row_reader is not None
    assert found == []
