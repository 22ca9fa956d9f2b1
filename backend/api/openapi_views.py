"""What the operations on keys and on views share: which views they are for, the value, examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backend.api.openapi_parts import (
    ANY,
    COUNT,
    ENTRY,
    JSON,
    MS,
    STATE,
    VALIDITY,
    Json,
    answer,
    parameter,
    record,
)
from model.views import View

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream; charset=utf-8"
OCTETS, AVRO = "application/octet-stream", "application/avro"
BINARY: Json = {"type": "string", "format": "binary"}

EXAMPLE_KEYS: dict[str, Any] = {
    "string": "example",
    "bytes": "example",
    "int32": 42,
    "int64": 42,
    "float64": 1.5,
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "json": '{"id":1}',
}
"""By key format, as text in a URL; an avro key depends on its schema."""

_PARTIALS = record(
    key=ANY,
    partials={
        "type": "array",
        "items": record(partition=COUNT, offset=COUNT, timestamp=MS, value=ANY),
    },
)

Chosen = Callable[[View], bool]


def value(views: list[View]) -> Json:
    entry = ENTRY
    if any(view.store == "versioned" for view in views):
        entry = {**ENTRY, "properties": {**ENTRY["properties"], **VALIDITY}}
    content = {JSON: {"oneOf": [entry, _PARTIALS]}}
    names = [*STATE, "ETag"]
    if any(not view.is_custom for view in views):
        content[OCTETS] = {}
    if any(view.value == "avro" for view in views):
        content[AVRO] = {}
        names += ["Schema-Fingerprint", "Schema-Id"]
    return answer("The value, as of Offset", content, *names)


def view_parameter(views: list[View]) -> Json:
    names = {"enum": [view.name for view in views]}
    return parameter("view", names, "its name", views[0].name, "path")


def has_points(view: View) -> bool:
    return view.store not in ("window", "session")


_STORES = {
    "keys": ("key-value", "versioned"),
    "windows": ("window",),
    "sessions": ("session",),
    "versions": ("versioned",),
}


def has(resource: str) -> Chosen:
    return lambda view: view.store in _STORES[resource]
