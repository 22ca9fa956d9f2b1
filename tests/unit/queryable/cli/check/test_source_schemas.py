"""Findings about the files with the schemas of sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model.derive.schema_files import SchemaFile
from model.formats.format import Origin
from model.formats.registry import FORMATS
from queryable.cli.check.findings import Finding
from queryable.cli.check.source_schemas import check_source_schemas
from queryable.cli.inspection.schema_sources import open_registry
from tests.support.in_process.avro_examples import ORDER, FakeRegistry, registry

SCHEMA = SchemaFile("orders", "avro", "orders.avsc", "orders-value", "")
PATH = "/subjects/orders-value/versions/latest"
NEW = {"name": "discount", "type": ["null", "double"], "default": None}


@pytest.fixture
def running() -> Iterator[FakeRegistry]:
    with registry() as running:
        yield running


def found(url: str, folder: Path) -> list[Finding]:
    return list(check_source_schemas([SCHEMA], folder, open_registry(url)))


def test_newer_fields_are_named_with_the_command(running: FakeRegistry, tmp_path: Path) -> None:
    saved = FORMATS["avro"].schema_file(json.dumps(ORDER), (), Origin("orders-value", 1, 7))
    (tmp_path / "orders.avsc").write_bytes(saved)

    def publish(schema: Any, version: int) -> None:
        document = {"subject": "orders-value", "version": version, "id": 7}
        running.answers[PATH] = 200, {**document, "schema": json.dumps(schema)}

    publish(ORDER, 1)
    [finding] = found(running.url, tmp_path)
    assert (finding.status, finding.message) == (
        "ok", "orders.avsc has the fields of version 1 of orders-value, the newest"
    )  # fmt: skip
    publish({**ORDER, "fields": [*ORDER["fields"], NEW]}, 2)
    [finding] = found(running.url, tmp_path)
    assert finding.line() == (
        "warning  source orders: version 2 of orders-value is newer than orders.avsc: it adds "
        "discount (double?) ► to use it: queryable sources orders --save"
    )
    running.answers[PATH] = 404, {"error_code": 40401, "message": "not found"}
    [finding] = found(running.url, tmp_path)
    assert finding.message == "the registry has no subject orders-value"
    (tmp_path / "orders.avsc").write_text(json.dumps(ORDER))
    assert found(running.url, tmp_path) == [], "of a topic without a registry"


def test_a_registry_that_does_not_answer(running: FakeRegistry, tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text(json.dumps(ORDER))
    running.accepted.add("me:secret")
    [finding] = found(running.url, tmp_path)
    assert finding.status == "warning"
    assert "no newer schema can be looked for" in finding.message
