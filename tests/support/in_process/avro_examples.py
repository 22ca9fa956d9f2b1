"""Avro schemas and values, framed records, and a fake schema registry."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro

from model.formats.avro.schema import AvroSchema
from model.formats.schemas import SchemaNotYet

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def binary(schema: Any, value: Any) -> bytes:
    """The value in Avro's binary encoding, by fastavro."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    """The value as Confluent's serializers write it."""
    return b"\0" + schema_id.to_bytes(4, "big") + binary(schema, value)


def basic(credentials: str) -> str:
    """The header `Authorization` with user:password."""
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


class FakeSchemas:
    """Contains what a test puts into it. An id with None is not in the registry."""

    def state(self, _: int) -> str:
        return "asked for."

    def __init__(self, **schemas: Any) -> None:
        self.by_id = {int(name.removeprefix("id")): schema for name, schema in schemas.items()}

    def schema(self, schema_id: int) -> AvroSchema:
        if schema_id not in self.by_id:
            raise SchemaNotYet(schema_id, self)
        found = self.by_id[schema_id]
        if found is None:
            raise ValueError("the registry knows no schema of this id")
        return AvroSchema(json.dumps(found))

    def stored_schema(self, schema_id: int) -> AvroSchema:
        return self.schema(schema_id)


class FakeRegistry:
    """Answers each path with what a test puts into `answers`: (status, document or bytes). If
    there are `accepted` credentials (user:password), others are refused."""

    def __init__(self, port: int = 0) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.accepted: set[str] = set()
        self.asked: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers["Authorization"]))
                not_found = {"error_code": 40403, "message": "Schema not found"}
                status, document = registry.answers.get(self.path, (404, not_found))
                if not registry.accepts(self.headers["Authorization"]):
                    status, document = 401, {"error_code": 401, "message": "Unauthorized"}
                body = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path not in registry.answers:
                    registry.register(self.path, asked)
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def accepts(self, authorization: str | None) -> bool:
        return not self.accepted or authorization in map(basic, self.accepted)

    def add(self, schema_id: int, schema: Any, **more: Any) -> None:
        self.answers[f"/schemas/ids/{schema_id}"] = (200, {"schema": json.dumps(schema), **more})

    def register(self, path: str, document: dict[str, str]) -> None:
        """As `POST /subjects/{subject}/versions`: a schema has one id, however often it is sent."""
        schema_id = len(self.answers) + 100
        self.answers[path] = (200, {"id": schema_id})
        by_id = f"/schemas/ids/{schema_id}"
        if document["schemaType"] == "AVRO":
            del document["schemaType"]
            self.answers[by_id] = (200, document)
        else:
            self.answers[by_id] = (200, {**document, "schema": "as text"})
            self.answers[f"{by_id}?format=serialized"] = (200, document)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def registry(port: int = 0) -> Iterator[FakeRegistry]:
    running = FakeRegistry(port)
    try:
        yield running
    finally:
        running.close()
