"""The route table, and the steps around every handler."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from backend.http.limits.gates import Gate
from backend.http.route_table import OTHER
from backend.http.router import Router
from backend.instance.context import InstanceContext
from backend.queries.point import ViewReads
from model.problems import Unavailable
from model.topology import Epoch, Topology
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import context

VIEWS = (ORDERS, view("windows", store="window"), view("versions", store="versioned"))
NAMES = {"{view}": "orders", "{path}": "/views/orders/keys", "{key}": "k", "{topic}": "t"}


async def flask(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def served() -> InstanceContext:
    return context(VIEWS, max_in_flight=1)


@pytest.fixture
def router(served: InstanceContext) -> Router:
    return Router(served, flask)


def path_of(pattern: str) -> str:
    more = {"{rest}": "more/of/it", "{instance}": "b1", "{group}": "shop", "{deployment}": "shop"}
    for name, value in {**NAMES, **more}.items():
        pattern = pattern.replace(name, value)
    return pattern


def asked(router: Router, method: str, path: str) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Any] = []
    scope = {
        "method": method, "raw_path": path.encode(), "path": path, "query_string": b"",
        "client": ("127.0.0.1", 1),
        "headers": [],
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(router(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], dict(sent[0]["headers"]), body


def test_each_route_matches_its_path(router: Router) -> None:
    for route in router.routes:
        match = router.match(path_of(route.pattern).encode())
        assert match is not None
        assert match.route is route, route.pattern


@pytest.mark.parametrize(
    ("text", "id_"),
    [
        (b"b1", "b1"),
        (b"[::1]-8081", "[::1]-8081"),
        (b"%5B%3A%3A1%5D-8081", "[::1]-8081"),
        (b"b%2F1", "b/1"),
        (b"%C3%BC%20b%2531", "ü b%31"),
    ],
)
def test_any_id_of_an_instance_is_matched(router: Router, text: bytes, id_: str) -> None:
    match = router.match(b"/admin/instances/" + text + b"/drain")
    assert match.route.pattern == "/admin/instances/{instance}/drain"
    assert match.more == {"instance": id_}


@pytest.mark.parametrize(
    "path",
    [b"/admin/instances/%ff/drain", b"/admin/instances//drain", b"/topics/%74/records",
     b"/admin/instances/a/b/drain"],
)  # fmt: skip
def test_names_that_are_not_text_or_no_topic_are_not_matched(router: Router, path: bytes) -> None:
    assert router.match(path).route.pattern == OTHER


def test_other_methods_are_refused_and_allow_lists_the_allowed_ones(router: Router) -> None:
    for route in router.routes:
        if route.pattern == OTHER:
            continue  # any method gets 404
        for method in {"GET", "HEAD", "POST", "PUT", "DELETE"} - set(route.methods):
            status, headers, body = asked(router, method, path_of(route.pattern))
            assert status == 405, route.pattern
            assert headers[b"allow"] == ", ".join(route.methods).encode()
            assert headers[b"topology-epoch"]
            if method != "HEAD":
                assert json.loads(body)["code"] == "method-not-allowed"


def test_flask_answers_its_pages_and_unknown_paths(router: Router) -> None:
    status, _, body = asked(router, "GET", "/views/nobody/keys")
    assert (status, json.loads(body)["code"]) == (503, "no-topology"), "others may declare it"
    router._context.group.apply_topology(Topology(Epoch(5, 1)))
    for path in ("/", "/views", "/views/orders", "/views/orders/", "/views/nobody/keys",
                 "/internal", "/internal/", "/topics/a/b/records", "/metrics"):  # fmt: skip
        status, headers, _ = asked(router, "GET", path)
        assert status == 418, path
        assert headers[b"topology-epoch"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_refused_reads_are_counted_for_their_view(
    router: Router, served: InstanceContext, method: str
) -> None:
    counts = served.telemetry.counts
    asked(router, method, "/orders/a")  # without a topology 503, or 405
    asked(router, method, "/views/versions/keys/a/windows")  # 404, or 405
    asked(router, method, "/views/orders/keys")  # not a read by key
    assert counts["orders"].unavailable == (method == "GET")
    assert counts["orders"].refused == (method == "POST")
    assert (counts["versions"].unavailable, counts["versions"].refused) == (0, 1)


def test_a_failing_handler_is_an_internal_error_and_leaves_its_gate(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ViewReads, "partition", lambda reads, key: 1 // 0)
    for _ in range(2):
        status, _, body = asked(router, "GET", "/orders/a")
        assert (status, json.loads(body)["code"]) == (500, "internal-error")


def test_a_gate_limits_concurrent_requests() -> None:
    gate = Gate("scans", 2)
    with gate:
        with gate, pytest.raises(Unavailable, match="Too many scans") as error, gate:
            pass
        assert error.value.code == "overloaded"
        with gate:
            pass
