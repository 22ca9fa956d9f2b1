"""/openapi.json agrees with the code: routes, parameters, problem codes."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from backend.http import parameters as known
from backend.http.access import Access
from backend.http.kiqr.routes import FITS, KAFKA
from backend.http.openapi.build import openapi
from backend.http.openapi.skeleton import problem_codes, skeleton
from backend.http.router import Router
from backend.queries.history import MAX_LIMIT
from backend.queries.key_bodies import MAX_KEYS
from backend.queries.parameters import DEFAULT_LIMIT
from backend.queries.point_by_kind import WrongStoreReads, reads_of
from backend.queries.stores import KEYS, SESSIONS, WINDOWS, refuse_custom, refuse_store
from backend.queries.whole_view.ranking import Ranking
from backend.queries.whole_view.registry import VIEW_QUERIES
from model.expressions.parser import MAX_CHARACTERS
from model.formats.registry import KEY_CODECS, VALUE_CODECS
from model.indexes.declaration import parse_indexes
from model.kinds.registry import KINDS
from model.limits import MAX_PATH_BYTES, parameter_bytes
from model.pipelines.status import FAILED, PAUSED, RUNNING, STARTING, STOPPED, UNKNOWN
from model.problems import BadRequest
from model.rows.declared_fields import parse_declared_fields
from model.times import MAX_LENGTH, MAX_TIME, MIN_TIME, parse_time
from model.views import View
from model.views_file import RESERVED_SEGMENTS
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import context
from tests.support.in_process.pages import flask_pages
from tests.unit.docs.problem_codes import codes_by_status

BACKEND = Path(__file__).parents[4] / "backend"
FIELDS = parse_declared_fields({"a": "string?"})
VIEWS = (
    ORDERS,
    view("numbers", key="int64", value="int64"),
    view("windows", store="window", path="/w"),
    view("sessions", store="session"),
    view("versions", store="versioned", path="/v"),
    replace(view("open"), append=True),
    view("own", store="some.module:Class"),
    view("built@2"),
    view("derived", pipeline="spark-derived"),
    replace(view("indexed"), fields=FIELDS, indexes=parse_indexes({"by-a": ["a"]}, FIELDS)),
)
# all paths below a view that does not exist are 404
NOTHING_THERE = "/views/{}/{}"
# a redirect for people who type it; linters of OpenAPI refuse such a path
SLASH = "/admin/"


def document(*views: View) -> Any:
    return openapi(views or VIEWS, "1.2.3", 8192)


def operations(of: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in of["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def shape(path: str) -> str:
    return re.sub(r"<[^>]*>|{[^}]*}", "{}", path)


def test_its_paths_are_the_routes_of_flask() -> None:
    pages = flask_pages(context(VIEWS))
    rules = {
        (shape(rule.rule), method.lower())
        for rule in pages.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if shape(rule.rule) not in (NOTHING_THERE, SLASH)
    }
    mine = {
        (shape(path), method)
        for path, method, operation in operations(document())
        if operation["tags"][0] not in ("keys", "views", "admin")
    }
    assert rules == mine
    assert "/api/v1/kv/{}/values/{}" in {path for path, _ in rules}
    firsts = {path.split("/")[1] for path, _ in mine}
    assert firsts <= RESERVED_SEGMENTS
    with pages.test_client() as client:
        answer = client.get("/openapi.json")
        assert answer.content_type == "application/json"
        assert answer.json["paths"] == document()["paths"]


def test_its_paths_are_the_routes_of_the_router() -> None:
    router = Router(context(VIEWS), None)  # type: ignore[arg-type]
    below = {
        route.pattern.removeprefix("{path}/{key}")
        for route in router.routes
        if route.pattern.startswith("{path}/{key}") and not route.pattern.endswith("{rest}")
    }
    histories = {f"/{kind.history}" for kind in KINDS.values() if kind.history}
    assert below == {"", "/changes", *histories}
    mine = {
        (path, method)
        for path, method, operation in operations(document())
        if operation["tags"][0] in ("keys", "views", "admin")
    }
    expected = {
        (route.pattern, route.methods[0].lower())
        for route in router.routes
        if route.pattern.startswith(("/views/", "/topics/", "/admin/", "/sql"))
        and not route.is_page
    }
    in_bodies = {f"/views/{{view}}/{kind}" for kind in ("keys", "windows", "sessions")}
    assert in_bodies == {r.pattern for r in router.routes if r.methods[1:] == ("HEAD", "POST")}
    expected |= {(path, "post") for path in in_bodies}
    expected |= {(f"/views/{{view}}/keys/{{key}}{rest}", "get") for rest in below}
    expected |= {("/views/{view}/keys/{key}", "head"), ("/orders/{key}", "head")}
    expected |= {("/orders/{key}", "get"), ("/orders/{key}/changes", "get")}
    expected |= {("/w/{key}/windows", "get"), ("/v/{key}/versions", "get")}
    expected |= {("/v/{key}", "head"), ("/v/{key}", "get")}
    assert mine == expected
    names = {"{view}": "orders", "{key}": "k", "{topic}": "t", "{instance}": "b1", "{group}": "g"}
    names |= {"{deployment}": "shop", "{field}": "a", "{value}": "b"}
    for path, method in mine:
        match = router.match(re.sub("{.*?}", lambda of: names[of[0]], path).encode())
        assert match is not None
        assert method.upper() in match.route.methods
        assert not match.route.pattern.endswith("{rest}")


def test_its_parameters_are_those_of_the_code() -> None:
    histories = {kind.history for kind in KINDS.values() if kind.history}
    for path, method, operation in operations(document()):
        if operation["tags"][0] not in ("keys", "views") or method == "post":
            continue
        name = path.rsplit("/", 1)[1]
        asked = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
        if name == "changes":
            assert asked == {"encoding", "timestamps"}
        elif name in histories and operation["tags"] == ["keys"]:
            assert asked == {*known._COMMON, *known._SPAN, "partials"}
        elif name == "{value}":
            assert asked == set(known.PARAMETERS["by"])
        elif name == "{key}":
            assert asked - {"as_of"} == {*known._COMMON, "partials", "headers"}
        else:
            of_query = {query.name: query.parameters for query in VIEW_QUERIES}
            assert asked == set({**known.PARAMETERS, **of_query}[name])


@pytest.mark.slow
def test_its_problem_codes_are_those_of_the_code() -> None:
    codes = problem_codes()
    sources = "".join(
        path.read_text()
        for root in (BACKEND, BACKEND.parent / "model")
        for path in root.rglob("*.py")
    )
    raised = codes_by_status()
    raised[403] -= {"not-a-member"}  # of internal routes
    assert set(codes) == set(raised)
    for status, of_status in raised.items():
        assert of_status <= set(codes[status]), status
    quoted = set(re.findall(r'"([a-z-]+)"', sources))
    assert {code for those in codes.values() for code in those} <= quoted


def test_only_open_operations_need_no_token() -> None:
    of = openapi(VIEWS, "1.2.3", 8192, auth=True)
    assert all(each["security"] == [] for _, _, each in operations(document()))
    access = {route.pattern: route.access for route in Router(context(VIEWS), None).routes}  # type: ignore[arg-type]
    for path, _, operation in operations(of):
        is_open = access.get(path) is Access.OPEN
        assert operation["security"] == ([] if is_open else [{"bearer": []}]), path
        assert ("401" in operation["responses"]) is ("403" in operation["responses"]) is not is_open


def test_references_resolve_and_ids_and_parameters_are_unique() -> None:
    made = document()
    text = orjson.dumps(made).decode()
    for pointer in set(re.findall(r'"\$ref":"#/([^"]+)"', text)):
        at = made
        for part in pointer.split("/"):
            at = at[part]
    ids = [operation["operationId"] for _, _, operation in operations(made)]
    assert len(ids) == len(set(ids))
    for path, _, operation in operations(made):
        parameters = operation.get("parameters", [])
        names = [(each["in"], each["name"]) for each in parameters]
        assert len(names) == len(set(names))
        in_path = {name for where, name in names if where == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))


def test_queries_that_no_view_supports_are_left_out() -> None:
    paths = document(view("windows", store="window"))["paths"]
    assert "/views/{view}/windows" in paths
    assert "/api/v1/window/{store}/{key}" in paths
    for gone in ("/views/{view}/keys/{key}", "/views/{view}/batch", "/api/v1/kv/{store}"):
        assert gone not in paths
    of_windows = paths["/views/{view}/windows"]["get"]["parameters"][0]
    assert of_windows["schema"] == {"type": "string", "enum": ["windows"]}


def nodes(node: Any) -> Iterator[Any]:
    """The node and its descendants."""
    yield node
    if isinstance(node, dict):
        for name, each in node.items():
            yield name
            yield from nodes(each)
    elif isinstance(node, list):
        for each in node:
            yield from nodes(each)


def schemas(node: Any) -> Iterator[Any]:
    """The schemas of the node and its descendants, with those within them."""
    if isinstance(node, list):
        for each in node:
            yield from schemas(each)
    elif isinstance(node, dict):
        for name, each in node.items():
            if name in ("schema", "items", "additionalProperties") and isinstance(each, dict):
                yield each
            if name in ("properties", "schemas"):
                yield from each.values()
            if name not in ("example", "examples"):
                yield from schemas(each)


@pytest.mark.parametrize("auth", [False, True])
def test_generators_of_clients_can_read_its_schemas(auth: bool) -> None:
    """`make clients-test` runs the generators. These are the rules that have broken them."""
    made = list(schemas(openapi(VIEWS, "1.2.3", 8192, auth)))
    assert len(made) > 500
    for schema in made:
        # oapi-codegen and the Java client of openapi-generator stop at oneOf and anyOf
        assert schema.keys().isdisjoint({"oneOf", "anyOf", "allOf", "not", "const"}), schema
        assert None not in schema.values(), schema
        # openapi-generator's Java client takes `false` for a map, and sends it as an empty one
        assert schema.get("additionalProperties") is not False, schema
        type_ = schema.get("type")
        if isinstance(type_, list):  # oapi-codegen stops at [number, string]
            [type_, null] = type_
            assert null == "null", schema
        if "enum" in schema:  # Java's client does not compile without a type
            names = {str: "string", int: "integer"}
            assert {names[type(value)] for value in schema["enum"]} == {type_}, schema
        elif type_ == "integer":  # without a format, clients in Java and Go have 32 bits
            limit = schema.get("maximum", 1 << 63)
            assert "format" in schema or limit < 1 << 31, schema


def test_it_has_no_unused_components() -> None:
    made = document()
    used = {each["$ref"] for each in nodes(made) if isinstance(each, dict) and "$ref" in each}
    components = made["components"]
    assert "#/components/responses/404-head" in used
    assert used >= {
        f"#/components/{kind}/{name}"
        for kind in ("headers", "responses", "schemas")
        for name in components[kind]
    }


def test_all_placeholders_are_filled_in() -> None:
    texts = [each for each in nodes(document()) if isinstance(each, str)]
    assert [text for text in texts if text.startswith(("x-", "#/x-")) or "${" in text] == []


def test_every_part_is_used() -> None:
    whole = skeleton()
    used = {each["$ref"] for each in nodes(whole) if isinstance(each, dict) and "$ref" in each}
    assert {f"#/x-parts/{name}" for name in whole["x-parts"]} <= used


def test_every_response_has_the_epoch() -> None:
    made = document()
    responses = dict(made["components"]["responses"])
    for path, method, operation in operations(made):
        for status, response in operation["responses"].items():
            if "$ref" not in response:
                responses[f"{method} {path} {status}"] = response
    assert [
        name for name, each in responses.items() if "Topology-Epoch" not in each["headers"]
    ] == []


def test_its_limits_are_those_of_the_code() -> None:
    made = document()
    for path, _, operation in operations(made):
        for parameter in operation["parameters"]:
            name, schema = parameter["name"], parameter["schema"]
            if parameter["in"] != "query":
                continue
            most = parameter_bytes(name)
            if schema.get("type") == "string" and not schema.keys() & {"pattern", "enum"}:
                expected = most if most <= MAX_PATH_BYTES or name == "select" else None
                expected = MAX_CHARACTERS if name == "where" else expected
                assert schema.get("maxLength") == expected, (path, name)
            if name == "limit":
                bounds = {"minimum": 1, "maximum": MAX_LIMIT}
                default = {} if path.endswith("/aggregate") else {"default": DEFAULT_LIMIT}
                assert schema == {"type": "integer", **bounds, **default}
            if "Milliseconds since 1970, or ISO 8601" in schema.get("description", ""):
                assert schema["maxLength"] == MAX_LENGTH
                for time in (MIN_TIME, MAX_TIME, "2013-01-01T10:17:00Z", "2013-01-01 10:17+01"):
                    parse_time(str(time))
                    assert re.search(schema["pattern"], str(time)), (path, name)
                assert not re.search(schema["pattern"], "2013-01-01")
    batch = made["paths"]["/views/{view}/batch"]["post"]["requestBody"]["content"]
    assert batch["application/json"]["schema"]["properties"]["keys"]["maxItems"] == MAX_KEYS
    states = {STARTING, RUNNING, PAUSED, FAILED, STOPPED, UNKNOWN}
    assert set(made["components"]["headers"]["Pipeline-State"]["schema"]["enum"]) == states
    described = made["paths"]["/views/{view}"]["get"]["responses"]["200"]["content"]
    pipeline = described["application/json"]["schema"]["properties"]["pipeline"]
    assert set(pipeline["properties"]["state"]["enum"]) == states


def test_it_covers_all_formats_and_kinds_of_store() -> None:
    formats = skeleton()["x-formats"]
    assert formats.keys() == KEY_CODECS.keys() | VALUE_CODECS.keys() | {"avro", "protobuf"}
    for name, each in formats.items():
        assert name in FITS[f"Serdes${each['serde']}"]
        if name in KEY_CODECS:
            KEY_CODECS[name].from_text(str(each["example"]).encode())


@pytest.mark.parametrize("of", KEY_CODECS)
def test_kiqr_examples_have_the_formats_of_the_view(of: str) -> None:
    paths = document(view(key=of, value=of))["paths"]
    examples = {
        parameter["name"]: parameter["examples"]["200"]["value"]
        for parameter in paths["/api/v1/kv/{store}/values/{key}"]["get"]["parameters"]
    }
    for name in ("keySerde", "valueSerde"):
        assert of in FITS[examples[name].removeprefix(KAFKA)]
    KEY_CODECS[of].check(base64.b64decode(examples["key"], validate=True))


def test_examples_of_keys_that_fields_name() -> None:
    of = replace(view(key="json"), key_fields=("order", "line"))
    paths = document(of)["paths"]
    [raw] = (
        parameter["examples"]["200"]["value"]
        for parameter in paths["/api/v1/kv/{store}/values/{key}"]["get"]["parameters"]
        if parameter["name"] == "key"
    )
    [asked] = (
        parameter["examples"]["200"]["value"]
        for parameter in paths["/views/{view}/keys/{key}"]["get"]["parameters"]
        if parameter["name"] == "key"
    )
    record = base64.b64decode(raw, validate=True)
    of.key_codec.check(record)
    assert of.key_codec.to_json(record) == of.key_codec.to_json(
        of.key_codec.from_text(asked.encode())
    )


def test_examples_of_bodies_have_the_key_format() -> None:
    def key(of: str) -> Any:
        paths = document(view(key=of))["paths"]
        [search, batch] = (
            paths[f"/views/{{view}}/{name}"]["post"]["requestBody"]["content"]["application/json"]
            for name in ("search", "batch")
        )
        examples = search.get("examples", {}), batch.get("examples", {})
        if examples == ({}, {}):
            return None
        [sought, asked] = (each["200"]["value"] for each in examples)
        assert asked == {"keys": [sought["query"]]}
        return sought["query"]

    assert [key(of) for of in ("string", "int64", "bytes")] == ["example", 42, "ZXhhbXBsZQ"]
    # every byte of a JSON key matters, and programs write JSON with or without spaces
    assert key("json") is None


def test_a_ranking_requires_a_field_unless_some_values_are_numbers() -> None:
    def by(*views: View) -> tuple[Any, Any, Any]:
        parameters = document(*views)["paths"]["/views/{view}/top"]["get"]["parameters"]
        [of, field] = parameters[:2]
        assert (of["name"], field["name"]) == ("view", "by")
        return of["schema"]["enum"], field["required"], field.get("examples")

    numbers = view("numbers", value="float64")
    assert by(ORDERS) == (["orders"], True, {"200": {"value": "amount"}})
    assert by(ORDERS, numbers) == (["numbers", "orders"], False, None)


def test_features_of_some_views_are_in_the_paths_of_these_views() -> None:
    def value(path: str) -> Any:
        get = paths[path]["get"]
        entry = get["responses"]["200"]["content"]["application/json"]["schema"]
        names = {each["name"] for each in get["parameters"]}
        return "as_of" in names, "410" in get["responses"], "valid_to" in entry["properties"]

    paths = document()["paths"]
    assert value("/views/{view}/keys/{key}") == (True, True, True)
    assert value("/v/{key}") == (True, True, True)
    assert value("/orders/{key}") == (False, False, False)


def test_the_views_of_a_path_are_those_that_support_it() -> None:
    views = [view(f"{store}-{of}", store=store, value=of)
             for store in (*tuple(KINDS), "some.module:Class") for of in VALUE_CODECS]  # fmt: skip

    def stated(path: str) -> set[str]:
        return set(paths[path]["get"]["parameters"][0]["schema"]["enum"])

    def allowed(check: Callable[[View], object]) -> set[str]:
        names = set()
        for each in views:
            try:
                check(each)
            except BadRequest:
                continue
            names.add(each.name)
        return names

    def rank(of: View) -> None:
        refuse_custom(of)
        Ranking(of, None if of.value in ("int32", "int64", "float64") else "amount", True)

    paths = document(*views)["paths"]
    for kind in (KEYS, WINDOWS, SESSIONS):
        assert stated(f"/views/{{view}}/{kind}") == allowed(lambda of, k=kind: refuse_store(of, k))
    assert stated("/views/{view}/count") == allowed(refuse_custom)
    assert stated("/views/{view}/top") == allowed(rank)
    for kind in filter(None, (kind.history for kind in KINDS.values())):
        path = f"/views/{{view}}/keys/{{key}}/{kind}"
        assert stated(path) == {each.name for each in views if each.kind.history == kind}
    served = context(views)
    points = {
        each.name for each in views if not isinstance(reads_of(each, served), WrongStoreReads)
    }
    assert stated("/views/{view}/keys/{key}") == points
