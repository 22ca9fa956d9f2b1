"""Findings about the schemas that records name."""

from __future__ import annotations

from pathlib import Path

from model.views import View
from model.views_file import parse_views
from queryable.cli.adopt.prompts import no_answer
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.check.findings import Finding
from queryable.cli.check.schemas import check_schemas
from queryable.cli.check.topics import check_records
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.schema_sources import FetchedSchemas, schema_source
from queryable.cli.start.topic_view import topic_entry
from tests.support.in_process.avro_examples import ORDER, framed, registry
from tests.vectors.frames import frames

NO_SCHEMAS = Schemas()
ORDERS = {"id": 1, "price": 2.5, "note": None}
PROTOBUF = frames()["confluent-kafka ProtobufSerializer"].record


def found(url: str, values: list[bytes], value: str = "avro") -> list[Finding]:
    text = f'[schemas]\nregistry = "{url}"\n[views.t]\ntopic = "t"\nkey = "string"\n'
    deployment = parse_views(f'{text}value = "{value}"\nvalue_schema = "confluent"\n')
    view: View = deployment.views[0]
    sample = [SampledRecord(0, 1, b"k", each, {}) for each in values]
    source = schema_source(Path("views.toml"), deployment, "")
    return list(check_schemas(view, sample, source and FetchedSchemas(source)))


def test_schemas_that_are_there_and_read_the_records() -> None:
    with registry() as running:
        running.add(7, ORDER)
        [finding] = found(running.url, [framed(7, ORDER, ORDERS), b"no frame"])
        assert (finding.status, finding.message) == (
            "ok", "1 of 2 values have schema 7, and fit"
        )  # fmt: skip
        [finding] = found(running.url, [framed(7, ORDER, ORDERS)[:-1]])
        assert finding.status == "wrong"
        assert "which does not fit" in finding.message


def test_schemas_that_are_not_there_or_of_another_format() -> None:
    with registry() as running:
        running.add(7, ORDER)
        [finding] = found(running.url, [framed(8, ORDER, ORDERS)])
        assert "schema 8, which cannot be read: the registry has no schema" in finding.message
        assert "Their partitions wait for it" in finding.message
        [finding] = found(running.url, [framed(7, ORDER, ORDERS)], "protobuf")
        assert "which is avro, not protobuf" in finding.message


def test_a_registry_without_descriptors() -> None:
    with registry() as running:
        for query in ("", "?format=serialized"):
            answer = {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}
            running.answers[f"/schemas/ids/3{query}"] = (200, answer)
        [finding] = found(running.url, [PROTOBUF], "protobuf")
    assert finding.status == "wrong"
    assert "does not support format=serialized" in finding.message
    assert "Their partitions wait for it" in finding.message


def test_a_registry_that_does_not_answer() -> None:
    with registry() as running:
        url = running.url
    [finding] = found(url, [framed(7, ORDER, ORDERS)])
    assert "does not answer" in finding.message
    assert "Their partitions wait for it" in finding.message
    assert finding.action.startswith("start the schema registry")


def test_deletions_in_avro_that_are_not_read() -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "__deleted", "type": "string"}]}
    with registry() as running:
        running.add(7, row)
        values = [framed(7, row, {"__deleted": "false"}), framed(8, row, {"__deleted": "true"})]
        fit, missing, warning = found(running.url, values)
    assert (fit.status, missing.status, warning.status) == ("ok", "wrong", "warning")
    assert "1 of 1 values have __deleted, as Debezium's" in warning.message
    assert warning.action == 'set unwrap = "debezium" in [views.t]'


def test_views_without_schemas_have_no_findings() -> None:
    assert found("http://127.0.0.1:9", [b"{}"], "json") == []


def test_keys_with_fields_are_not_read_without_their_schemas() -> None:
    text = (
        '[schemas]\nfolder = "f"\n[views.t]\ntopic = "t"\nkey = "avro"\nkey_schema = "confluent"\n'
    )
    more = 'key_fields = ["id"]\nvalue = "json"\n'
    [view] = parse_views(text + more).views
    sample = [SampledRecord(0, 1, framed(7, ORDER, ORDERS), b"{}", {})]
    assert {finding.status for finding in check_records(view, 1, sample)} == {"ok"}


def test_keys_with_fields_in_framed_json_are_proposed() -> None:
    raw = frames()["confluent-kafka JSONSerializer"].record
    keys = [raw[:5] + b'{"id":%d}' % n for n in range(20)]
    sample = [SampledRecord(0, 1, key, b"{}", {}) for key in keys]
    [view] = parse_views(topic_entry("t", 1, {}, sample, no_answer, NO_SCHEMAS)).views
    assert (view.key_schema, view.key_fields) == ("confluent", ("id",))
    assert view.key_codec.to_json(keys[7]) == b'"7"'
