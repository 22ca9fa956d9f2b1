"""Tests of schemas by id, from a registry that may be down, wrong or slow, or from a folder."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from backend.ingest import schema_registry as module
from backend.ingest.schema_registry import (
    SchemaCache,
    SchemaFolder,
    SchemaRegistry,
    SchemaSourceUnavailable,
)
from local.ports import free_ports
from local.waiting import wait_until
from model.formats.avro.schema import AvroSchema
from model.formats.schemas import SchemaNotYet
from model.problems import ConfigurationError
from tests.support.in_process.avro_examples import ORDER, FakeRegistry, basic, binary, registry
from tests.support.in_process.protobuf_examples import DESCRIPTORS, serialized


@pytest.fixture
def running() -> Iterator[FakeRegistry]:
    with registry() as running:
        yield running


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_AFTER", 0.02)


class Started:
    """Starts caches, which the fixture stops after the test."""

    def __init__(self) -> None:
        self.all: list[SchemaCache] = []

    def __call__(self, source: Any) -> SchemaCache:
        self.all.append(SchemaCache(source))
        self.all[-1].start()
        return self.all[-1]


@pytest.fixture
def started(quick: None) -> Iterator[Started]:
    started = Started()
    yield started
    for schemas in started.all:
        schemas.stop()


def fetched(schemas: SchemaCache, schema_id: int) -> AvroSchema | str:
    """Wait for the schema or its error message."""

    def get() -> AvroSchema | str | None:
        try:
            return schemas.schema(schema_id)
        except SchemaNotYet:
            return None
        except ValueError as e:
            return str(e)

    result: AvroSchema | str = wait_until(get, 10, "a schema", 0.01)
    return result


def test_a_schema_is_fetched_once(running: FakeRegistry, started: Started) -> None:
    running.add(7, ORDER)
    schemas = started(SchemaRegistry(running.url, "me:secret"))
    with pytest.raises(SchemaNotYet):
        schemas.schema(7)
    schema = fetched(schemas, 7)
    assert isinstance(schema, AvroSchema)
    assert schema.definition == ORDER
    assert schemas.schema(7) is schema
    assert running.asked == [("/schemas/ids/7", "Basic bWU6c2VjcmV0")]


def test_a_password_in_a_file_can_be_replaced(
    running: FakeRegistry, started: Started, tmp_path: Path
) -> None:
    """While the registry refuses the password, or there is no file, the records wait."""
    running.add(7, ORDER)
    running.accepted = {"me:second"}
    password = tmp_path / "password"
    password.write_text("first")
    schemas = started(SchemaRegistry(running.url, f"me:${{file:{password}}}"))
    with pytest.raises(SchemaNotYet):
        schemas.schema(7)
    wait_until(lambda: "answers 401" in schemas.state(7), 10, "the password to be refused", 0.01)
    password.unlink()
    wait_until(lambda: "cannot read" in schemas.state(7), 10, "the missing file", 0.01)
    with pytest.raises(SchemaNotYet):
        schemas.schema(7)
    password.write_text("second")
    assert isinstance(fetched(schemas, 7), AvroSchema)
    assert {header for _, header in running.asked} == {basic("me:first"), basic("me:second")}


def test_a_missing_password_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"REGISTRY_AUTH: cannot read .*/password"):
        SchemaRegistry("http://127.0.0.1", f"me:${{file:{tmp_path / 'password'}}}")


def test_a_redirect_does_not_get_the_password(running: FakeRegistry) -> None:
    running.add(7, ORDER)

    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", running.url + self.path)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Redirect) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        SchemaRegistry(f"http://127.0.0.1:{server.server_port}", "me:secret").fetch(7)
        thread.join(10)
    [(path, authorization)] = running.asked
    assert path == "/schemas/ids/7"
    assert not authorization


def test_an_unknown_id(running: FakeRegistry, started: Started) -> None:
    schemas = started(SchemaRegistry(running.url))
    assert "has no schema with" in str(fetched(schemas, 7))
    with pytest.raises(ValueError, match="has no schema with"):
        schemas.schema(7)
    assert len(running.asked) == 1, "it is not fetched again at once"


def test_an_unknown_id_is_fetched_again_later(
    running: FakeRegistry, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ERROR_TTL", 0.05)
    schemas = started(SchemaRegistry(running.url))
    assert "has no schema with" in str(fetched(schemas, 7))
    running.add(7, ORDER)
    wait_until(lambda: isinstance(fetched(schemas, 7), AvroSchema), 10, "the schema", 0.01)


@pytest.mark.parametrize(
    "answer",
    [
        (404, b"<html>wrong path"),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
        (401, {"error_code": 401}),
        (500, {"error_code": 50001}),
        (200, b"<html>a proxy's page"),
        (200, {"name": "no schema"}),
        (200, {"schema": 7}),
    ],
)
def test_an_unexpected_response_is_retried(
    running: FakeRegistry, started: Started, answer: tuple[int, Any]
) -> None:
    """With a wrong URL or password, records must not become dead letters."""
    running.answers["/schemas/ids/7"] = answer
    with pytest.raises(SchemaSourceUnavailable):
        SchemaRegistry(running.url).fetch(7)
    schemas = started(SchemaRegistry(running.url))
    with pytest.raises(SchemaNotYet):
        schemas.schema(7)
    wait_until(lambda: len(running.asked) > 3, 10, "a retry", 0.01)
    assert running.url in schemas.state(7)
    with pytest.raises(SchemaNotYet):
        schemas.schema(7)
    running.add(7, "int")
    assert isinstance(fetched(schemas, 7), AvroSchema)


@pytest.mark.slow
def test_a_registry_that_is_down_at_the_start(
    started: Started, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    [port] = free_ports(1)
    source = SchemaRegistry(f"http://127.0.0.1:{port}")
    fetch, tries = source.fetch, []

    def counted(schema_id: int) -> AvroSchema:
        tries.append(schema_id)
        return fetch(schema_id)

    monkeypatch.setattr(source, "fetch", counted)
    schemas = started(source)
    with caplog.at_level(logging.INFO):
        with pytest.raises(SchemaNotYet) as error:
            schemas.schema(7)
        wait_until(lambda: len(tries) > 3, 10, "some tries", 0.01)
        assert "does not answer" in error.value.state
        assert "127.0.0.1" not in error.value.detail, "clients must not see addresses"
        with registry(port) as running:
            running.add(7, ORDER)
            running.add(8, "int")
            assert isinstance(fetched(schemas, 7), AvroSchema)
            assert error.value.over
            assert isinstance(fetched(schemas, 8), AvroSchema)
    assert isinstance(schemas.schema(7), AvroSchema), "schemas stay cached"
    assert len([r for r in caplog.records if "cannot fetch schema" in r.message]) == 1, (
        "logged once"
    )
    assert "does not answer" not in schemas.state(7)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"schema": "{}", "schemaType": "JSON"}, "JSON"),
        ({"schema": "nonsense"}, "not a supported Avro schema"),
    ],
)
def test_unsupported_schemas(
    running: FakeRegistry, started: Started, document: dict[str, str], why: str
) -> None:
    running.answers["/schemas/ids/7"] = (200, document)
    assert why in str(fetched(started(SchemaRegistry(running.url)), 7))


def test_a_schema_with_references(running: FakeRegistry) -> None:
    """References name a subject and a version."""
    inner, middle = ORDER, {"type": "record", "name": "M", "fields": [
        {"name": "o", "type": "shop.Order"}]}  # fmt: skip
    outer = {"type": "array", "items": "M"}
    references = {"references": [{"name": "shop.Order", "subject": "a/b", "version": 2}]}
    running.answers["/subjects/a%2Fb/versions/2"] = (200, {"schema": json.dumps(inner)})
    running.answers["/subjects/m/versions/1"] = (200, {"schema": json.dumps(middle), **references})
    running.add(7, outer, references=[{"name": "M", "subject": "m", "version": 1}])
    schema = SchemaRegistry(running.url).fetch(7)
    raw = b"\2" + binary(ORDER, {"id": 1, "price": 2.5}) + b"\0"
    assert json.loads(schema.to_json(raw)) == [{"o": {"id": 1, "price": 2.5, "note": None}}]


def test_a_protobuf_schema_that_imports_another(running: FakeRegistry) -> None:
    """As descriptors: a registry compiles its text."""
    line = FileDescriptorProto(name="default", package="shop", syntax="proto3")
    line.message_type.add(name="Line").field.add(name="count", number=1, type=5, label=1)
    outer = FileDescriptorProto(name="default", package="shop", dependency=["line.proto"])
    field = outer.message_type.add(name="Cart").field.add(name="line", number=1, type=11, label=1)
    field.type_name = ".shop.Line"
    document = {"schemaType": "PROTOBUF"}
    refer = {"references": [{"name": "line.proto", "subject": "l", "version": 1}]}
    running.add(7, "message Cart {}", **document, **refer)
    running.answers["/schemas/ids/7?format=serialized"] = (
        200,
        {"schema": serialized(outer), **document, **refer},
    )
    running.answers["/subjects/l/versions/1?format=serialized"] = (
        200,
        {"schema": serialized(line), **document},
    )
    schema = SchemaRegistry(running.url).fetch(7)
    assert schema.to_json(b"\0\x0a\x02\x08\x05") == b'{"line":{"count":5}}'


def test_a_registry_without_serialized_schemas_is_not_yet(running: FakeRegistry) -> None:
    """Records must not become dead letters because a registry is too old."""
    running.add(7, "message Cart {}", schemaType="PROTOBUF")
    running.answers["/schemas/ids/7?format=serialized"] = running.answers["/schemas/ids/7"]
    with pytest.raises(SchemaSourceUnavailable, match="does not support format=serialized"):
        SchemaRegistry(running.url).fetch(7)
    running.answers["/schemas/ids/7?format=serialized"] = (501, {"error_code": 501})
    with pytest.raises(SchemaSourceUnavailable, match="501"):
        SchemaRegistry(running.url).fetch(7)


def test_the_cache_has_a_bound(
    running: FakeRegistry, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_CACHED", 2)
    schemas = started(SchemaRegistry(running.url))
    for schema_id in (1, 2, 3):
        running.add(schema_id, "int")
        fetched(schemas, schema_id)
    with pytest.raises(SchemaNotYet):
        schemas.schema(1)
    assert isinstance(fetched(schemas, 1), AvroSchema)


def test_ids_that_do_not_fit_the_queue(
    running: FakeRegistry, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that waits for such a schema asks again, so it is fetched in the end."""
    monkeypatch.setattr(module, "_MAX_CACHED", 1)
    schemas = SchemaCache(SchemaRegistry(running.url))
    waiting = []
    for schema_id in (1, 2, 3):
        running.add(schema_id, "int")
        with pytest.raises(SchemaNotYet) as error:
            schemas.schema(schema_id)
        waiting.append(error.value)
    schemas.start()
    started.all.append(schemas)
    for missing in waiting:
        wait_until(lambda missing=missing: missing.over, 10, "its schema", 0.01)


def test_a_folder(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path / "schemas")
    with pytest.raises(SchemaSourceUnavailable, match=r"folder .* does not exist"):
        folder.fetch(7)
    (tmp_path / "schemas").mkdir()
    with pytest.raises(ValueError, match=r"7\.avsc"):
        folder.fetch(7)
    (tmp_path / "schemas" / "7.avsc").write_text(json.dumps(ORDER))
    assert folder.fetch(7).definition == ORDER
    (tmp_path / "schemas" / "9.desc").write_bytes(DESCRIPTORS)
    assert folder.fetch(9).to_json(b"\2\2\x08\x05") == b'{"id":5}'
    (tmp_path / "schemas" / "8.avsc").mkdir()
    with pytest.raises(SchemaSourceUnavailable, match="cannot read"):
        folder.fetch(8)
