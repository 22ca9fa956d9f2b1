"""Answers of statements are those that sqlite gives to the same statements."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.rows.declared_fields import parse_declared_fields
from model.views import View
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.tokens import access_control, token
from tests.support.in_process.world import NDJSON, Said, World, world

ROWS: dict[str, dict[str, Any]] = {
    "N1": {"origin": "EWR", "dest": "ATL", "delay": 61, "price": 1.5},
    "N2": {"origin": "EWR", "dest": "ATL", "delay": -3, "price": 2.25},
    "N3": {"origin": "JFK", "dest": "ATL", "delay": None, "price": 0.5},
    "N4": {"origin": "JFK", "dest": "O'Hare", "delay": 7, "price": None},
    "N5": {"origin": None, "dest": "O'Hare", "delay": 7},
    "N6": {"origin": None, "dest": None, "delay": 9007199254740993, "price": 100.0},
    "N7": {"origin": "LGA", "dest": "SEA", "delay": None, "price": None},
}
FIELDS = {"origin": "string?", "dest": "string?", "delay": "long?", "price": "double?"}
DECLARED = replace(ORDERS, fields=parse_declared_fields(FIELDS))
CASES = (
    "select key from orders",
    "select key, delay from orders where dest = 'ATL'",
    "select dest, key from orders where delay > 6 order by key desc",
    "select key as k, delay d from orders order by k",
    "select key from orders where dest like 'O''%'",
    "select key from orders where dest is null or origin is null",
    "select key from orders where dest in ('ATL', 'SEA') limit 2",
    "select key from orders where not (delay > 6)",
    "select key, price from orders where price between 1 and 2.25",
    "select o.key, o.delay from orders as o where o.delay = 9007199254740993",
    "select key from orders where delay / 2 = 3",
    "select key from orders where delay in (7, 61) and price is not null",
    "select key from orders limit 0",
    "select key from orders where 1 = 2",
    "select count(*) from orders",
    "select count(*) n, count(delay), count(dest) from orders",
    "select count(*), sum(delay), min(delay), max(delay) from orders where dest = 'none'",
    "select sum(delay), avg(price), min(price), max(price) from orders where delay < 100",
    "select dest, count(*) from orders group by dest",
    "select dest d, origin, count(*) from orders group by 1, origin order by 1, 2",
    "select dest as d, count(*) from orders group by d order by d",
    "select dest, count(*) n from orders group by dest order by n desc, dest",
    "select count(*), dest from orders group by dest order by 1, 2 desc",
    "select dest, origin, count(price) from orders group by dest, origin order by 1, 2",
    "select dest, sum(delay) s from orders where delay < 100 group by dest order by s, dest",
    "select origin, avg(delay), avg(price) from orders where delay < 99 group by origin "
    "order by origin",
    "select dest, max(price) m from orders group by dest order by m desc nulls last, dest desc",
    "select dest, max(price) m from orders group by dest order by m nulls first, dest",
    "select dest, max(price) m from orders group by dest order by m desc nulls first, dest",
    "select dest, max(price) m from orders group by dest order by m nulls last, dest limit 2",
    "select dest from orders group by dest order by dest desc nulls last limit 1",
    "select origin from orders where dest = 'none' group by origin",
    "select key, count(*) from orders where delay = 7 group by key order by key",
    "select sum(price) from orders",
)
COLUMNS = ("origin", "dest", "delay", "price")


def table() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("pragma case_sensitive_like = on")
    database.execute(
        "create table orders (key text, origin text, dest text, delay int, price real)"
    )
    database.executemany(
        "insert into orders values (?, ?, ?, ?, ?)",
        [(key, *map(row.get, COLUMNS)) for key, row in ROWS.items()],
    )
    return database


def seeded(folder: Path, of: View) -> Iterator[World]:
    with world(folder, of) as made:
        made.put_all({key.encode(): json.dumps(row).encode() for key, row in ROWS.items()})
        yield made


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    yield from seeded(tmp_path, DECLARED)


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For tests that change nothing."""
    yield from seeded(tmp_path_factory.mktemp("declared"), DECLARED)


def said(
    of: World, query: str, *parameters: Any, instance: str = "b1", accept: str = "*/*", **more: Any
) -> Said:
    body = json.dumps({"query": query, "parameters": parameters, **more}).encode()
    return asyncio.run(of.request(instance, "POST", "/sql", body, accept))


