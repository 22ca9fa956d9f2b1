"""Scans over all partitions of two instances, against a sorted dict."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backend.http.limits.gates import Gate
from backend.http.routes import views as view_routes
from backend.queries import page as pages
from backend.queries.scans import partition_scan as partition_scans
from backend.wire.scan import Query
from backend.wire.scan_codec import ROWS, ScanRequest, encode_request
from model.machine.clock import boot_time
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import NDJSON, PARTITIONS, World, numbered, world


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("shared"), ORDERS) as made:
        yield made


def lines(body: bytes) -> list[Any]:
    assert body.endswith(b"\n") or not body
    return [orjson.loads(line) for line in body.split(b"\n")[:-1]]


# Pages


def test_all_keys_of_all_partitions_in_order(orders: World) -> None:
    orders.put_all(numbered(250))
    assert len({orders.partition(key) for key in numbered(250)}) == PARTITIONS
    for instance in ("b1", "b2"):
        first, second, third = orders.pages("keys?order=asc", instance)
        assert [len(first), len(second), len(third)] == [100, 100, 50]
        assert [item["key"] for item in first + second + third] == [
            key.decode() for key in numbered(250)
        ]
        assert first[7] == {"key": "key-00007", "value": {"n": 7}}


def test_each_owner_is_asked_once_a_page(orders: World) -> None:
    orders.put_all(numbered(250))
    orders.ask("keys?limit=200")
    assert orders.peers.asked == [("b2", b"/internal/scan")]


def test_the_last_page_says_so(orders: World) -> None:
    orders.put_all(numbered(20))
    assert orders.ask("keys?limit=20").json["next"] is None
    assert orders.ask("keys?limit=19").json["next"] is not None
    assert list(orders.pages("keys?limit=19"))[1][0]["key"] == "key-00019"
    orders.clear()
    assert orders.ask("keys").json == {"items": [], "next": None}


def test_headers(orders: World) -> None:
    orders.put_all(numbered(9))
    headers = orders.ask("keys").named
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"served-by"] == b"b1; active, b2; active"
    assert (headers[b"lag"], headers[b"staleness"]) == (b"unknown", b"unknown")
    for partition, store_partition in orders.store_partitions.items():
        store_partition.progress.applied(100)
        store_partition.progress.end_fetched(100 + partition, boot_time() - (partition == 3) * 0.5)
    for instance in ("b1", "b2"):
        for target in ("keys", "count", "count?exact=true", "top?by=n"):
            headers = orders.ask(target, instance).named
            assert headers[b"lag"] == b"3", target
            assert headers[b"staleness"] == b"unknown", "partitions 1 to 3 never were at the end"
    for store_partition in orders.store_partitions.values():
        store_partition.progress.applied(103)
        store_partition.progress.end_fetched(
            103, boot_time() - (store_partition.partition == 3) * 0.5
        )
    headers = orders.ask("keys").named
    assert headers[b"lag"] == b"0"
    assert 500 <= int(headers[b"staleness"]) < 5000


actions = st.lists(
    st.tuples(st.integers(0, 30), st.booleans()), max_size=12
)  # key number; whether it is written or deleted


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sets(st.integers(0, 30)),
    st.lists(actions, max_size=8),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from(["b1", "b2"]),
)
def test_pages_while_records_come_in(
    shared: World,
    start: set[int],
    changes: list[list[tuple[int, bool]]],
    limit: int,
    backwards: bool,
    instance: str,
) -> None:
    """No key twice, none left out that was there all along, none that was never there."""
    shared.clear()

    def name(number: int) -> bytes:
        return b"\xc3\xa9\0%d" % number if number % 3 else b"k%d" % number

    shared.put_all({name(number): b"%d" % number for number in start})
    present, always, ever = set(start), set(start), set(start)
    order = "desc" if backwards else "asc"
    left = list(changes)
    seen: list[bytes] = []
    for items in shared.pages(f"keys?limit={limit}&order={order}", instance):
        assert len(items) <= limit
        seen += [item["key"].encode() for item in items]
        for number, is_written in left.pop(0) if left else []:
            shared.put(name(number), b"%d" % number if is_written else None)
            (present.add if is_written else present.discard)(number)
            always &= present
            ever |= present
    assert seen == sorted(seen, reverse=backwards)
    assert len(set(seen)) == len(seen)
    assert {name(number) for number in always} <= set(seen) <= {name(number) for number in ever}


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sets(st.text(alphabet="ab\0é\U0001f6e9", max_size=4), max_size=25),
    st.none() | st.text(alphabet="ab\0é", max_size=3),
    st.none() | st.text(alphabet="ab\0é", max_size=3),
    st.none() | st.text(alphabet="ab\0é", max_size=2),
    st.booleans(),
    st.integers(1, 9),
)
@example({"a", "b"}, "b", "a", None, False, 1)
def test_bounds_are_inclusive(
    shared: World,
    keys: set[str],
    first: str | None,
    last: str | None,
    prefix: str | None,
    backwards: bool,
    limit: int,
) -> None:
    shared.clear()
    shared.put_all({key.encode(): b"1" for key in keys})
    bounds = {"from": first, "to": last, "prefix": prefix}
    query = "".join(f"&{k}={quote(v, safe='')}" for k, v in bounds.items() if v is not None)
    found = [
        item["key"]
        for items in shared.pages(
            f"keys?limit={limit}&order={'desc' if backwards else 'asc'}{query}"
        )
        for item in items
    ]
    expected = [
        key
        for key in sorted(keys, key=str.encode, reverse=backwards)
        if (first is None or key.encode() >= first.encode())
        and (last is None or key.encode() <= last.encode())
        and (prefix is None or key.startswith(prefix))
    ]
    assert found == expected


def test_numbers_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    with world(tmp_path, view(key="int64", value="none")) as longs:
        numbers = [-(2**63), -500, -1, 0, 1, 255, 256, 2**63 - 1]
        longs.put_all({struct.pack(">q", n): b"" for n in numbers})
        assert [i["key"] for page in longs.pages("keys?limit=3") for i in page] == numbers
        [page] = longs.pages("keys?from=-500&to=255&order=desc")
        assert [item["key"] for item in page] == [255, 1, 0, -1, -500]
        assert longs.code("keys?prefix=1", 400) == "bad-parameter"
        assert longs.code("keys?from=x", 400) == "bad-parameter"


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("keys?form=a", "unknown-parameter"),
        ("keys?key_from=a", "unknown-parameter"),
        ("keys?exact=true", "unknown-parameter"),
        ("keys?from=a&from=b", "repeated-parameter"),
        ("keys?order=up", "bad-parameter"),
        ("keys?stale=maybe", "bad-parameter"),
        ("keys?limit=0", "bad-parameter"),
        ("keys?limit=1001", "bad-parameter"),
        ("keys?limit=-1", "bad-parameter"),
        ("keys?limit=%B2", "bad-parameter"),
        ("keys?limit=", "bad-parameter"),
        ("keys?cursor=", "cursor-invalid"),
        ("keys?cursor=AAAA", "cursor-invalid"),
        ("windows", "wrong-store"),
        ("sessions", "wrong-store"),
        ("count?exact=1", "bad-parameter"),
        ("count?limit=1", "unknown-parameter"),
        ("top", "bad-parameter"),
        ("top?by=%FF", "bad-parameter"),
        ("top?by=n&limit=1001", "bad-parameter"),
    ],
)
def test_what_is_refused(orders: World, target: str, code: str) -> None:
    assert orders.code(target, 400) == code
    if target.startswith("keys") and "1001" not in target:  # a stream may have more items
        assert orders.code(target, 400, accept=NDJSON) == code


def test_a_cursor_goes_on_with_its_own_question(orders: World) -> None:
    orders.put_all(numbered(30))
    cursor = orders.ask("keys?limit=5&from=key-00001").json["next"]
    again = f"cursor={cursor}&from=key-00001"
    assert orders.ask(f"keys?limit=7&{again}").json["items"][0]["key"] == "key-00006"
    assert orders.ask(f"keys?{again}", "b2").json["items"][0]["key"] == "key-00006"
    for other in (f"cursor={cursor}", f"{again}&to=z", f"{again}&order=desc", f"{again}&prefix=k"):
        assert orders.code(f"keys?{other}", 400) == "cursor-invalid"


def test_methods(orders: World) -> None:
    assert orders.code("keys", 405, method="PUT") == "method-not-allowed"
    assert orders.code("count", 405, method="POST") == "method-not-allowed"
    assert orders.code("batch", 405) == "method-not-allowed"
    assert orders.ask("keys", method="HEAD").status == 200


def test_large_values_make_short_pages(orders: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_scans, "PAGE_BYTES", 3000)
    orders.put_all({b"%03d" % n: b'"%b"' % (b"x" * 500) for n in range(60)})
    asked = list(orders.pages("keys?limit=1000"))
    assert [item["key"] for items in asked for item in items] == [f"{n:03}" for n in range(60)]
    part = asyncio.run(orders.request("b2", "POST", "/internal/scan", _rows(orders, [1, 3], 1000)))
    assert 3000 < len(part.body) < 5000


def _rows(made: World, partitions: list[int], limit: int) -> bytes:
    ask = ScanRequest(made.view.name, made.view.hash, PARTITIONS, ROWS, Query(), limit)
    return encode_request(ask, partitions, None)


def test_a_key_in_two_partitions_is_its_newest_record(orders: World) -> None:
    orders.put_all(numbered(40))
    key = b"key-00007"
    home = orders.partition(key)
    for elsewhere in range(PARTITIONS):
        if elsewhere != home:
            orders.put(key, b'{"n":%d}' % (900 + elsewhere), timestamp=3, partition=elsewhere)
    for store_partition in orders.store_partitions.values():
        store_partition.metadata = replace(store_partition.metadata, mispartitioned=1)
    for instance in ("b1", "b2"):
        for order in ("asc", "desc"):
            [items] = orders.pages(f"keys?order={order}", instance)
            assert len(items) == 40
            assert {"key": "key-00007", "value": {"n": 7}} in items
        assert orders.ask("count?exact=true", instance).json["count"] == 40
        top = orders.ask("top?by=n&limit=2", instance).json["items"]
        assert [item["value"]["n"] for item in top] == [39, 38]
    newer = (home + 1) % PARTITIONS
    orders.put(key, b'{"n":1000}', timestamp=8, partition=newer)
    for instance in ("b1", "b2"):
        [items] = orders.pages("keys", instance)
        assert items[7] == {"key": "key-00007", "value": {"n": 1000}}
        assert len(items) == 40
        top = orders.ask("top?by=n&limit=2", instance).json["items"]
        assert [item["value"]["n"] for item in top] == [1000, 39]


# Streams


@pytest.mark.slow
def test_a_stream_has_all_of_it(orders: World) -> None:
    orders.put_all(numbered(9000))
    for instance in ("b1", "b2"):
        said = orders.ask("keys", instance, accept=f"text/plain, {NDJSON};q=0.5")
        assert said.complete
        assert said.named[b"content-type"] == b"application/x-ndjson"
        assert lines(said.body) == [
            {"key": key.decode(), "value": orjson.loads(value)}
            for key, value in numbered(9000).items()
        ]
    said = orders.ask("keys?order=desc&limit=5", accept=NDJSON)
    assert said.complete
    assert [line["value"]["n"] for line in lines(said.body)] == [8999, 8998, 8997, 8996, 8995]
    orders.clear()
    said = orders.ask("keys", accept=NDJSON)
    assert (said.status, said.complete, said.body) == (200, True, b"")


def test_line_breaks_within_a_document(orders: World) -> None:
    orders.put(b"a", b'{\n "n": 1,\r\n "t": "a\\nb"\n}')
    orders.put(b"b", b"2")
    said = orders.ask("keys", accept=NDJSON)
    assert lines(said.body) == [
        {"key": "a", "value": {"n": 1, "t": "a\nb"}},
        {"key": "b", "value": 2},
    ]


def test_a_stream_that_fails_is_not_brought_to_its_end(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "STREAM_ROWS", 500)
    monkeypatch.setattr(view_routes, "_WRITE", 1000)
    orders.put_all(numbered(9000))

    def fail() -> None:
        orders.peers.down = {"b2"}

    said = orders.ask("keys", accept=NDJSON, on_chunk=fail)
    assert said.status == 200
    assert not said.complete
    got = [line["key"].encode() for line in lines(said.body)]
    assert 0 < len(got) < 9000
    assert got == list(numbered(9000))[: len(got)], "up to there nothing is left out"


def test_a_partition_that_moves_under_a_stream(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b1 takes over partition 3 with all that is in it."""
    monkeypatch.setattr(pages, "STREAM_ROWS", 300)
    monkeypatch.setattr(view_routes, "_WRITE", 1000)
    orders.put_all(numbered(5000))
    moved = False

    def move() -> None:
        nonlocal moved
        if not moved:
            moved = True
            orders.instances["b2"].context.store_partitions.remove(orders.store_partitions[3])
            orders.instances["b1"].context.store_partitions.add(orders.store_partitions[3])
            orders.place(0, 1, 0, 0)

    said = orders.ask("keys", "b2", accept=NDJSON, on_chunk=move)
    assert said.complete
    assert [line["key"].encode() for line in lines(said.body)] == list(numbered(5000))


