"""The operations of /openapi.json that are KIQR's dialect."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backend.api.openapi_parts import (
    COUNT,
    JSON,
    MS,
    Json,
    answer,
    listed,
    needed,
    parameter,
    problems,
    record,
)
from backend.http.kiqr.routes import FITS, KAFKA, METHODS, PREFIX
from model.times import GREATEST, LEAST
from model.views import View

_BASE64: Json = {"type": "string", "contentEncoding": "base64", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}
_TIME: Json = {
    "type": "integer",
    "format": "int64",
    "minimum": LEAST,
    "maximum": GREATEST,
}
_COUNTED = record(count=COUNT)
_COUNTED["properties"]["estimate"] = {"const": True}
_SERDE: Json = {"type": "string", "pattern": r"^([A-Za-z_]\w*\.)+[A-Za-z_$][\w$]*$"}


def kiqr_paths(views: Sequence[View], examples: Mapping[str, Any]) -> Json:
    """By path; `examples` are keys by format, as text."""

    def of(*stores: str) -> list[View]:
        return [view for view in views if view.store in stores]

    tables, windows, sessions = of("key-value", "versioned"), of("window"), of("session")
    times = [
        needed(parameter("from", _TIME, "ms, inclusive", 0)),
        needed(parameter("to", _TIME, "ms, inclusive", 4102444800000)),
    ]
    session = record(startMs=MS, endMs=MS, value=_BASE64)
    of_base64 = {"type": "object", "additionalProperties": _BASE64}
    bounds = [
        parameter(name, _BASE64, "a key; both or neither is given") for name in ("from", "to")
    ]
    paths: dict[str, tuple[list[View], Callable[[list[View]], list[Json]], list[Json], Json]] = {
        "kv/{store}/values/{key}": (tables, _key(examples), [], record(value=_BASE64)),
        "kv/{store}": (tables, _serdes, bounds, record(results=of_base64)),
        "kv/{store}/count": (tables, _nothing, [], _COUNTED),
        "window/{store}/{key}": (windows, _key(examples), times, record(values=of_base64)),
        "session/{store}/{key}": (sessions, _key(examples), [], record(values=listed(session))),
    }
    return {
        f"{PREFIX}/{path}": _asked(path, those, [*made(those), *more], found)
        for path, (those, made, more, found) in paths.items()
        if those
    }


def _asked(path: str, views: list[View], parameters: list[Json], found: Json) -> Json:
    """By each of the methods, which mean the same."""
    names = {"enum": [view.name for view in views]}
    store = parameter("store", names, "a view's name", views[0].name, "path")
    name = "-".join(["kiqr", *(part for part in path.split("/") if part[0] != "{")])
    return {
        method.lower(): {
            "operationId": name if method == "GET" else f"{name}-{method.lower()}",
            "summary": "As KIQR answers it; 500 where the question does not fit the view",
            "tags": ["kiqr"],
            "parameters": [store, *parameters],
            "responses": {
                "200": answer("Keys and values are serialized bytes in base64", {JSON: found}),
                **problems(400, 404, 414, 500, 503),
            },
        }
        for method in METHODS
    }


def _nothing(views: list[View]) -> list[Json]:
    return []


def _serdes(views: list[View]) -> list[Json]:
    return [
        needed(parameter(name, _SERDE, "a Java class that fits the view", _serde(of)))
        for name, of in (("keySerde", views[0].key), ("valueSerde", views[0].value))
    ]


def _key(examples: Mapping[str, Any]) -> Callable[[list[View]], list[Json]]:
    def made(views: list[View]) -> list[Json]:
        example = None
        if views[0].key in examples:
            raw = views[0].key_codec.from_text(str(examples[views[0].key]).encode())
            example = base64.b64encode(raw).decode()
        key = parameter("key", _BASE64, "its serialized bytes", example, "path")
        return [key, *_serdes(views)]

    return made


def _serde(of: str) -> str:
    """The serde that is for this format and hardly another."""
    name = min(
        (name for name, formats in FITS.items() if of in formats), key=lambda name: len(FITS[name])
    )
    return KAFKA + name
