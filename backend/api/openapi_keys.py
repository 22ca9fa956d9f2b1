"""The operations of /openapi.json that name a key in the path."""

from __future__ import annotations

from collections.abc import Callable

from backend.api.openapi_parts import (
    ANY,
    AS_OF,
    COUNT,
    ENCODING,
    ITEMS,
    JSON,
    PARTIALS,
    POINT,
    SPAN,
    STATE,
    TEXT,
    Json,
    answer,
    bodiless,
    page,
    parameter,
    problems,
    record,
)
from backend.api.openapi_views import (
    EVENTS,
    EXAMPLE_KEYS,
    Chosen,
    has,
    has_points,
    value,
    view_parameter,
)
from model.views import View

_KEY_SCHEMAS: dict[str, Json] = {
    "int32": {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1},
    "float64": {"type": "number", "format": "double"},
    "uuid": {"type": "string", "format": "uuid"},
}
_POINT_PROBLEMS = (304, 307, 400, 404, 406, 414, 500, 503)


class KeyedOperations:
    def __init__(self, views: list[View], max_key_bytes: int) -> None:
        self._views = views
        self._max_key_bytes = max_key_bytes

    def _those(self, chosen: Chosen) -> list[View]:
        return [view for view in self._views if chosen(view)]

    def paths(self) -> Json:
        """Of one key: by the canonical path, and by the short path of each view that has one."""
        paths: Json = {}
        for rest, chosen, made in (
            ("", has_points, self._point),
            ("/changes", lambda view: view.store == "key-value", self._changes),
            *((f"/{name}", has(name), self._history(name)) for name in ITEMS),
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
        return [*([view_parameter(views)] if named else []), key]

    def _point(self, views: list[View], named: bool) -> Json:
        versioned = any(view.store == "versioned" for view in views)
        alone = all(view.store == "versioned" for view in views)
        parameters = [*self._path(views, named), *POINT, PARTIALS]
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
            "responses": {"200": value(views), **problems(*_POINT_PROBLEMS)},
        }
        if versioned:
            get["responses"] |= problems(410)
        # a store of one's own says what it likes of a key that it does not know
        if views[0].key in ("string", "bytes") and not views[0].is_custom:
            parameters[named]["examples"]["404"] = {"value": "no such key"}
        head = {**get, "operationId": f"{get['operationId']}-head", "summary": "Whether it exists"}
        return {"get": get, "head": {**head, "responses": bodiless(get["responses"])}}

    def _history(self, name: str) -> Callable[[list[View], bool], Json]:
        def made(views: list[View], named: bool) -> Json:
            of_each = record(partition=COUNT, items={"type": "array", "items": ITEMS[name]})
            partials = record(key=ANY, partials={"type": "array", "items": of_each})
            shown = {"oneOf": [page(ITEMS[name], key={}), partials]}
            found = answer("A page", {JSON: shown}, *STATE)
            return {
                "get": {
                    "operationId": _id(f"{name}-of-key", views, named),
                    "summary": f"The {name} of a key",
                    "tags": ["keys"],
                    "parameters": [*self._path(views, named), *POINT, *SPAN, PARTIALS],
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


def _id(name: str, views: list[View], named: bool) -> str:
    return name if named else f"{name}-{views[0].name}"