def test_how_many_at_once(orders: World) -> None:
    routes = orders.routers["b1"].routes
    gate = next(route.gate for route in routes if route.pattern == "/views/{view}/keys")
    assert isinstance(gate, Gate)
    gate.limit, gate.patience = 1, 0.0
    orders.put_all(numbered(50))

    async def ask() -> list[Any]:
        asked = [orders.request("b1", "GET", "/views/orders/keys") for _ in range(2)]
        return list(await asyncio.gather(*asked))

    assert sorted(said.status for said in asyncio.run(ask())) == [200, 503]
    assert orders.ask("keys").status == 200


# What other instances ask


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff", b'{"view":1}'])
def test_garbage_from_another_instance(orders: World, body: bytes) -> None:
    for path in ("/internal/scan", "/internal/batch"):
        said = asyncio.run(orders.request("b1", "POST", path, body))
        assert said.status == 400, (path, said)
    assert asyncio.run(orders.request("b1", "GET", "/internal/scan")).status == 405


def test_streams_that_nobody_reads_leave_places_for_pages(orders: World) -> None:
    orders.put_all(numbered(50))
    lines = orders.routers["b1"]._views._streams
    with ExitStack() as others:
        for _ in range(lines.limit):
            others.enter_context(lines)
        assert orders.ask("keys", accept=NDJSON).status == 503
        assert orders.ask("keys").status == 200
    assert orders.ask("keys", accept=NDJSON).status == 200
