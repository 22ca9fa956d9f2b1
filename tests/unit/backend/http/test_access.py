"""Every route refuses a request without a token, or with a token for something else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.exceptions import HTTPException

from backend.admin.document import admin_page
from backend.http.access import Access
from backend.http.route_table import OTHER, Route, page_path
from backend.http.router import Router
from backend.wire.answer import FINAL_STATUS
from model.problems import BadRequest, RetryLater, Unauthenticated, Unavailable
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import context
from tests.support.in_process.pages import flask_pages
from tests.support.in_process.tokens import Keys, access_control, bearer, token

VIEWS = (
    replace(ORDERS, append=True),
    view("windows", store="window"),
    view("versions", store="versioned"),
)
SHORT = {"{view}": "orders", "{path}": "/orders", "{key}": "k", "{topic}": "orders",
         "{rest}": "x", "{instance}": "b1", "{group}": "shop", "{deployment}": "shop",
         OTHER: "/nothing/here"}  # fmt: skip
LONG = {**SHORT, "{path}": "/views/orders/keys"}
RIGHT = {
    Access.ANY_SCOPE: ["read:windows", "metrics", "admin", "append:t"],
    Access.READ: ["read:orders", "read:*"],
    Access.APPEND: ["append:orders", "append:*"],
    Access.METRICS: ["metrics"],
    Access.ADMIN: ["admin"],
}
ALL = {"read:windows", "read:orders", "append:windows", "append:orders", "metrics", "admin",
       "read:*", "append:*", "read:orders2", "append:order"}  # fmt: skip
UNKNOWN = ["", "read:", "Read:orders", "read:*orders", "openid profile"]


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes


async def flask(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def router_of(keys: Keys | None = None, **options: Any) -> Router:
    access = access_control(keys, **options)
    return Router(context(VIEWS), flask, access, _NoPeers())  # type: ignore[arg-type]


class _NoPeers:
    pass


ROUTER = router_of()
CHECKED = [route for route in ROUTER.routes if route.access not in (Access.OPEN, Access.CLUSTER)]


def asked(router: Router, method: str, raw_path: str, *headers: tuple[bytes, bytes]) -> Answer:
    sent: list[Any] = []
    scope = {"method": method, "raw_path": raw_path.encode(), "path": "", "query_string": b"",
             "headers": list(headers)}  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(router(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return Answer(sent[0]["status"], dict(sent[0]["headers"]), body)


def paths(route: Route) -> set[str]:
    found = set()
    for names in (SHORT, LONG):
        path = route.pattern
        for name, value in names.items():
            path = path.replace(name, value)
        found.add(path)
    return found


@pytest.mark.parametrize("route", CHECKED, ids=lambda route: route.pattern)
@pytest.mark.slow
def test_a_route_needs_a_token_with_its_scope(route: Route) -> None:
    # the method is checked after the access
    for method in {*route.methods, "GET", "POST", "DELETE"}:
        for path in paths(route):
            missing = asked(ROUTER, method, path)
            assert missing.status == 401, (method, path)
            assert missing.headers[b"www-authenticate"] == b'Bearer realm="queryable-topics"'
            assert missing.headers[b"content-type"] == b"application/problem+json"
            invalid = asked(ROUTER, method, path, bearer(*ALL, key=b"another secret" * 3))
            assert invalid.status == 401
            assert b'error="invalid_token"' in invalid.headers[b"www-authenticate"]
            others = set() if route.access is Access.ANY_SCOPE else ALL - {*RIGHT[route.access]}
            for scopes in (*UNKNOWN, " ".join(others)):
                answer = asked(ROUTER, method, path, bearer(scopes))
                assert answer.status == 403, (method, path, scopes)
                if method != "HEAD":
                    assert json.loads(answer.body)["code"] == "forbidden"
                if scope := _scope(route):
                    challenge = answer.headers[b"www-authenticate"]
                    assert b'error="insufficient_scope", scope="%b"' % scope in challenge
            for scope in RIGHT[route.access]:
                accepted = asked(ROUTER, method, path, bearer(scope))
                assert accepted.status not in (401, 403), (method, path, scope)


def _scope(route: Route) -> bytes:
    named = route.access in (Access.READ, Access.APPEND)
    is_any = route.access is Access.ANY_SCOPE
    return b"" if is_any else (route.access.value + (":orders" if named else "")).encode()


def test_a_browser_without_a_token_gets_the_page_that_asks_for_one() -> None:
    html = (b"accept", b"text/html,application/xhtml+xml,*/*;q=0.8")
    answer = asked(ROUTER, "GET", "/admin", html)
    assert answer.status == 401
    assert answer.headers[b"www-authenticate"] == b'Bearer realm="queryable-topics"'
    assert answer.headers[b"content-type"] == b"text/html; charset=utf-8"
    assert b"default-src 'none'" in answer.headers[b"content-security-policy"]
    assert answer.body == admin_page().text
    assert asked(ROUTER, "GET", "/admin", html, bearer("metrics")).status == 299
    assert asked(ROUTER, "GET", "/admin", html, bearer("")).status == 403
    for path in ("/admin/topology.json", "/processors", "/orders/k"):
        refused = asked(ROUTER, "GET", path, html)
        assert refused.headers[b"content-type"] == b"application/problem+json"


def test_only_the_health_of_an_instance_is_open() -> None:
    is_open = [route.pattern for route in ROUTER.routes if route.access is Access.OPEN]
    assert is_open == ["/health/live", "/health/ready"]
    for path in is_open:
        assert asked(ROUTER, "GET", path).status == 299
    of_cluster = {route.pattern for route in ROUTER.routes if route.access is Access.CLUSTER}
    assert of_cluster == {route.pattern for route in ROUTER.routes if route.is_internal}


def test_every_page_of_flask_is_in_the_table() -> None:
    served = context(VIEWS)
    pages = flask_pages(served)
    for rule in pages.url_map.iter_rules():
        values = {"name": "orders", "store": "orders", "_rest": "x", "key": "a2V5", "filename": "x"}
        adapter = pages.url_map.bind("localhost")
        path = adapter.build(rule.endpoint, {name: values[name] for name in rule.arguments})
        route = ROUTER.match(path.encode()).route
        assert route.is_page
        if "_rest" in rule.arguments:
            assert route.pattern == OTHER  # always 404
        else:
            assert route.pattern != OTHER, path
            assert set(route.methods) == rule.methods


SEGMENTS = ["", "/", "kv", "values", "count", "orders", "windows", "nobody", "a2V5", "keys", "..",
            ".", "%", "\n", "é", "?", "records", "static", "x"]  # fmt: skip
PAGES = ["/api/v1/kv/orders", "/api/v1/kv/windows/count", "/api/v1/kv/orders/values/a2V5",
         "/api/v1/kv/orders/values/", "/api/v1/window/windows/a2V5", "/api/v1/session/orders/a/b",
         "/api/v1/kv/nobody", "/metrics", "/health/live", "/health/ready", "/views",
         "/views/orders",
         "/processors", "/instance", "/openapi.json", "/admin", "/admin/", "/admin/topology.json",
         "/orders/k", "/internal/scan", "/topics/orders/records", "/"]  # fmt: skip


@st.composite
def raw_paths(draw: st.DrawFn) -> str:
    """Paths like those of the table, with any of their characters percent-encoded."""
    more = "".join(f"/{each}" for each in draw(st.lists(st.sampled_from(SEGMENTS), max_size=2)))
    path = draw(st.sampled_from(["", "", "/", "//"])) + draw(st.sampled_from(PAGES)) + more
    encoded = draw(st.sets(st.integers(0, len(path) - 1), max_size=6))
    return "".join(
        "".join(f"%{byte:02X}" for byte in char.encode()) if n in encoded else quote(char, "/%?")
        for n, char in enumerate(path)
    )


FLASK = flask_pages(context(VIEWS))


@given(raw_paths())
def test_the_table_knows_what_flask_answers(path: str) -> None:
    """Flask decodes a path before it matches it: the table must come to the same page."""
    try:
        match = ROUTER.match(path.encode())
    except (BadRequest, Unavailable):  # a key that cannot be decoded, or no topology yet
        assert asked(ROUTER, "GET", path).status == 401
        return
    if match.route.access is not Access.CLUSTER:
        is_open = page_path(path.encode()) in ("/health/live", "/health/ready")
        assert asked(ROUTER, "GET", path).status == (299 if is_open else 401)
    if not match.route.is_page:
        return
    try:
        rule, values = FLASK.url_map.bind("localhost").match(
            page_path(path.encode()), "GET", return_rule=True
        )
    except HTTPException:  # 404, or a redirect
        return
    if "store" in values and values["store"] in [each.name for each in VIEWS]:
        assert match.route.access is Access.READ
        assert match.name == values["store"]
    elif rule.endpoint == "metrics_text":
        assert match.route.access is Access.METRICS
    elif rule.endpoint in ("live", "ready"):
        assert match.route.access is Access.OPEN
    else:
        assert match.route.access is Access.ANY_SCOPE


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Basic dXNlcjpwYXNz")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer a b")],
        [(b"authorization", b"Bearer a,b")],
        [(b"authorization", b"")],
        [bearer("read:orders"), bearer("read:orders")],
    ],
)
def test_a_malformed_authorization_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    answer = asked(ROUTER, "GET", "/orders/k", *headers)
    assert answer.status == 401
    assert b'error="invalid_request"' in answer.headers[b"www-authenticate"]


@pytest.mark.slow
def test_the_name_of_the_scheme_has_no_case() -> None:
    of = token("read:orders").encode()
    for scheme in (b"bearer ", b"BEARER  "):
        assert asked(ROUTER, "GET", "/orders/k", (b"authorization", scheme + of)).status == 503


@pytest.mark.slow
def test_a_token_can_be_in_the_header_of_a_proxy() -> None:
    router = router_of(header=b"x-forwarded-access-token")
    of, name = token("read:orders").encode(), b"x-forwarded-access-token"
    assert asked(router, "GET", "/orders/k", (name, of)).status == 503
    assert asked(router, "GET", "/orders/k", (name, b"Bearer " + of)).status == 503
    assert asked(router, "GET", "/orders/k", (name, of), (name, of)).status == 401
    assert asked(router, "GET", "/orders/k", (name, token("admin").encode())).status == 403
    # what the client itself sends comes first
    assert asked(router, "GET", "/orders/k", (name, of), bearer("admin")).status == 403
    # other deployments ignore the header
    assert asked(ROUTER, "GET", "/orders/k", (name, of)).status == 401


def test_requests_of_the_cluster_need_no_token_where_any_scope_is_enough() -> None:
    router = router_of(is_from_cluster=lambda request: request.header(b"signed") is not None)
    signed = (b"signed", b"yes")
    assert asked(router, "GET", "/processors", signed).status == 299
    assert asked(router, "GET", "/orders/k", signed).status == 401
    assert asked(router, "GET", "/metrics", signed).status == 401


def test_a_rotated_key_is_refused_at_once() -> None:
    keys = Keys()
    router = router_of(keys)
    header = bearer("read:orders")
    assert asked(router, "GET", "/orders/k", header).status == 503
    keys.rotate(b"the next secret" * 3)
    assert asked(router, "GET", "/orders/k", header).status == 401


def test_the_hot_path_asks_for_verified_tokens_only() -> None:
    access = access_control()
    of = token("read:orders").encode()
    assert not access.may_read_now(None, "orders")
    assert not access.may_read_now(of, "orders")
    with pytest.raises(Unauthenticated):
        access.admit(Access.READ, [], "orders")
    access.admit(Access.READ, [(b"authorization", b"Bearer " + of)], "orders")
    assert access.may_read_now(of, "orders")
    assert not access.may_read_now(of, "windows")


def test_a_proxy_does_not_retry_while_keys_are_fetched() -> None:
    """Its budget of retries is for failed instances, and tokens with invented key ids cost
    nothing."""
    keys = Keys()

    def unavailable() -> None:
        raise RetryLater("keys-unavailable", "The keys are being fetched.")

    keys.on_use = unavailable
    router = router_of(keys)
    for headers, status in (((), 503), (((FINAL_STATUS, b"530"),), 530)):
        answer = asked(router, "GET", "/views/orders/keys", bearer("read:*"), *headers)
        assert answer.status == status
        assert json.loads(answer.body)["code"] == "keys-unavailable"
        assert answer.headers[b"retry-after"] == b"1"
        assert b"retry-elsewhere" not in answer.headers
