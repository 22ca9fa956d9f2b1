"""The operations of /openapi.json on whole views, and those with a key in the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backend.api.openapi_parts import (
    BOUNDS,
    COUNT,
    CURSOR,
    ENTRY,
    FROM,
    JSON,
    KEYED_ITEMS,
    LIMIT,
    ORDER,
    PARTIALS,
    PIPELINE,
    STALE,
    TEXT,
    TO,
    WHOLE,
    Json,
    answer,
    choice,
    listed,
    needed,
    page,
    parameter,
    problems,
    record,
    text,
)
from backend.api.openapi_views import (
    AVRO,
    BINARY,
    EXAMPLE_KEYS,
    NDJSON,
    OCTETS,
    Chosen,
    has,
    has_points,
    value,
    view_parameter,
)
from backend.queries.key_bodies import MAX_KEYS
from model.views import View

_NUMBERS = ("int32", "int64", "float64")
_RANKED = (*_NUMBERS, "json", "avro")


class WholeOperations:
    def __init__(self, views: list[View]) -> None:
        self._views = views

    def _those(self, chosen: Chosen) -> list[View]:
        return [view for view in self._views if chosen(view)]

    def paths(self) -> Json:
        """Of a whole view, and of a key in a body."""
        paths: Json = {}
        for name in KEYED_ITEMS:
            paths[f"/views/{{view}}/{name}"] = self._scan(name)
        table = self._those(has("keys"))
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
        paths["/topics/{topic}/records"] = self._append()
        return paths

    def _append(self) -> Json:
        views = self._those(lambda view: view.append)
        if not views:
            return {}
        names = {"enum": sorted({view.topic for view in views})}
        topic = parameter("topic", names, "of a view with append", views[0].topic, "path")
        body = _only(key={}, value={})
        body["required"] = ["key"]
        examples = {}
        if views[0].value == "json":
            examples = _bodies(views, lambda key: {"key": key, "value": {"amount": 7}})
        stored = record(partition=COUNT, offset=COUNT)
        made = _post(
            "append",
            "Append a record in the formats of the topic's view; without a value it deletes",
            views,
            [],
            {JSON: (body, examples)},
            {
                "200": answer("Once the broker has it", {JSON: stored}),
                **problems(400, 404, 414, 500, 503),
            },
        )
        made["post"]["parameters"] = [topic]
        return made

    def _scan(self, name: str) -> Json:
        views = self._those(has(name))
        if name == "keys":
            bounds = [text("from", "the first key"), text("to", "the last")]
            bounds.append(text("prefix", "of string and bytes keys"))
        else:
            bounds = [FROM, TO, text("key_from", "the first key")]
            bounds.append(text("key_to", "the last key"))
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
            [STALE],
            {
                JSON: (
                    record(keys=keys) | {"additionalProperties": False},
                    _bodies(views, _in_batch),
                )
            },
            {
                "200": answer(
                    "In the order asked",
                    {JSON: record(items=listed(item))},
                    "Served-By",
                    *PIPELINE,
                ),
                **problems(400, 404, 500, 503),
            },
        )

    def _search(self) -> Json:
        views = self._those(has_points)
        if not views:
            return {}
        octets: tuple[Json, Json] = (BINARY, {})
        return _post(
            "search",
            "As the value of a key, with the key in the body: as JSON, or its record bytes",
            views,
            [STALE, *BOUNDS, PARTIALS],
            {
                JSON: (_only(query={}), _bodies(views, _sought)),
                OCTETS: octets,
                AVRO: octets,
            },
            {"200": value(views), **problems(304, 400, 404, 406, 410, 414, 500, 503)},
        )


def _whole(name: str, summary: str, views: list[View], parameters: list[Json], found: Json) -> Json:
    if not views:
        return {}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "tags": ["views"],
            "parameters": [view_parameter(views), *parameters],
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
            "parameters": [view_parameter(views), *parameters],
            "requestBody": {"required": True, "content": body},
            "responses": responses,
        }
    }


def _by(views: list[View]) -> Json:
    what = "the field of a JSON or Avro value, a.b within it; not for values that are numbers"
    if any(view.value in _NUMBERS for view in views):
        return text("by", what)
    return needed(text("by", what, "amount"))


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


def _is_ranked(view: View) -> bool:
    return view.store in ("key-value", "versioned") and view.value in _RANKED
