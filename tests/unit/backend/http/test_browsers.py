"""What the router does about browsers; the rules are in tests/unit/backend/security."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.http.limits.bodies import media_type
from backend.http.router import Router
from backend.wire.plain_requests import PlainPost, host_of_get, plain_get
from backend.wire.point_batch import Reads, encode_reads
from model.problems import ConfigurationError
from model.records import ENTRY
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import context
from tests.support.in_process.requests import LOOPBACK
from tests.support.in_process.world import PARTITIONS, Said, World, world
from tests.support.point_batch import Whole, decode_answers, whole_answers

APP = "https://app.example.com"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("browsers")
    settings = {"cors_origins": APP, "allowed_hosts": "q.example.com"}
    with world(folder, ORDERS, **settings) as one:
        one.put(b"a", b"1")
        yield one


def ask(made: World, method: str, path: str, body: bytes = b"", **headers: str) -> Said:
    answer = Said(0, [], b"")
    scope = {
        "method": method,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], message["headers"]
        else:
            answer.body += message["body"]

    asyncio.run(made.routers["b1"](scope, receive, send))
    return answer


@pytest.mark.parametrize("path", ["/orders/a", "/views/orders/count", "/no/such/path"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "evil.example:8081"}, "host-not-allowed"),
        ({"host": "localhost", "origin": "https://evil.example"}, "cross-site"),
        ({"host": "localhost", "sec-fetch-site": "cross-site"}, "cross-site"),
    ],
)
def test_every_path_refuses_other_sites(
    made: World, method: str, path: str, headers: dict[str, str], code: str
) -> None:
    answer = ask(made, method, path, **headers)
    assert (answer.status, answer.json["code"]) == (403, code)
    assert b"access-control-allow-origin" not in answer.named


def test_a_page_of_a_listed_origin_reads(made: World) -> None:
    for path in ("/orders/a", "/orders/missing"):
        answer = ask(made, "GET", path, host="q.example.com", origin=APP)
        assert answer.status in (200, 404)
        assert answer.named[b"access-control-allow-origin"] == APP.encode()
        varies = b", ".join(value for name, value in answer.headers if name == b"vary")
        assert b"origin" in varies
    refused = ask(made, "GET", "/orders/a/x", host="q.example.com", origin=APP)
    assert refused.json["code"] == "no-such-resource"
    assert refused.named[b"access-control-allow-origin"] == APP.encode(), "the page reads the code"


def test_a_preflight_needs_no_route_and_no_token(made: World) -> None:
    wanted = {"access_control_request_method": "POST"}
    answer = ask(made, "OPTIONS", "/topics/orders/records", host="localhost", origin=APP, **wanted)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.named[b"access-control-allow-origin"] == APP.encode()
    assert ask(made, "OPTIONS", "/orders/a", host="localhost", **wanted).status == 405


@pytest.mark.parametrize("path", ["/admin/instances/b1/drain", "/views/orders/switch"])
def test_a_page_of_a_listed_origin_cannot_send_commands(made: World, path: str) -> None:
    """Also without authentication, where every request has all scopes."""
    for host, origin in (("q.example.com", APP), ("127.0.0.1:8081", APP.upper())):
        headers = {"host": host, "origin": origin, "sec_fetch_site": "cross-site"}
        answer = ask(made, "POST", path, b"{}", **headers, content_type="application/json")
        assert (answer.status, answer.json["code"]) == (403, "cross-site")
        wanted = {"access_control_request_method": "POST"}
        answer = ask(made, "OPTIONS", path, **headers, **wanted)
        assert answer.status == 403
        assert b"access-control-allow-origin" not in answer.named
    for more in ({}, {"origin": "https://q.example.com"}):
        answer = ask(made, "POST", path, b"{}", host="q.example.com", **JSON, **more)
        assert answer.json.get("code") != "cross-site", "the server's own page, and programs"


def test_the_fast_path_leaves_requests_of_pages_to_the_router(made: World) -> None:
    request = b"GET /orders/a HTTP/1.1\r\nHost: localhost:1\r\n%b\r\n"
    for more in (
        b"", b"Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n",
        b"sec-fetch-site: none\r\n", b"Sec-Ch-Ua: x\r\n",
    ):  # fmt: skip
        assert plain_get(request % more) == (b"/orders/a", None)
    for more in (
        b"Origin: https://app.example.com\r\n", b"ORIGIN: null\r\n",
        b"Sec-Fetch-Site: cross-site\r\n", b"SEC-FETCH-SITE: cross-site\r\n",
        b"Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", b"Sec-Fetch-Site: x\r\n",
    ):  # fmt: skip
        assert plain_get(request % more) is None
    assert host_of_get(request % b"") == b"localhost:1"
    assert host_of_get(request.replace(b"Host", b"host") % b"A: b\r\n") == b"localhost:1"


def in_a_batch(made: World, owner: str, key: bytes) -> Whole | None:
    """The answer to the read of a key, as nginx sends it."""
    group = Reads(b"orders string murmur2 %d %d" % (PARTITIONS, made.partition(key)), [ENTRY + key])
    sent = PlainPost(None, encode_reads([], [group]))
    answer = made.routers[owner].fast_path.reads_now(sent, LOOPBACK)
    [whole] = whole_answers(decode_answers(answer.body, [group]).keys[0], [key])
    return whole


@pytest.mark.parametrize(("key", "vary"), [(b"a", b"accept, origin"), (b"missing", b"origin")])
def test_reads_vary_by_the_origin_in_one_line_also_without_one(
    made: World, key: bytes, vary: bytes
) -> None:
    """A cache must not give such an answer to a page."""
    path = b"/orders/" + key
    owner = "b2" if made.partition(key) % 2 else "b1"
    answers = [
        made.routers[owner].fast_path.answer_now(path),
        in_a_batch(made, owner, key),
        *(ask(made, "GET", path.decode(), host="localhost", **more)
          for more in ({}, {"origin": APP}, {"if_none_match": "*"})),
    ]  # fmt: skip
    for answer in answers:
        assert answer is not None
        assert [value for name, value in answer.headers if name == b"vary"] == [vary]


@pytest.mark.parametrize("path", ["batch", "search"])
@pytest.mark.parametrize(
    ("headers", "is_read"),
    [
        ({"content-type": "application/json"}, True),
        ({"content-type": "Application/JSON; charset=utf-8"}, True),
        ({}, False),
        ({"content-type": "text/plain"}, False),
        ({"content-type": "application/x-www-form-urlencoded"}, False),
        ({"content-type": "multipart/form-data; boundary=application/json"}, False),
        ({"content-type": "text/plain, application/json"}, False),
    ],
)
def test_a_body_must_be_json(
    made: World, path: str, headers: dict[str, str], is_read: bool
) -> None:
    body = json.dumps({"keys": ["a"]} if path == "batch" else {"query": "a"}).encode()
    answer = ask(made, "POST", f"/views/orders/{path}", body, **headers)
    if is_read:
        assert answer.status == 200
    else:
        assert (answer.status, answer.json["code"]) == (415, "unsupported-media-type")


def test_two_content_types_are_none(made: World) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-type", b"text/plain")]
    assert media_type(headers) == b""


@pytest.mark.parametrize("setting", ["allowed_hosts", "cors_origins"])
def test_an_invalid_list_ends_the_start(setting: str) -> None:
    with pytest.raises(ConfigurationError, match=f"QUERYABLE_{setting.upper()}"):
        Router(context(**{setting: "https://a/b"}), None)  # type: ignore[arg-type]
