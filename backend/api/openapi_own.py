"""The operations of /openapi.json that are about instances and views, not about what is in them."""

from __future__ import annotations

from collections.abc import Sequence

from backend.api.openapi_parts import (
    COUNT,
    JSON,
    PIPELINE_STATES,
    TEXT,
    Json,
    answer,
    listed,
    or_null,
    parameter,
    problems,
    record,
)

_BOOLEAN: Json = {"type": "boolean"}
_VIEW = record(
    name=TEXT, topic=TEXT, path=or_null(TEXT), key=TEXT, value=TEXT, partitioner=TEXT, store=TEXT,
    partitions=or_null(COUNT), hash=TEXT,
)  # fmt: skip
_VIEW["properties"]["pipeline"] = {
    "description": "of a view that names its pipeline; times in ms",
    **record(
        group=TEXT,
        state={"enum": PIPELINE_STATES},
        heard_ago=or_null(COUNT),
        error=or_null(TEXT),
        lag=or_null(COUNT),
        staleness=or_null(COUNT),
        sources=listed(record(topic=TEXT, lag=or_null(COUNT))),
    ),
}
_PARTITION = record(view=TEXT, partition=COUNT, role=TEXT, state=TEXT)
_BY_VIEW: Json = {"type": "object", "additionalProperties": listed(COUNT)}
_PROCESSORS = record(
    epoch=TEXT,
    max_key_bytes=COUNT,
    views={"type": "object", "additionalProperties": {"type": "object"}},
    processors=listed(
        record(
            id=TEXT,
            host=TEXT,
            port=COUNT,
            state=TEXT,
            topicPartitions=_BY_VIEW,
            standbyPartitions=_BY_VIEW,
        )
    ),
)
_INSTANCE = record(
    id=TEXT,
    state=TEXT,
    epoch=TEXT,
    partitions=listed(_PARTITION),
    rebuilds=COUNT,
    lost=listed(record(id=TEXT, host=TEXT, port=COUNT, lost_at=COUNT)),
)
_LIVE = record(
    alive=_BOOLEAN, threads={"type": "object"}, ingest_silent_seconds={}, failure=or_null(TEXT)
)
_READY = record(
    ready=_BOOLEAN,
    state=TEXT,
    in_topology=_BOOLEAN,
    answerable=COUNT,
    waiting=listed(_PARTITION),
    redundancy=record(wanted=COUNT, below=COUNT, lost=listed(TEXT)),
)
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_STATIC = {
    "text/css; charset=utf-8": TEXT,
    "text/javascript; charset=utf-8": TEXT,
    "image/svg+xml; charset=utf-8": TEXT,
}


def own_paths(views: Sequence[str]) -> Json:
    """By path; `views` are all names."""
    name = parameter("view", {"enum": list(views)}, "its name", views[0], "path")
    etag = parameter("If-None-Match", TEXT, "`ETag` of the answer before", where="header")
    processors = answer("Who holds what; clients route by it", {JSON: _PROCESSORS}, "ETag")
    page = answer("The admin page", {_HTML: TEXT})
    file = parameter("filename", TEXT, "as the page names it", "admin.js", "path")
    return {
        "/views": _get("views", "All views", answer("All", {JSON: record(views=listed(_VIEW))})),
        "/views/{view}": _get(
            "view", "One view", answer("The view", {JSON: _VIEW}), [name], problems(404)
        ),
        "/processors": _get("processors", "The map", processors, [etag], problems(304, 503)),
        "/instance": _get(
            "instance",
            "One backend's store partitions",
            answer("As of now", {JSON: _INSTANCE}),
        ),
        "/health/live": _health("live", "Whether it makes progress", _LIVE),
        "/health/ready": _health("ready", "Whether all it holds can be answered", _READY),
        "/metrics": _get("metrics", "For Prometheus", answer("Its text format", {_METRICS: TEXT})),
        "/openapi.json": _get(
            "openapi", "This document", answer("OpenAPI 3.1", {JSON: {"type": "object"}})
        ),
        "/admin": _get("admin", "Who holds what, for people", page),
        "/admin/": {
            "get": {
                "operationId": "admin-slash",
                "summary": "Leads to /admin",
                "tags": ["instance"],
                "responses": {
                    "302": answer("To /admin", {_HTML: TEXT}, "Location"),
                    **problems(500, 503),
                },
            }
        },
        "/admin/topology.json": _get(
            "admin-topology", "What the page shows", answer("Now", {JSON: {"type": "object"}})
        ),
        "/admin/static/{filename}": _get(
            "admin-static",
            "A file of the page",
            answer("The file", _STATIC, "ETag"),
            [file],
            problems(304, 404),
        ),
    }


def _get(
    name: str, summary: str, found: Json, parameters: Sequence[Json] = (), more: Json | None = None
) -> Json:
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "tags": ["instance"],
            "parameters": list(parameters),
            # 503: too many requests at once
            "responses": {"200": found, **problems(500, 503), **(more or {})},
        }
    }


def _health(name: str, summary: str, schema: Json) -> Json:
    made = _get(name, summary, answer("Yes", {JSON: schema}))
    no = answer("No, or overloaded", {JSON: schema}, "Retry-After")
    no["content"]["application/problem+json"] = {"schema": {"$ref": "#/components/schemas/Problem"}}
    made["get"]["responses"]["503"] = no
    return made