def rows_of(of: World, query: str, *parameters: Any, **more: Any) -> list[dict[str, Any]]:
    answer = said(of, query, *parameters, **more)
    assert answer.status == 200, answer.body
    items: list[dict[str, Any]] = answer.json["items"]
    return items


@pytest.mark.parametrize("query", CASES)
def test_an_answer_is_that_of_sqlite(declared: World, query: str) -> None:
    found = table().execute(query)
    expected = [list(row) for row in found]
    for instance in ("b1", "b2"):
        rows = rows_of(declared, query, instance=instance)
        assert [list(row.values()) for row in rows] == expected
        lines = said(declared, query, instance=instance, accept=NDJSON)
        assert lines.named[b"content-type"] == NDJSON.encode()
        assert [list(json.loads(line).values()) for line in lines.body.splitlines()] == expected


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("select key from orders where dest = ? and delay > ?", ("O'Hare", 6.5)),
        ("select key from orders where delay = ? or price = ?", (-3, 100.0)),
        ("select key from orders where dest = ? limit ?", ("ATL", 2)),
        ("select key from orders where dest = ?", ("' or 1 = 1 or dest = '",)),
        ("select key from orders where dest = ?", ("?",)),
        ("select key from orders where dest > ?", ("\\'",)),
    ],
)
def test_parameters_are_values(declared: World, query: str, parameters: tuple[Any, ...]) -> None:
    expected = [key for (key,) in table().execute(query, parameters)]
    assert [row["key"] for row in rows_of(declared, query, *parameters)] == expected


def test_a_list_is_a_parameter(orders: World) -> None:
    query = "select key from orders where delay in ? and key like ?"
    assert rows_of(orders, query, [7, 61], "N%") == [{"key": k} for k in ("N1", "N4", "N5")]


condition = st.sampled_from(
    ["delay > 6", "dest = 'ATL'", "origin is null", "price < 2", "not dest = 'SEA'", "key > 'N3'"]
)
aggregate = st.sampled_from(
    ["count(*)", "count(price)", "count(dest)", "sum(delay)", "min(price)", "max(delay)"]
)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(condition, max_size=2),
    st.lists(st.sampled_from(["dest", "origin", "delay"]), unique=True, max_size=2),
    st.lists(aggregate, min_size=1, max_size=3, unique=True),
    st.booleans(),
)
def test_groups_are_those_of_sqlite(
    shared: World, conditions: list[str], by: list[str], aggregates: list[str], descending: bool
) -> None:
    order = [f"{each} {'desc' if descending else 'asc'}" for each in (*aggregates, *by)]
    query = f"select {', '.join([*aggregates, *by])} from orders"
    if conditions:
        query += f" where {' and '.join(conditions)}"
    if by:
        query += f" group by {', '.join(by)}"
    query += f" order by {', '.join(order)}"
    expected = [list(row) for row in table().execute(query)]
    assert [list(row.values()) for row in rows_of(shared, query)] == expected


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from seeded(tmp_path_factory.mktemp("sql"), ORDERS)


def test_all_columns(orders: World) -> None:
    orders.put(b"X", b'{"key":"own","deep":{"a":[1,2]},"big":123456789012345678901234567890}')
    assert rows_of(orders, "select * from orders where key = 'N1'") == [{"key": "N1", **ROWS["N1"]}]
    [row] = rows_of(orders, "select * from orders where key = 'X'")
    assert (row["key"], row["value.key"], row["deep"]) == ("X", "own", {"a": [1, 2]})
    assert (
        b'"big":123456789012345678901234567890'
        in said(orders, "select big from orders where key = 'X'").body
    )


def test_a_field_is_no_report_of_an_unreadable_value(orders: World) -> None:
    orders.put(b"X", b'{"unreadable":1,"a":2}')
    [row] = rows_of(orders, "select * from orders where key = 'X'")
    assert row == {"key": "X", "value.unreadable": 1, "a": 2}


def test_parts_of_entries(orders: World) -> None:
    orders.put(b"X", b'{"key":"own","a":{"b c":1},"b":2}', timestamp=99)
    query = (
        'select key, value.key, a."b c" as deep, record_timestamp, value from orders '
        "where key = 'X'"
    )
    assert rows_of(orders, query) == [
        {
            "key": "X",
            "value.key": "own",
            "deep": 1,
            "record_timestamp": 99,
            "value": {"key": "own", "a": {"b c": 1}, "b": 2},
        }
    ]


