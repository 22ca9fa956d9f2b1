"""Slightly changed requests between instances: an answer or 400, without delay, never 500."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.cluster.heartbeats import Heartbeats
from backend.cluster.liveness import RUNNING, Heartbeat, PartitionReport
from backend.http.router import Router
from backend.http.routes.snapshots import SnapshotSender
from backend.queries.batch import BATCH_PATH
from backend.wire.scan import Query
from backend.wire.scan_codec import (
    ESTIMATE,
    ROW_KINDS,
    ROWS,
    ScanRequest,
    encode_request,
    pack,
)
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import context
from tests.support.in_process.world import World, numbered, world

quick = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
near = st.sampled_from(
    [-6, -1, 0, 1, 2**31, 2**63, "", "00", "01", "02", "zz", [], {}, [0, 0], [9]]
)


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("orders"), ORDERS) as made:
        made.put_all(numbered(300))
        yield made


def posted(made: World, target: str, body: bytes) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(made.request("b1", "POST", target, body), 20)

    return asyncio.run(bounded())


arguments: dict[str, dict[str, Any]] = {
    "count": {},
    "top": {"by": "n", "descending": True, "limit": 6},
}


@st.composite
def changed_questions(draw: st.DrawFn) -> bytes:
    what = draw(st.sampled_from((*ROW_KINDS, ESTIMATE, *arguments)))
    of_reducer = arguments.get(what, {})
    ask = ScanRequest("orders", ORDERS.hash, 4, what, Query(), 7, of_reducer)
    fields: dict[str, Any] = orjson.loads(encode_request(ask, [0], None))
    of = draw(st.sampled_from((fields, fields["query"], fields["arguments"])))
    name = draw(st.sampled_from([*of, "more"]))
    if draw(st.booleans()):
        of[name] = draw(near | json_values)
    else:
        of.pop(name, None)
    try:
        return orjson.dumps(fields)
    except TypeError:  # an integer that JSON parsers read differently
        return b"{}"


def test_the_unchanged_request_is_answered(orders: World) -> None:
    ask = ScanRequest("orders", ORDERS.hash, 4, ROWS, Query(), 7)
    assert posted(orders, "/internal/scan", encode_request(ask, [0], None)).status == 200


@given(changed_questions())
@quick
def test_malformed_scan_requests(orders: World, body: bytes) -> None:
    assert posted(orders, "/internal/scan", body).status in (200, 400), body


@given(st.binary(max_size=60), st.data())
@quick
def test_scan_requests_with_extra_bytes(orders: World, extra: bytes, data: st.DataObject) -> None:
    ask = ScanRequest("orders", ORDERS.hash, 4, ROWS, Query(), 7)
    whole = encode_request(ask, [0], None)
    at = data.draw(st.integers(0, len(whole)))
    body = whole[:at] + extra + whole[at + len(extra) // 2 :]
    assert posted(orders, "/internal/scan", body).status in (200, 400), body


keys = st.lists(st.binary(max_size=9) | st.just(b"k" * 8193), max_size=5)
views = st.sampled_from([b"orders", b"orders?stale=allow", b"orders?stale=x", b"o", b"\xff", b""])
hashes = st.sampled_from([ORDERS.hash.encode(), b"", b"\xff"])


@given(st.tuples(views, hashes, keys) | st.binary(max_size=40))
@quick
def test_malformed_batches(orders: World, of: Any) -> None:
    body = of if isinstance(of, bytes) else pack([of[0], of[1], *of[2]])
    answer = posted(orders, BATCH_PATH.decode(), body)
    differs = answer.status == 503 and answer.json["code"] == "definition-differs"
    assert differs or answer.status in (200, 400, 414), body


def test_a_batch_of_too_many_keys_is_refused(orders: World) -> None:
    many = pack([b"orders", ORDERS.hash.encode(), *[b"k"] * 1001])
    assert posted(orders, BATCH_PATH.decode(), many).status == 400
    assert posted(orders, BATCH_PATH.decode(), b"\xff" * 4 + bytes(4_000_000)).status == 400


@given(json_values)
def test_malformed_heartbeats_and_copies(text: Any) -> None:
    here = context()
    try:
        body = orjson.dumps(text)
    except TypeError:
        return
    heard = Heartbeat.decode(body)
    assert heard is None or Heartbeat.decode(heard.encode()) == heard
    assert Heartbeats(here, None, 1.0).answer(body).status == 403  # type: ignore[arg-type]
    for more in (text, {"view": text, "hash": text, "partition": text},
                 {"view": "orders", "hash": ORDERS.hash, "partition": text}):  # fmt: skip
        refused = asyncio.run(
            SnapshotSender(here).answer(orjson.dumps(more), None)  # type: ignore[arg-type]
        )
        assert refused is not None
        assert refused.status in (400, 503)


def test_a_heartbeat_with_an_infinite_time_is_refused() -> None:
    assert Heartbeat.decode(b'["g","b2","b1","running",1e999]') is None
    report = PartitionReport("5-1", {"orders": (0, 7)})
    whole = Heartbeat("g", "b2", "b1", RUNNING, 7, asks_for_report=True, report=report)
    assert Heartbeat.decode(whole.encode()) == whole


@pytest.mark.parametrize("path", [b"/internal/heartbeat", b"/internal/copy", b"/internal/topology"])
def test_a_body_that_is_too_large_is_refused(path: bytes) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(5000), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        shell = Router(context(), None)  # type: ignore[arg-type]
        scope = {"type": "http", "raw_path": path, "method": "POST", "headers": [],
                 "client": ("127.0.0.1", 1)}  # fmt: skip
        try:
            await shell({**scope, "query_string": b""}, receive, send)
        finally:
            await shell.stop()

    asyncio.run(ask())
    assert sent[0]["status"] == 400
    assert orjson.loads(sent[1]["body"])["code"] == "body-too-large"
