"""Builds the OpenAPI 3.1 document of a deployment. Paths that no view supports are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from backend.http.openapi.fill import Filler, matches
from backend.http.openapi.skeleton import Json, example_keys, problem_codes, skeleton
from model.views import View

_KEYS = "/views/{view}/keys/{key}"
_REFUSALS = (401, 403, 429)


def openapi(views: Iterable[View], version: str, max_key_bytes: int, auth: bool = False) -> Json:
    """The document for these views, at least one; `auth`: requests need a token."""
    # the first view that supports a query has its examples
    ordered = sorted(views, key=lambda view: view.key not in example_keys() or view.is_custom)
    codes = problem_codes()
    constants = {
        "version": version,
        "max_key_bytes": max_key_bytes,
        "codes": "; ".join(f"{status}: {', '.join(names)}" for status, names in codes.items()),
        "all_codes": sorted({code for names in codes.values() for code in names}),
    }
    paths: Json = {}
    for path, item in skeleton()["paths"].items():
        paths |= _paths(path, item, ordered, constants)
    document: Json = Filler(ordered, constants).fill({**skeleton(), "paths": {}})
    document["paths"] = paths
    if not auth:
        for item in paths.values():
            for operation in item.values():
                operation["security"] = []
    responses = document["components"]["responses"]
    responses |= {f"{status}-head": r for status, r in _without_bodies(responses).items()}
    return _with_used_components(document)


def _with_used_components(document: Json) -> Json:
    """The document without components that nothing refers to."""
    components = document["components"]
    used = _references(document["paths"])
    responses = {n: r for n, r in components["responses"].items() if f"responses/{n}" in used}
    used |= _references(responses)
    headers = {n: h for n, h in components["headers"].items() if f"headers/{n}" in used}
    return {**document, "components": {**components, "responses": responses, "headers": headers}}


def _references(node: Any) -> set[str]:
    """The components that the node and its descendants refer to, as `headers/Offset`."""
    if isinstance(node, list):
        return set().union(*map(_references, node))
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"].removeprefix("#/components/")} if "$ref" in node else set()
    return own.union(*map(_references, node.values()))


def _paths(path: str, item: Json, views: Sequence[View], constants: Json) -> Json:
    """The path for the views that support it, and its short paths; empty if no view does."""
    if "x-views" in item:
        views = [view for view in views if matches(view, item["x-views"])]
    if "x-views-first" in item:
        views = sorted(views, key=lambda view: not matches(view, item["x-views-first"]))
    if not views:
        return {}
    paths = {path: _operations(item, Filler(views, constants))}
    if path.startswith(_KEYS):
        for view in views:
            if view.path is not None:
                operations = _operations(item, Filler([view], constants), f"-{view.name}")
                for operation in operations.values():
                    parameters = operation["parameters"]
                    operation["parameters"] = [p for p in parameters if p["name"] != "view"]
                paths[path.replace(_KEYS, f"{view.path}/{{key}}")] = operations
    return paths


# parameters in the body of a POST
_PARAMETERS: Json = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "additionalProperties": {"description": "Text or a whole number"},
                "maxProperties": 16,
            },
            "examples": {"200": {"value": {}}},
        }
    },
}


def _operations(item: Json, filler: Filler, suffix: str = "") -> Json:
    """Method -> operation; `suffix` makes the ids unique."""
    operations: Json = {}
    for method, operation in item.items():
        if method.startswith("x-"):
            continue
        filled = filler.fill(operation)
        filled["operationId"] += suffix
        is_open = "x-open" in operation
        filled["security"] = [] if is_open else [{"bearer": []}]
        for status in (*(() if is_open else _REFUSALS), *operation["x-problems"]):
            filled["responses"][str(status)] = {"$ref": f"#/components/responses/{status}"}
        for parameter in filled.setdefault("parameters", []):
            parameter.setdefault("required", parameter["in"] == "path")
        operations[method] = filled
    for method in item.get("x-same-as-get", ()):
        operations[method] = _like_get(operations, method)
    if "x-post" in item:
        post = _like_get(operations, "post")
        refused = {"415": {"$ref": "#/components/responses/415"}}
        operations["post"] = {
            **post,
            "summary": item["x-post"],
            "requestBody": _PARAMETERS,
            "responses": {**post["responses"], **refused},
        }
    if "x-head" in item:
        head = _like_get(operations, "head")
        responses = _without_bodies(head["responses"])
        operations["head"] = {**head, "summary": item["x-head"], "responses": responses}
    return operations


def _like_get(operations: Json, method: str) -> Json:
    get = operations["get"]
    return {**get, "operationId": f"{get['operationId']}-{method}"}


def _without_bodies(responses: Json) -> Json:
    """The responses to HEAD."""
    return {
        status: {"$ref": f"{response['$ref']}-head"}
        if "$ref" in response
        else {name: part for name, part in response.items() if name != "content"}
        for status, response in responses.items()
    }
