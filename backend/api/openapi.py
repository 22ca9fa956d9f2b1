"""/openapi.json: everything that can be asked of a deployment, made from its views.

A route that none of the views can answer is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from backend.api.openapi_kiqr import kiqr_paths
from backend.api.openapi_own import own_paths
from backend.api.openapi_parts import (
    AS_OF,
    BOUNDS,
    CODES,
    CURSOR,
    ENCODING,
    ENTRY,
    FROM,
    HEADERS,
    ITEMS,
    JSON,
    KEYED_ITEMS,
    LIMIT,
    ORDER,
    POINT,
    RESPONSES,
    SCHEMAS,
    SPAN,
    STALE,
    STATE,
    TEXT,
    TO,
    VALIDITY,
    WHOLE,
    Json,
    answer,
    bodiless,
    choice,
    listed,
    needed,
    page,
    parameter,
    problems,
    record,
)
from backend.core.batch import MAX_KEYS
from backend.core.views import View

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
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

_KEY_SCHEMAS: dict[str, Json] = {
    "int32": {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1},
    "float64": {"type": "number", "format": "double"},
    "uuid": {"type": "string", "format": "uuid"},
}
_NUMBERS = ("int32", "int64", "float64")
_RANKED = (*_NUMBERS, "json", "avro")
_POINT_PROBLEMS = (304, 307, 400, 404, 406, 414, 500, 503)

Chosen = Callable[[View], bool]


def openapi(views: Iterable[View], version: str, max_key_bytes: int, kiqr: bool) -> Json:
    """The document (OpenAPI 3.1)."""
    of = _Operations(sorted(views, key=lambda view: view.key not in EXAMPLE_KEYS), max_key_bytes)
    paths = {**of.keyed(), **of.whole(), **own_paths([view.name for view in of.views])}
    if kiqr:
        paths |= kiqr_paths(of.views, EXAMPLE_KEYS)
    codes = "; ".join(f"{status}: {', '.join(codes)}" for status, codes in CODES.items())
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Queryable Topics",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Kafka topics as tables. Every answer has Topology-Epoch; an error is a "
            "problem document (RFC 9457) with a code; HEAD is allowed wherever GET is, but for "
            f"streams; other methods are 405 with Allow. Codes: {codes}.",
        },
        "servers": [{"url": "/"}],
        "paths": {path: item for path, item in paths.items() if item},
        "components": {"schemas": SCHEMAS, "headers": HEADERS, "responses": RESPONSES},
    }


class _Operations:
    def __init__(self, views: list[View], max_key_bytes: int) -> None:
        self.views = views
        self._max_key_bytes = max_key_bytes

    def _those(self, chosen: Chosen) -> list[View]:
        return [view for view in self.views if chosen(view)]

    def keyed(self) -> Json:
        """Of one key: by the canonical path, and by the short path of each view that has one."""
        paths: Json = {}
        for rest, chosen, made in (
            ("", _has_points, self._point),
            ("/changes", lambda view: view.store == "key-value", self._changes),
            *((f"/{name}", _has(name), self._history(name)) for name in ITEMS),
        ):
            views = self._those(chosen)
            if views:
                paths[f"/views/{{view}}/keys/{{key}}{rest}"] = made(views, True)
            for view in views:
                if view.path is not None:
                    paths[f"{view.path}/{{key}}{rest}"] = made([view], False)
        return paths

    def _path(self, views: list[View], named: bool) -> list[Json]:
        """The parameters of the path; `named`: the view is one."""
        example = EXAMPLE_KEYS.get(views[0].key)
        schema = TEXT
        if len({view.key for view in views}) == 1:
            schema = _KEY_SCHEMAS.get(views[0].key, TEXT)
        what = f"percent-encoded, {self._max_key_bytes} bytes at most"
        key = parameter("key", schema, what, example, "path")
        return [*([_view(views)] if named else []), key]

    def _point(self, views: list[View], named: bool) -> Json:
        versioned = any(view.store == "versioned" for view in views)
        alone = all(view.store == "versioned" for view in views)
        parameters = [*self._path(views, named), *POINT]
        if alone or (versioned and not named):
            parameters.append(AS_OF)
        elif versioned:
            # an example would be for the first view, which may be of another kind
            parameters.append({k: v for k, v in AS_OF.items() if k != "examples"})
        get: Json = {
            "operationId": _id("point", views, named),
            "summary": "The value of a key",
            "tags": ["keys"],
            "parameters": parameters,
            "responses": {"200": _value(views), **problems(*_POINT_PROBLEMS)},
        }
        if versioned:
            get["responses"] |= problems(410)
        if "examples" in parameters[named] and views[0].key in ("string", "bytes"):
            parameters[named]["examples"]["404"] = {"value": "no such key"}
        head = {**get, "operationId": f"{get['operationId']}-head", "summary": "Whether it exists"}
        return {"get": get, "head": {**head, "responses": bodiless(get["responses"])}}

    def _history(self, name: str) -> Callable[[list[View], bool], Json]:
        def made(views: list[View], named: bool) -> Json:
            found = answer("A page", {JSON: page(ITEMS[name], key={})}, *STATE)
            return {
                "get": {
                    "operationId": _id(f"{name}-of-key", views, named),
                    "summary": f"The {name} of a key",
                    "tags": ["keys"],
                    "parameters": [*self._path(views, named), *POINT, *SPAN],
                    "responses": {"200": found, **problems(307, 400, 404, 414, 500, 503)},
                }
            }

        return made

    def _changes(self, views: list[View], named: bool) -> Json:
        last = parameter(
            "Last-Event-ID", TEXT, "partition:offset of the last event", where="header"
        )
        stream = answer("Events `value` and `deleted`", {EVENTS: TEXT}, *STATE)
        return {
            "get": {
                "operationId": _id("changes", views, named),
                "summary": "The value of a key, then each change, as server-sent events",
                "tags": ["keys"],
                "parameters": [*self._path(views, named), ENCODING, last],
                "responses": {"200": stream, **problems(400, 404, 414, 500, 503)},
            }
        }

    def whole(self) -> Json:
        """Of a whole view, and of a key in a body."""
        paths: Json = {}
        for name in KEYED_ITEMS:
            paths[f"/views/{{view}}/{name}"] = self._scan(name)
        table = self._those(_has("keys"))
        # the first has the examples, and numbers need no `by`
        ranked = sorted(self._those(_is_ranked), key=lambda view: view.value not in _NUMBERS)
        stored = self._those(lambda view: not view.is_custom)
        paths["/views/{view}/count"] = _whole(
            "count",
            "How many entries: an estimate, or exactly",
            stored,
            [choice("exact", ("false", "true"), "true: counted one by one"), STALE],
            record(count={"type": "integer", "minimum": 0}, exact={"type": "boolean"}),
        )
        paths["/views/{view}/top"] = _whole(
            "top",
            "The entries with the greatest (or least) numbers",
            ranked,
            [
                _by(ranked),
                {**choice("order", ("desc", "asc"), "asc: the least"), "examples": {}},
                LIMIT,
                STALE,
            ],
            record(items=listed(ENTRY)),
        )
        paths["/views/{view}/batch"] = self._batch(table)
        paths["/views/{view}/search"] = self._search()
        return paths

    def _scan(self, name: str) -> Json:
        views = self._those(_has(name))
        if name == "keys":
            bounds = [parameter("from", TEXT, "the first key"), parameter("to", TEXT, "the last")]
            bounds.append(parameter("prefix", TEXT, "of string and bytes keys"))
        else:
            bounds = [FROM, TO, parameter("key_from", TEXT, "the first key")]
            bounds.append(parameter("key_to", TEXT, "the last key"))
        made = _whole(
            name,
            f"All {name} in key order, by pages; or all in one stream of lines",
            views,
            [*bounds, ORDER, LIMIT, CURSOR, STALE],
            page(KEYED_ITEMS[name]),
        )
        if made:
            content = made["get"]["responses"]["200"]["content"]
            content[NDJSON] = {"schema": {**TEXT, "description": "an item a line"}}
        return made

    def _batch(self, views: list[View]) -> Json:
        if not views:
            return {}
        keys: Json = {"type": "array", "items": {}, "maxItems": MAX_KEYS}
        item = record(key={}, status={"enum": [200, 400, 404, 414, 503]})
        item["properties"] |= {"value": {}, "code": TEXT}
        return _post(
            "batch",
            "The values of many keys; each has a status of its own",
            views,
            [],
            {
                JSON: (
                    record(keys=keys) | {"additionalProperties": False},
                    _bodies(views, _in_batch),
                )
            },
            {
                "200": answer(
                    "In the order asked", {JSON: record(items=listed(item))}, "Served-By"
                ),
                **problems(400, 404, 500, 503),
            },
        )

    def _search(self) -> Json:
        views = self._those(_has_points)
        if not views:
            return {}
        octets: tuple[Json, Json] = (BINARY, {})
        return _post(
            "search",
            "As the value of a key, with the key in the body: as JSON, or its record bytes",
            views,
            [STALE, *BOUNDS],
            {
                JSON: (_only(query={}), _bodies(views, _sought)),
                OCTETS: octets,
                AVRO: octets,
            },
            {"200": _value(views), **problems(304, 400, 404, 406, 410, 414, 500, 503)},
        )


def _value(views: list[View]) -> Json:
    entry = ENTRY
    if any(view.store == "versioned" for view in views):
        entry = {**ENTRY, "properties": {**ENTRY["properties"], **VALIDITY}}
    content = {JSON: entry}
    names = [*STATE, "ETag"]
    if any(not view.is_custom for view in views):
        content[OCTETS] = {}
    if any(view.value == "avro" for view in views):
        content[AVRO] = {}
        names += ["Schema-Fingerprint", "Schema-Id"]
    return answer("The value, as of Offset", content, *names)


def _view(views: list[View]) -> Json:
    names = {"enum": [view.name for view in views]}
    return parameter("view", names, "its name", views[0].name, "path")


def _whole(name: str, summary: str, views: list[View], parameters: list[Json], found: Json) -> Json:
    if not views:
        return {}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "tags": ["views"],
            "parameters": [_view(views), *parameters],
            "responses": {
                "200": answer("As of now", {JSON: found}, *WHOLE),
                **problems(400, 404, 500, 503),
            },
        }
    }


def _post(
    name: str,
    summary: str,
    views: list[View],
    parameters: list[Json],
    content: dict[str, tuple[Json, Json]],
    responses: Json,
) -> Json:
    """`content`: schema and examples by type."""
    body = {
        kind: {"schema": schema, **({"examples": examples} if examples else {})}
        for kind, (schema, examples) in content.items()
    }
    return {
        "post": {
            "operationId": name,
            "summary": summary,
            "tags": ["views"],
            "parameters": [_view(views), *parameters],
            "requestBody": {"required": True, "content": body},
            "responses": responses,
        }
    }


def _by(views: list[View]) -> Json:
    what = "the field of a JSON or Avro value, a.b within it; not for values that are numbers"
    if any(view.value in _NUMBERS for view in views):
        return parameter("by", TEXT, what)
    return needed(parameter("by", TEXT, what, "amount"))


def _only(**fields: Json) -> Json:
    return {**record(**fields), "additionalProperties": False}


def _bodies(views: list[View], made: Callable[[Any], Json]) -> Json:
    example = EXAMPLE_KEYS.get(views[0].key)
    if example is None or views[0].key in ("json", "bytes"):
        return {}
    return {"200": {"value": made(example)}}


def _in_batch(key: Any) -> Json:
    return {"keys": [key]}


def _sought(key: Any) -> Json:
    return {"query": key}


def _id(name: str, views: list[View], named: bool) -> str:
    return name if named else f"{name}-{views[0].name}"


def _has_points(view: View) -> bool:
    return view.store not in ("window", "session")


def _is_ranked(view: View) -> bool:
    return view.store in ("key-value", "versioned") and view.value in _RANKED


_STORES = {
    "keys": ("key-value", "versioned"),
    "windows": ("window",),
    "sessions": ("session",),
    "versions": ("versioned",),
}


def _has(resource: str) -> Chosen:
    return lambda view: view.store in _STORES[resource]
