"""Protobuf keys and values over HTTP: JSON, the bytes of the message, or those of the record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.http.openapi.build import openapi
from backend.http.router import Router
from backend.storage.data_directory import DataDirectory
from model.formats.base64url import to_base64url
from model.formats.protobuf.codecs import definition
from model.formats.protobuf.schema import from_descriptor_set
from model.views import View
from tests.support.in_process.examples import view
from tests.support.in_process.protobuf_examples import DESCRIPTORS, Order, framed, key, order
from tests.support.in_process.requests import asked
from tests.unit.backend.http.test_negotiation import held

FILE = from_descriptor_set(DESCRIPTORS)
RAW = order(order_id=2**60, price=0.5)


class Schemas:
    """One schema, with the id 7."""

    def state(self, _: int) -> str:
        return "asked for."

    def schema(self, schema_id: int) -> object:
        return FILE

    stored_schema = schema


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataDirectory]:
    folder = DataDirectory(tmp_path)
    yield folder
    folder.close()


def bare() -> View:
    return view(
        key="protobuf",
        key_schema=definition("shop.Key", FILE),
        value="protobuf",
        value_schema=definition("shop.Order", FILE),
    )


def test_bare_messages(folder: DataDirectory) -> None:
    instance = held(folder, bare(), RAW, key(7))
    shell = Router(instance.context, None)  # type: ignore[arg-type]
    text = to_base64url(key(7)).decode()
    for query in ("", "?encoding=base64url"):
        status, headers, body = asked(shell, f"/views/orders/keys/{text}{query}")
        found = json.loads(body)
        assert (status, found["key"]) == (200, {"id": 7})
        assert (found["value"]["orderId"], found["value"]["price"]) == (str(2**60), 0.5)
    path = f"/views/orders/keys/{text}"
    for media_type in ("application/protobuf", "application/octet-stream"):
        status, headers, body = asked(shell, path, accept=media_type)
        assert (status, body, headers[b"content-type"]) == (200, RAW, media_type.encode())
        assert Order.FromString(body).order_id == 2**60
    status, headers, _ = asked(shell, path, accept="application/protobuf")
    assert len(headers[b"schema-fingerprint"]) == 16
    assert b"schema-id" not in headers
    status, _, body = asked(shell, path, accept="application/avro")
    assert status == 406
    assert "application/protobuf" in json.loads(body)["detail"]
    status, _, body = asked(shell, "/views/orders/keys/%7B%22id%22%3A7%7D")
    assert (status, json.loads(body)) == (200, found)
    for wrong in ("%7B%22no%22%3A7%7D", "A", "gA"):
        status, _, body = asked(shell, f"/views/orders/keys/{wrong}")
        assert (status, json.loads(body)["code"]) == (400, "key-undecodable")
    instance.close()


def test_framed_messages(folder: DataDirectory) -> None:
    raw, record_key = framed(7, RAW), framed(7, key(3), b"\2\2")
    of = view(key="protobuf", key_schema="confluent", value="protobuf", value_schema="confluent")
    instance = held(folder, replace(of, schemas=Schemas()), raw, record_key)  # type: ignore[arg-type]
    shell = Router(instance.context, None)  # type: ignore[arg-type]
    path = f"/views/orders/keys/{to_base64url(record_key).decode()}"
    status, _, body = asked(shell, path)
    assert (status, json.loads(body)["key"]) == (200, {"id": 3})
    status, headers, body = asked(shell, path, accept="application/protobuf")
    assert (status, body, headers[b"schema-id"]) == (200, RAW, b"7")
    assert asked(shell, path, accept="application/octet-stream")[2] == raw
    instance.close()


def test_the_openapi_document_has_the_media_types() -> None:
    document = openapi([bare(), view("plain")], "1", 100)
    path = document["paths"]["/views/{view}/keys/{key}"]["get"]["responses"]["200"]
    assert {"application/json", "application/protobuf"} <= path["content"].keys()
    assert "Schema-Fingerprint" in path["headers"]
    asked_by = document["paths"]["/views/{view}/search"]["post"]["requestBody"]["content"]
    assert "application/protobuf" in asked_by
    plain = openapi([view("plain")], "1", 100)
    path = plain["paths"]["/views/{view}/keys/{key}"]["get"]["responses"]["200"]
    assert "application/protobuf" not in path["content"]
    assert "Schema-Fingerprint" not in path.get("headers", {})