def test_fields_that_are_named_like_times(orders: World) -> None:
    orders.put(b"X", b'{"start":5,"end":{"x":1},"record_timestamp":{"y":2}}', timestamp=99)
    query = (
        'select start, "end".x as x, record_timestamp.y as y, value.start as s, record_timestamp '
        "from orders where start = 5"
    )
    expected = {"start": 5, "x": 1, "y": 2, "s": 5, "record_timestamp": 99}
    assert rows_of(orders, query) == [expected]
    assert [json.loads(said(orders, query, accept=NDJSON).body)] == [expected]
    assert rows_of(orders, "select start, count(*) n from orders where start = 5 group by start")


def test_fields_of_windows_that_are_named_like_times(tmp_path: Path) -> None:
    with world(tmp_path, view(store="window", window_size=1000)) as made:
        made.put(b"a" + struct.pack(">qi", 1000, 0), b'{"start":{"x":1},"end":7}')
        query = 'select start, "end", start.x as x, value.start as s, value."end" as e from orders'
        expected = {"start": 1000, "end": 2000, "x": 1, "s": {"x": 1}, "e": 7}
        assert rows_of(made, query) == [expected]


def test_groups_in_the_order_of_infinite_numbers(tmp_path: Path) -> None:
    numbers = {b"a": 1.5, b"b": math.inf, b"c": -math.inf, b"d": 10.0}
    with world(tmp_path, view(value="float64")) as made:
        made.put_all({key: struct.pack(">d", number) for key, number in numbers.items()})
        query = "select key, max(value) m from orders group by key order by m"
        expected = sorted(numbers, key=numbers.__getitem__)
        assert [row["key"].encode() for row in rows_of(made, query)] == expected
        rows = rows_of(made, f"{query} desc")
        assert [row["key"].encode() for row in rows] == expected[::-1]


def test_a_plan_is_explained_with_any_limit_and_form(orders: World) -> None:
    for accept in ("*/*", NDJSON):
        answer = said(orders, "select key from orders limit 5000", explain=True, accept=accept)
        assert (answer.status, answer.json["plan"]) == (200, "scan")


def test_values_that_are_numbers(tmp_path: Path) -> None:
    with world(tmp_path, view(value="int64")) as made:
        made.put_all({key: n.to_bytes(8, "big") for n, key in enumerate((b"a", b"b", b"c"), 1)})
        assert rows_of(made, "select key, value from orders where value > 1") == [
            {"key": "b", "value": 2},
            {"key": "c", "value": 3},
        ]
        assert rows_of(made, "select * from orders limit 1") == [{"key": "a", "value": 1}]
        assert rows_of(made, "select sum(value), count(*) from orders") == [
            {"sum(value)": 6, "count(*)": 3}
        ]


def test_windows_by_their_start(tmp_path: Path) -> None:
    with world(tmp_path, view(store="window", window_size=1000, value="int64")) as made:
        for key, start, number in ((b"a", 0, 1), (b"b", 0, 2), (b"a", 1000, 4)):
            made.put(key + struct.pack(">qi", start, 0), number.to_bytes(8, "big"))
        assert rows_of(
            made, 'select start, "end", sum(value) s from orders group by start, "end" order by 1'
        ) == [{"start": 0, "end": 1000, "s": 3}, {"start": 1000, "end": 2000, "s": 4}]
        assert rows_of(made, "select key, start, value from orders where key = 'a'") == [
            {"key": "a", "start": 0, "value": 1},
            {"key": "a", "start": 1000, "value": 4},
        ]


def test_pages_go_on_until_the_limit(orders: World) -> None:
    orders.put_all({b"P%05d" % n: b'{"n":%d}' % n for n in range(2500)})
    query = "select n from orders where key like 'P%' limit 2100"
    found: list[int] = []
    sizes = []
    cursor: dict[str, Any] = {}
    while True:
        answer = said(orders, query, **cursor).json
        sizes.append(len(answer["items"]))
        found += [row["n"] for row in answer["items"]]
        if answer["next"] is None:
            break
        cursor = {"cursor": answer["next"]}
    assert found == list(range(2100))
    assert sizes == [1000, 1000, 100]
    lines = said(orders, query, accept=NDJSON).body.splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(2100))
    other = said(orders, "select n from orders limit 5", **cursor)
    assert (other.status, other.json["code"]) == (400, "cursor-invalid")


