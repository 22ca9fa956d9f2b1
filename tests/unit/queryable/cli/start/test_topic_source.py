"""What `queryable init --source` writes for a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model.derive.derivation import Derivation
from model.views_file import parse_views
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.start.source_files import write_new
from queryable.cli.start.topic_source import SourceEntry, source_entry
from queryable.client.protocol.errors import BadUse
from tests.support.in_process.avro_examples import ORDER, FakeRegistry, framed, registry
from tests.support.in_process.protobuf_examples import SHOP, order, serialized
from tests.support.in_process.protobuf_examples import framed as framed_message
from tests.vectors.debezium_avro import changes, schemas

DELETE = {"cleanup.policy": "delete"}
JSON_SCHEMA = {"properties": {"id": {"type": "string"}}, "required": ["id"]}


@pytest.fixture
def running() -> Iterator[FakeRegistry]:
    with registry() as running:
        yield running


def publish(running: FakeRegistry, schema_id: int, text: str, subject: str, **more: Any) -> None:
    document = {"subject": subject, "version": 1, "id": schema_id, "schema": text, **more}
    path = f"/subjects/{subject}/versions/latest"
    for place in (path, path.replace("latest", "1"), f"/schemas/ids/{schema_id}"):
        running.answers[place] = running.answers[f"{place}?format=serialized"] = (200, document)
    running.answers[f"/schemas/ids/{schema_id}/versions"] = (
        200, [{"subject": subject, "version": 1}],
    )  # fmt: skip


def entry_of(
    running: FakeRegistry, values: list[bytes], topic: str = "orders", **config: str
) -> SourceEntry:
    records = [SampledRecord(0, 1, b"order-%d" % n, value, {}) for n, value in enumerate(values)]
    return source_entry(topic, 3, config or DELETE, records, Schemas(running.url))


def derivation(entry: SourceEntry) -> Derivation:
    """That of the view in the comment."""
    _, comment, view = entry.toml.partition("# a view, as an example")
    assert comment
    example = "\n".join(line.removeprefix("# ") for line in view.splitlines()[1:])
    given = parse_views(f"{entry.toml}\n{example}", read={entry.file: entry.content}.__getitem__)
    [view_of] = given.views
    assert view_of.derivation is not None
    return view_of.derivation


def test_avro_with_an_example_of_a_view(running: FakeRegistry) -> None:
    publish(running, 7, json.dumps(ORDER), "orders-value")
    row = {"id": 1, "price": 2.5, "note": None}
    entry = entry_of(running, [framed(7, ORDER, row)] * 30)
    assert entry.file == "orders.avsc"
    assert 'format = "avro"\nvalue_schema = "confluent"\n#' in entry.toml
    assert "has its 3 fields: version 1 of orders-value" in entry.toml
    found = derivation(entry)
    assert (found.source, found.is_table) == ("orders", False)
    assert "[views.orders-by-id.derive]" in entry.toml
    table = derivation(entry_of(running, [framed(7, ORDER, row)] * 30,
                                **{"cleanup.policy": "compact,delete"}))  # fmt: skip
    assert table.is_table


def test_another_subject_is_found_by_the_id_of_the_newest_value(running: FakeRegistry) -> None:
    row = {"id": 1, "price": 2.5, "note": None}
    publish(running, 7, json.dumps(ORDER), "shop.Order")
    entry = entry_of(running, [framed(7, ORDER, row)] * 30)
    assert 'subject = "shop.Order"' in entry.toml
    assert derivation(entry).fields
    names = [{"subject": name, "version": 1} for name in ("a", "b", "a")]
    running.answers["/schemas/ids/7/versions"] = (200, names)
    with pytest.raises(BadUse, match="in several: a, b"):
        entry_of(running, [framed(7, ORDER, row)] * 30)


def test_changes_of_debezium(running: FakeRegistry) -> None:
    for schema_id, schema in schemas().items():
        publish(running, schema_id, json.dumps(schema), f"{schema_id}")
    publish(running, 2, json.dumps(schemas()[2]), "customers-value")
    records = [SampledRecord(0, 1, change.key, change.value, {}) for change in changes("customers")]
    entry = source_entry("customers", 3, DELETE, records, Schemas(running.url))
    for line in ('kind = "table"', 'unwrap = "debezium"', 'key_fields = ["id"]'):
        assert f"\n{line}" in entry.toml
    found = derivation(entry)
    assert [name for name, _ in found.fields] == ["id", "name", "credit", "notes"]
    assert found.key_fields == ("id",)


def test_protobuf_and_json(running: FakeRegistry) -> None:
    publish(running, 7, serialized(SHOP), "orders-value", schemaType="PROTOBUF")
    message = framed_message(7, order(order_id=1, price=2.5))
    entry = entry_of(running, [message] * 30)
    assert 'message = "shop.Order"' in entry.toml
    assert entry.file == "orders.desc"
    assert derivation(entry).fields
    publish(running, 9, json.dumps(JSON_SCHEMA), "events-value", schemaType="JSON")
    frame = b"\0" + (9).to_bytes(4, "big")
    entry = entry_of(running, [frame + b'{"id":"a"}'] * 30, "events")
    assert entry.file == "events.schema.json"
    assert [name for name, _ in derivation(entry).fields] == ["id"]
    with pytest.raises(BadUse, match=r"are json without the id of a schema.*\[sources.plain\]"):
        entry_of(running, [b'{"id":"a"}'] * 30, "plain")
    with pytest.raises(BadUse, match="empty has no values to look at"):
        entry_of(running, [], "empty")


def test_files_are_written_with_the_views_file_or_not_at_all(tmp_path: Path) -> None:
    entries = [SourceEntry("", "a.avsc", b"a"), SourceEntry("", "b.avsc", b"b")]
    views = tmp_path / "views.toml"

    def refuse() -> None:
        assert (tmp_path / "b.avsc").read_bytes() == b"b"
        raise BadUse("no")

    with pytest.raises(BadUse, match="no"):
        write_new(entries, views, refuse)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "b.avsc").write_bytes(b"other")
    with pytest.raises(BadUse, match="exists and was not changed"):
        write_new(entries, views, refuse)
    assert [path.name for path in tmp_path.iterdir()] == ["b.avsc"]
    (tmp_path / "b.avsc").write_bytes(b"b")
    write_new(entries, views, lambda: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.avsc", "b.avsc"]
