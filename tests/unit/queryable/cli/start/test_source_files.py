"""`queryable sources`: files with the schemas of a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from model.views_file import parse_views
from queryable.cli.app import app
from tests.support.in_process.avro_examples import ORDER, FakeRegistry, registry
from tests.support.in_process.protobuf_examples import SHOP, serialized

VIEWS = """
[schemas]
registry = "{}"
[sources.orders]
format = "avro"
value_schema = "confluent"
[views.x.derive]
from = "orders"
key = "id"
sum = "id"
"""


@pytest.fixture
def running() -> Iterator[FakeRegistry]:
    with registry() as running:
        yield running


@pytest.fixture(autouse=True)
def folder(running: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUERYABLE_VIEWS", raising=False)
    Path("views.toml").write_text(VIEWS.format(running.url))
    return tmp_path


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["sources", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def publish(
    running: FakeRegistry, schema: Any, version: int = 1, subject: str = "orders-value", **more: Any
) -> None:
    document = {"subject": subject, "version": version, "id": 100 + version, **more}
    running.answers[f"/subjects/{subject}/versions/latest"] = (
        200, {**document, "schema": json.dumps(schema)},
    )  # fmt: skip


def with_fields(*fields: dict[str, Any]) -> dict[str, Any]:
    return {**ORDER, "fields": list(fields)}


ID, PRICE, NOTE = ORDER["fields"]
DISCOUNT = {"name": "discount", "type": ["null", "double"], "default": None}


def read(name: str) -> bytes:
    return Path(name).read_bytes()


def test_from_no_file_to_a_view(running: FakeRegistry, folder: Path) -> None:
    publish(running, ORDER, 3)
    done = run("orders")
    assert (done.exit_code, done.stdout) == (
        1, "orders: no file orders.avsc; newest: version 3 of orders-value\n"
    )  # fmt: skip
    done = run("orders", "--save")
    assert (done.exit_code, done.stdout) == (
        0, "wrote orders.avsc, version 3 of orders-value: 3 fields\n"
    )  # fmt: skip
    [view] = parse_views(Path("views.toml").read_text(), read=lambda name: read(name)).views
    assert view.derivation is not None
    assert [name for name, _ in view.derivation.fields] == ["id", "price", "note"]
    assert Path("orders.avsc").stat().st_mode & 0o777 == 0o644
    written = read("orders.avsc")
    done = run("orders", "--save")
    assert done.stdout == "orders.avsc is unchanged: version 3 of orders-value\n"
    assert run().stdout == "orders: orders.avsc has version 3 of orders-value, the newest\n"
    assert read("orders.avsc") == written
    assert sorted(path.name for path in folder.iterdir()) == ["orders.avsc", "views.toml"]


def test_a_newer_version(running: FakeRegistry) -> None:
    publish(running, ORDER)
    assert run("--save").exit_code == 0
    publish(running, with_fields(ID, {**PRICE, "type": "long"}, DISCOUNT), 2)
    done = run()
    assert done.exit_code == 1
    effect = "adds discount (double?); removes note (string?); changes price from double to long"
    assert done.stdout == (
        f"orders: orders.avsc has version 1; version 2 of orders-value {effect}\n"
    )
    done = run("--save")
    assert done.stdout == f"wrote orders.avsc, version 2 of orders-value: {effect}\n"
    publish(running, {**with_fields(ID, {**PRICE, "type": "long"}, DISCOUNT), "doc": "x"}, 3)
    done = run()
    assert done.exit_code == 0, "nothing changes for views"
    assert "version 3 of orders-value has the same fields" in done.stdout


def test_a_version_without_a_field_that_a_view_has_is_not_written(running: FakeRegistry) -> None:
    publish(running, ORDER)
    assert run("--save").exit_code == 0
    written = read("orders.avsc")
    publish(running, with_fields(PRICE), 2)
    done = run("--save")
    assert done.exit_code == 2
    assert "a view could not be read with version 2 of orders-value" in done.stderr
    assert "unknown field id" in done.stderr
    assert read("orders.avsc") == written


def test_a_file_that_it_has_not_written(running: FakeRegistry) -> None:
    publish(running, ORDER)
    Path("orders.avsc").write_text(json.dumps(with_fields(ID)))
    done = run()
    assert done.exit_code == 1
    assert "orders.avsc is not from a registry; version 1 of orders-value adds note" in done.stdout
    done = run("--save")
    assert done.exit_code == 2
    assert "--force replaces it" in done.stderr
    assert run("--save", "--force").exit_code == 0
    assert b'"version": 1' in read("orders.avsc")


def test_other_formats_and_subjects(running: FakeRegistry) -> None:
    text = f"""
[schemas]
registry = "{running.url}"
[sources.payments]
format = "protobuf"
subject = "paid"
[sources.events]
topic = "shop.events"
format = "json"
"""
    Path("views.toml").write_text(text)
    publish(running, {"properties": {"a": {"type": "string"}}}, 1, "shop.events-value",
            schemaType="JSON")  # fmt: skip
    path = "/subjects/paid/versions/latest"
    publish(running, "as text", 4, "paid", schemaType="PROTOBUF")
    status, document = running.answers[path]
    descriptor = {**document, "schema": serialized(SHOP)}
    running.answers["/subjects/paid/versions/4?format=serialized"] = (status, descriptor)
    done = run("--save")
    assert done.exit_code == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("wrote payments.desc, version 4 of paid: ")
    assert "it has: shop.Order" in first
    assert "Set message in [sources.payments]." in first
    assert second == "wrote events.schema.json, version 1 of shop.events-value: 1 fields"
    Path("views.toml").write_text(text.replace('"paid"', '"paid"\nmessage = "shop.Order"'))
    assert run("payments").stdout == "payments: payments.desc has version 4 of paid, the newest\n"


def test_mistakes(running: FakeRegistry) -> None:
    done = run("--save")
    assert done.exit_code == 2
    assert "orders: the registry has no subject orders-value. Name the subject in" in done.stderr
    publish(running, {"type": "object"}, schemaType="JSON")
    assert 'the newest schema of orders-value is json: write format = "json"' in run().stderr
    publish(running, "string")
    assert "the schema is not a JSON object" in run().stderr
    done = run("customers")
    assert done.exit_code == 2
    assert "has no [sources.customers]" in done.stderr
    assert "It has: orders." in done.stderr
    text = VIEWS.format(running.url).partition("[sources")[2]
    Path("views.toml").write_text(f"[sources{text}")
    assert "names no schema registry" in run().stderr
    assert run("--schema-registry", "http://127.0.0.1:1").exit_code == 3
    Path("views.toml").write_text("[sources.a]\nfields = 1\n")
    assert "has no source whose fields a schema declares" in run().stderr