def test_a_stream_that_is_cut_is_not_whole(orders: World, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.put_all({b"P%05d" % n: b'{"n":%d,"x":"%b"}' % (n, b"x" * 500) for n in range(5000)})
    calls = 0
    walk = type(orders.routers["b1"].scatter_gather).rows

    async def rows(*args: Any, **more: Any) -> Any:
        nonlocal calls
        async for each in walk(*args, **more):
            calls += 1
            if calls == 3:
                raise RuntimeError("broken")
            yield each

    monkeypatch.setattr(type(orders.routers["b1"].scatter_gather), "rows", rows)
    answer = said(orders, "select n, x from orders", accept=NDJSON)
    assert (answer.status, answer.complete) == (200, False)
    assert answer.body


@pytest.mark.parametrize(
    ("query", "code", "status"),
    [
        ("selec key from orders", "sql-unsupported", 400),
        ("select key from orders where nosuch(delay) > 1", "bad-parameter", 400),
        ("select delay from orders order by delay", "no-index", 400),
        ("select key from orders order by key nulls last", "sql-unsupported", 400),
        ("select key from orders order by record_timestamp", "sql-unsupported", 400),
        ("select delay from orders order by delay, dest", "sql-unsupported", 400),
        ("select max(dest) from orders", "bad-parameter", 400),
        ("select sum(key) from orders", "bad-parameter", 400),
        ("select key from orders where delay > 'x'", "bad-parameter", 400),
    ],
)
def test_requests_that_are_refused(declared: World, query: str, code: str, status: int) -> None:
    answer = said(declared, query)
    assert (answer.status, answer.json["code"]) == (status, code), answer.body


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"query":1}', b'{"query":"select key from orders","a":1}']
)
def test_bodies_that_are_refused(declared: World, body: bytes) -> None:
    answer = asyncio.run(declared.request("b1", "POST", "/sql", body))
    assert answer.status == 400, answer.body
    assert answer.json["code"] == "bad-request"


@pytest.mark.parametrize(
    ("scopes", "status"),
    [
        (None, 401),
        (("read:prices",), 403),
        (("read:orders",), 200),
        (("read:*",), 200),
        (("append:orders",), 403),
    ],
)
@pytest.mark.parametrize("query", ["select key from orders", "select count(*) from orders"])
def test_the_scope_is_that_of_the_view(
    tmp_path: Path, query: str, scopes: tuple[str, ...] | None, status: int
) -> None:
    with world(tmp_path, ORDERS, access_control()) as made:
        made.put(b"k", b"{}")
        headers = (
            [] if scopes is None else [(b"authorization", b"Bearer " + token(*scopes).encode())]
        )
        body = json.dumps({"query": query}).encode()
        for accept in ("*/*", NDJSON):
            request = made.request("b1", "POST", "/sql", body, accept, headers=headers)
            answer = asyncio.run(request)
            assert answer.status == status, answer.body
            assert (b"www-authenticate" in answer.named) == (status != 200)


def test_what_is_undecided_is_unavailable(orders: World) -> None:
    orders.peers.down.add("b2")
    for query in ("select key from orders", "select count(*) from orders"):
        for accept in ("*/*", NDJSON):
            answer = said(orders, query, accept=accept)
            assert (answer.status, answer.json["code"]) == (503, "owner-unreachable")
            assert b"retry-after" in answer.named


def test_only_posts_of_json_are_statements(orders: World) -> None:
    assert asyncio.run(orders.request("b1", "GET", "/sql")).status == 405
    long = said(orders, "select key from orders where key in ?", ["x" * 900, "y" * 900, "z" * 900])
    assert (long.status, long.json["code"]) == (400, "bad-parameter")


def test_headers_and_the_plan_are_those_of_the_views_path(orders: World) -> None:
    answer = said(orders, "select key from orders where key = 'N1'", offsets=True)
    assert (answer.named[b"plan"], answer.named[b"examined"]) == (b"key", b"1")
    assert {b"offsets", b"lag"} <= answer.named.keys()
    names = [name for name, _ in answer.headers]
    assert len(names) == len(set(names))
    explained = said(orders, "select key from orders where delay > 3", explain=True)
    assert explained.json["plan"] == "scan"
    stopped = said(orders, "select count(*) from orders where delay > 3", max_examined=1)
    assert (stopped.status, stopped.json["code"]) == (400, "too-many-entries")
