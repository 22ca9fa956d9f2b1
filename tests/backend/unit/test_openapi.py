"""/openapi.json says what there is: the routes, their parameters, the problem codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from backend.api.openapi import openapi
from backend.api.openapi_parts import CODES
from backend.http import parameters as known
from backend.http.flask_app import create_flask_app
from backend.http.kiqr.raw_reads import RawReads
from backend.http.paths import RESOURCES, Paths
from backend.wire.scan import PARAMETERS
from model.kinds.registry import KINDS
from model.views import View
from model.views_file import RESERVED_SEGMENTS
from tests.backend.unit.examples import ORDERS, view
from tests.backend.unit.fakes import context

BACKEND = Path(__file__).parents[3] / "backend"
VIEWS = (
    ORDERS,
    view("numbers", key="int64", value="int64"),
    view("windows", store="window", path="/w"),
    view("sessions", store="session"),
    view("versions", store="versioned", path="/v"),
    replace(view("open"), append=True),
    view("own", store="some.module:Class"),
)
# whatever is below a view that does not exist is 404
NOTHING_THERE = "/views/{}/{}"


def document(*views: View, kiqr: bool = True) -> Any:
    return openapi(views or VIEWS, "1.2.3", 8192, kiqr)


def operations(of: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in of["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def shape(path: str) -> str:
    return re.sub(r"<[^>]*>|{[^}]*}", "{}", path)


@pytest.mark.parametrize("kiqr", [True, False])
def test_every_route_of_flask_is_in_it_and_the_reverse(kiqr: bool) -> None:
    served = context(VIEWS)
    pages = create_flask_app(served, RawReads(served) if kiqr else None)
    rules = {
        (shape(rule.rule), method.lower())
        for rule in pages.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if shape(rule.rule) != NOTHING_THERE
    }
    mine = {
        (shape(path), method)
        for path, method, operation in operations(document(kiqr=kiqr))
        if operation["tags"][0] not in ("keys", "views")
    }
    assert rules == mine
    assert ("/api/v1/kv/{}/values/{}" in {path for path, _ in rules}) is kiqr
    firsts = {path.split("/")[1] for path, _ in mine}
    assert firsts <= RESERVED_SEGMENTS
    with pages.test_client() as client:
        answer = client.get("/openapi.json")
        assert answer.content_type == "application/json"
        assert answer.json["paths"] == document(kiqr=kiqr)["paths"]


def test_every_resource_that_is_routed_by_raw_path_is_in_it_and_the_reverse() -> None:
    paths = Paths(VIEWS)
    mine = {
        (path, method)
        for path, method, operation in operations(document())
        if operation["tags"][0] in ("keys", "views")
    }
    below = {"", "/changes", *(f"/{kind.history}" for kind in KINDS.values() if kind.history)}
    posted = {"batch", "search"}
    expected = {
        (f"/views/{{view}}/{name}", "post" if name in posted else "get") for name in RESOURCES
    }
    expected |= {(f"/views/{{view}}/keys/{{key}}{rest}", "get") for rest in below}
    expected |= {("/views/{view}/keys/{key}", "head"), ("/orders/{key}", "head")}
    expected |= {("/orders/{key}", "get"), ("/orders/{key}/changes", "get")}
    expected |= {("/w/{key}/windows", "get"), ("/v/{key}/versions", "get")}
    expected |= {("/v/{key}", "head"), ("/v/{key}", "get")}
    assert mine - expected == {("/topics/{topic}/records", "post")}
    mine &= expected
    assert mine == expected
    for path, _ in mine:
        raw = path.replace("{view}", "orders").replace("{key}", "k").encode()
        found = paths.key_path(raw)
        assert paths.view_path(raw) if found is None else f"/{found.rest.decode()}" in {*below, "/"}


def test_its_parameters_are_those_that_are_known() -> None:
    histories = {kind.history for kind in KINDS.values() if kind.history}
    for path, method, operation in operations(document()):
        if operation["tags"][0] not in ("keys", "views") or method == "post":
            continue
        name = path.rsplit("/", 1)[1]
        asked = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
        if name == "changes":
            assert asked == {"encoding"}
        elif name in histories and operation["tags"] == ["keys"]:
            assert asked == {*known._COMMON, *known._SPAN, "partials"}
        elif name == "{key}":
            assert asked - {"as_of"} == {*known._COMMON, "partials"}
        else:
            assert asked == set(PARAMETERS[name])


def test_its_codes_are_those_of_the_sources() -> None:
    sources = "".join(path.read_text() for path in BACKEND.rglob("*.py"))
    kinds = {
        "BadRequest": 400, "NotFound": 404, "NotAcceptable": 406, "Gone": 410, "KeyTooLong": 414,
        "Problem": 500, "QueryFailed": 500, "Unavailable": 503,
    }  # fmt: skip
    for kind, status in kinds.items():
        raised = set(re.findall(rf'\b{kind}\(\s*"([a-z-]+)"', sources))
        assert raised <= set(CODES[status]), kind
        assert raised, kind
    quoted = set(re.findall(r'"([a-z-]+)"', sources))
    assert {code for codes in CODES.values() for code in codes} <= quoted


def test_references_lead_somewhere_and_ids_and_parameters_are_single() -> None:
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


def test_what_no_view_can_answer_is_left_out() -> None:
    paths = document(view("windows", store="window"))["paths"]
    assert "/views/{view}/windows" in paths
    assert "/api/v1/window/{store}/{key}" in paths
    for gone in ("/views/{view}/keys/{key}", "/views/{view}/batch", "/api/v1/kv/{store}"):
        assert gone not in paths
    of_windows = paths["/views/{view}/windows"]["get"]["parameters"][0]
    assert of_windows["schema"] == {"enum": ["windows"]}
