"""What the operations of /openapi.json are put together from: parameters, headers, schemas.

Examples of parameters are named after the status that they lead to.
"""

from __future__ import annotations

from typing import Any

from backend.wire.scan import ALLOW, MAX_LIMIT, NEVER
from model.limits import MOST_PATH_BYTES, parameter_bytes
from model.times import GREATEST, LEAST

Json = dict[str, Any]

PROBLEM = "application/problem+json"
JSON = "application/json"

# every code that a problem document can have, by status
CODES: dict[int, tuple[str, ...]] = {
    400: (
        "bad-parameter", "bad-request", "body-too-large", "cursor-invalid", "key-undecodable",
        "missing-parameter", "path-undecodable", "repeated-parameter", "too-many-entries",
        "too-many-keys", "unknown-parameter", "unknown-serde", "value-undecodable",
        "wrong-store",
    ),
    404: ("key-not-found", "no-such-resource", "view-not-found"),
    405: ("method-not-allowed",),
    406: ("not-acceptable",),
    410: ("outside-history",),
    414: ("key-too-long",),
    500: (
        "bad-parameter", "internal-error", "key-undecodable", "store-failed", "unfit-serde",
        "wrong-store",
    ),
    503: (
        "ambiguous-key", "append-unconfirmed", "catching-up", "draining", "mis-partitioned",
        "no-topology", "nobody", "not-active", "not-here", "not-up-to-offset", "overloaded",
        "owner-unreachable", "repartitioned", "schema-unavailable", "store-damaged",
        "too-far-behind", "too-stale", "took-too-long", "topic-missing",
    ),
}  # fmt: skip

_TITLES = {
    304: "What `If-None-Match` names is what there is.",
    307: "`route=redirect`: another instance holds the key.",
    400: "The request is not right; the detail says what would be.",
    404: "It is not there. `key-not-found`: as of `Offset`.",
    405: "`Allow` says which methods there are.",
    406: "`Accept` names nothing that the value can be had as.",
    410: "`as_of` lies before what the view keeps.",
    414: "The key is too long.",
    500: "`internal-error` is a bug; the instance's log says more.",
    503: "Not yet, not here, or nobody can: ask again after `Retry-After` seconds.",
}

ANY: Json = {}
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
MS: Json = {"type": "integer", "format": "int64", "description": "ms since 1970"}


def record(**fields: Json) -> Json:
    """An object that has all of the fields."""
    return {"type": "object", "required": list(fields), "properties": fields}


def or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def listed(item: Json) -> Json:
    return {"type": "array", "items": item}


def page(item: Json, **more: Json) -> Json:
    cursor = {"type": ["string", "null"], "description": "the next page's `cursor`"}
    return record(**more, items=listed(item), next=cursor)


ENTRY = record(key=ANY, value=ANY)
_WINDOW: Json = {"start": MS, "end": or_null(MS), "sequence": {"type": "integer"}, "value": ANY}
_SESSION: Json = {"start": MS, "end": MS, "value": ANY}
VALIDITY: Json = {"valid_from": MS, "valid_to": or_null(MS)}
ITEMS: dict[str, Json] = {
    "windows": record(**_WINDOW),
    "sessions": record(**_SESSION),
    "versions": record(**VALIDITY, value=ANY),
}
"""By resource: the entries of one key."""

KEYED_ITEMS: dict[str, Json] = {
    "keys": ENTRY,
    "windows": record(key=ANY, **_WINDOW),
    "sessions": record(key=ANY, **_SESSION),
}
"""By resource: the entries of all keys."""

SCHEMAS: Json = {
    "Problem": {
        "description": "RFC 9457. Switch on the code.",
        **record(
            type={"type": "string", "pattern": "^urn:queryable:"},
            title=TEXT,
            status={"type": "integer", "minimum": 400, "maximum": 599},
            code={"enum": sorted({code for codes in CODES.values() for code in codes})},
            detail=TEXT,
        ),
    }
}

PIPELINE_STATES = ["starting", "running", "failed", "stopped", "unknown"]
_WORD = {"type": "string", "pattern": "^([0-9]+|unknown)$"}
HEADERS: Json = {
    "Partition": {"description": "where the key belongs", "schema": COUNT},
    "Offset": {"description": "the next offset that the partition will apply", "schema": COUNT},
    "Lag": {"description": "records behind the end of the log", "schema": _WORD},
    "Staleness": {"description": "ms since it last was at a fetched end", "schema": _WORD},
    "Pipeline-Lag": {
        "description": "records in the view's source topics that its pipeline has not read; of "
        "views that name their pipeline",
        "schema": _WORD,
    },
    "Pipeline-Staleness": {
        "description": "ms since the pipeline had read all there was",
        "schema": _WORD,
    },
    "Pipeline-State": {"description": "of the pipeline", "schema": {"enum": PIPELINE_STATES}},
    "Served-By": {
        "description": "who has read, each with its role: instance; role, instance; role, … (+n: "
        "so many more)",
        "schema": TEXT,
    },
    "ETag": {"description": "of the value and its representation", "schema": TEXT},
    "Topology-Epoch": {
        "description": "of the map that the instance has; on every answer",
        "required": True,
        "schema": {"type": "string", "pattern": "^[0-9]+-[0-9]+$"},
    },
    "Retry-After": {"description": "seconds", "required": True, "schema": COUNT},
    "Allow": {"description": "the methods there are", "required": True, "schema": TEXT},
    "Location": {"description": "the owner's address", "required": True, "schema": TEXT},
    "Schema-Fingerprint": {"description": "of the value's Avro schema", "schema": TEXT},
    "Schema-Id": {"description": "the schema's in the registry", "schema": TEXT},
}
PIPELINE = ("Pipeline-Lag", "Pipeline-Staleness", "Pipeline-State")
STATE = ("Partition", "Offset", "Lag", "Staleness", "Served-By", *PIPELINE)
WHOLE = ("Lag", "Staleness", "Served-By", *PIPELINE)


def headers(*names: str) -> Json:
    named = (*names, "Topology-Epoch")
    return {name: {"$ref": f"#/components/headers/{name}"} for name in named}


def answer(description: str, content: dict[str, Json], *names: str) -> Json:
    """A response; `content` are schemas by type, `names` its headers beside the epoch."""
    made: Json = {"description": description, "headers": headers(*names)}
    if content:
        made["content"] = {kind: {"schema": schema} for kind, schema in content.items()}
    return made


def problems(*statuses: int) -> Json:
    """References to responses, by status as OpenAPI writes it."""
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def bodiless(responses: Json) -> Json:
    """The responses of a HEAD."""
    return {
        status: {"$ref": f"{response['$ref']}-head"}
        if "$ref" in response
        else {name: part for name, part in response.items() if name != "content"}
        for status, response in responses.items()
    }


def _response(status: int) -> Json:
    more = {
        307: ("Location",),
        304: ("ETag",),
        404: STATE,
        405: ("Allow",),
        503: ("Retry-After",),
    }.get(status, ())
    if status not in CODES:
        return answer(_TITLES[status], {}, *more)
    made = answer(_TITLES[status], {PROBLEM: {"$ref": "#/components/schemas/Problem"}}, *more)
    code = CODES[status][0]
    made["content"][PROBLEM]["example"] = {
        "type": f"urn:queryable:{code}",
        "title": "Not found" if status == 404 else "Bad request" if status == 400 else "Problem",
        "status": status,
        "code": code,
        "detail": "What is wrong, where, and what to do.",
    }
    return made


RESPONSES: Json = {str(status): _response(status) for status in _TITLES}
RESPONSES |= {f"{status}-head": part for status, part in bodiless(RESPONSES).items()}


def parameter(
    name: str, schema: Json, what: str, example: Any = None, where: str = "query"
) -> Json:
    """`example` is one that leads to 200."""
    made: Json = {"name": name, "in": where, "required": where == "path", "schema": schema}
    made["description"] = what
    if example is not None:
        made["examples"] = {"200": {"value": example}}
    return made


def text(name: str, what: str, example: Any = None, **more: Any) -> Json:
    """A parameter that is text, with its longest value; or, where the request line is what bounds
    it, without."""
    most = parameter_bytes(name)
    bound = {"maxLength": most} if most <= MOST_PATH_BYTES else {}
    return parameter(name, {**TEXT, **bound, **more}, what, example)


def needed(made: Json) -> Json:
    return {**made, "required": True}


def choice(name: str, values: tuple[str, ...], what: str) -> Json:
    return parameter(name, {"enum": list(values), "default": values[0]}, what, values[-1])


_MOMENT: Json = {
    "oneOf": [
        {"type": "integer", "format": "int64", "minimum": LEAST, "maximum": GREATEST},
        {"type": "string", "pattern": r"^20[0-9]{2}-0[1-9]-[01][1-9]T[01][0-9]:[0-5][0-9]:00Z$"},
    ]
}
_LIMIT: Json = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 100}
_CURSOR = "`next` of the page before; the other parameters stay the same"

ENCODING = choice("encoding", ("text", "base64url"), "how the key is written")
ENCODING["examples"] = {"200": {"value": "text"}}
STALE = parameter(
    "stale",
    {"enum": [ALLOW, NEVER]},
    "allow: also from what is still being read in; never: from the active alone; else from whoever "
    "has read it in, the active before its standbys",
    ALLOW,
)
ROUTE = choice("route", ("forward", "redirect"), "redirect: 307 to the owner if it is another")
ROUTE["examples"] = {"200": {"value": "forward"}}
BOUNDS = (
    text(
        "min_offset",
        "partition:offset (several with commas): what has to be in the answer",
        "99:1",
        pattern="^[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*$",
    ),
    parameter("max_lag", {**COUNT, "maximum": GREATEST}, "records", 1_000_000),
    parameter(
        "max_staleness",
        {"type": "string", "pattern": "^[0-9]{1,9}(ms|s|m|h|d)$"},
        "a duration such as 500ms, 30s, 5m",
        "1h",
    ),
)
PARTIALS = choice(
    "partials", ("none", "all"), "all: what each partition has of the key, by partition"
)
PARTIALS["examples"] = {"200": {"value": "none"}}
POINT = (ENCODING, STALE, ROUTE, *BOUNDS)
AS_OF = parameter(
    "as_of", _MOMENT, "what was valid then; ISO 8601 with a zone, or ms since 1970", 4102444800000
)
FROM = parameter("from", _MOMENT, "from when on, inclusive", 0)
TO = parameter("to", _MOMENT, "until when, inclusive", 4102444800000)
ORDER = choice("order", ("asc", "desc"), "of the keys or times")
LIMIT = parameter("limit", _LIMIT, "items on a page", 10)
CURSOR = text("cursor", _CURSOR)
SPAN = (FROM, TO, ORDER, LIMIT, CURSOR)
