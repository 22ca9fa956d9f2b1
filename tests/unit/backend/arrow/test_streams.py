"""Arrow streams of views with several owners, read by Arrow's own library."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.wire.scan import Query, ScanResponse
from backend.wire.scan_codec import COLUMNS, ScanRequest, encode_request
from model.rows.declared_fields import parse_declared_fields
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import NDJSON, Said, World, world
from tests.unit.backend.queries.test_whole_views import session_key, window_key
from tests.unit.backend.unreadable.applied import put

ARROW = "application/vnd.apache.arrow.stream"
FIELDS = {
    "dest": "string",
    "delay": "int?",
    "number": "long?",
    "weight": "double?",
    "price": "decimal(2)?",
    "late": "boolean?",
    "at": "time?",
    "seen": "time? ms",
    "crew": {"captain": "string?"},
    "tags": "strings?",
    "counts": "longs?",
    "more": "map?",
    "key": "any?",
}
DECLARED = replace(ORDERS, fields=parse_declared_fields(FIELDS))
FLIGHTS: dict[str, Any] = {
    "a": {"dest": "ATL", "delay": 61, "number": 2**63 - 1, "weight": 1, "price": 1.5, "late": True,
          "at": "2026-01-01T01:00:00.5+01:00", "seen": 1_000, "crew": {"captain": "Ada"},
          "tags": ["x", "y"], "counts": [1, 2], "more": {"a": "b"}, "key": 7},
    "b": {"dest": None, "delay": "61", "number": 2**63, "weight": "1", "price": "1.50", "late": 1,
          "at": "yesterday", "seen": "1000", "crew": "Ada", "tags": "x", "counts": ["1"],
          "more": [1], "key": None},
    "c": {},
}  # fmt: skip


def streamed(world: World, query: str = "", instance: str = "b1", **more: Any) -> Said:
    answer = world.ask(f"{world.view.kind.resource}{query}", instance, accept=ARROW, **more)
    assert answer.status == 200, answer.body
    assert answer.named[b"content-type"] == ARROW.encode()
    return answer


def read(body: bytes) -> tuple[pa.Table, dict[str, Any] | None]:
    """The rows, and what the end of the stream says about them; None if it was cut."""
    reader = pa.ipc.open_stream(body)
    batches, end = [], None
    while True:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return pa.Table.from_batches(batches, reader.schema), end
        batches.append(batch)
        if metadata is not None:
            end = json.loads(metadata[b"queryable.end"])


def rows_of(world: World, query: str = "", instance: str = "b1") -> list[dict[str, Any]]:
    """All rows, sorted by key; without the report of unreadable values if there is none."""
    answer = streamed(world, query, instance)
    table, end = read(answer.body)
    assert answer.complete
    assert end is not None
    assert end["rows"] == len(table)
    rows = sorted(table.to_pylist(), key=lambda row: str(row["key"]))
    if not any(row["unreadable"] for row in rows):
        for row in rows:
            del row["unreadable"]
    return rows


def test_each_declared_field_is_a_column_of_its_type(tmp_path: Path) -> None:
    with world(tmp_path, DECLARED) as made:
        made.put_all({key.encode(): json.dumps(row).encode() for key, row in FLIGHTS.items()})
        table, end = read(streamed(made).body)
        assert {field.name: str(field.type) for field in table.schema} == {
            "key": "string",
            "dest": "string",
            "delay": "int32",
            "number": "int64",
            "weight": "double",
            "price": "decimal128(38, 2)",
            "late": "bool",
            "at": "timestamp[us, tz=UTC]",
            "seen": "timestamp[us, tz=UTC]",
            "crew.captain": "string",
            "tags": "list<item: string>",
            "counts": "list<item: int64>",
            "more": "map<string, string>",
            "value.key": "string",
            "unreadable": "string",
        }
        assert end is not None
        assert list(end["positions"]) == ["0", "1", "2", "3"]
        for instance in ("b1", "b2"):
            first, *others = rows_of(made, instance=instance)
            assert first == {
                "key": "a", "dest": "ATL", "delay": 61, "number": 2**63 - 1, "weight": 1.0,
                "price": Decimal("1.50"), "late": True,
                "at": datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
                "seen": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "crew.captain": "Ada",
                "tags": ["x", "y"], "counts": [1, 2], "more": [("a", "b")], "value.key": "7",
            }  # fmt: skip
            nothing = {name: None for name in first if name != "key"}
            assert others == [{**nothing, "key": "b"}, {**nothing, "key": "c"}]


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**66), 2**66), st.text(max_size=4),
    st.floats(allow_nan=False, allow_infinity=False), st.lists(st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=examples(60))
@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("i", "s", "f", "o"), _VALUES)),
                max_size=30), st.integers(-3, 3))  # fmt: skip
def test_the_rows_are_those_of_ndjson(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], least: int
) -> None:
    """The types of columns are read here by Python alone."""
    declared = parse_declared_fields({"i": "long?", "s": "string?", "f": "double?"})
    with world(tmp_path_factory.mktemp("w"), replace(ORDERS, fields=declared)) as made:
        made.put_all({b"k%02d" % n: json.dumps(row).encode() for n, row in enumerate(rows)})
        where = quote(f"i >= {least}")
        lines = made.ask(f"keys?where={where}", accept=NDJSON).body.splitlines()
        expected = []
        for item in map(json.loads, lines):
            value = item["value"]
            f = value.get("f")
            other = value.get("o")
            expected.append(
                {
                    "key": item["key"],
                    "i": value["i"],
                    "f": float(f) if type(f) in (int, float) else None,
                    "s": value.get("s") if type(value.get("s")) is str else None,
                    "o": other,
                }
            )
        rows_read = rows_of(made, f"?where={where}&select=i,f,s,o")
        for row in rows_read:
            row["o"] = None if row["o"] is None else json.loads(row["o"])
        assert rows_read == expected


def test_a_view_without_declared_fields_has_its_values_as_text(orders: World) -> None:
    text = '{"a":1.10,"b":"\\u00e9 \u00e9","big":123456789012345678901234567890}'
    orders.put_all({b"k": text.encode(), b"n": b" null"})
    assert rows_of(orders) == [{"key": "k", "value": text}, {"key": "n", "value": " null"}]
    [row, _] = rows_of(orders, '?select=a,big,"odd.name",b&timestamps=true')
    assert row == {
        "key": "k",
        "record_timestamp": datetime(1970, 1, 1, 0, 0, 0, 7000, tzinfo=UTC),
        "a": "1.10",
        "big": "123456789012345678901234567890",
        "odd.name": None,
        "b": '"\\u00e9 \u00e9"',
    }


@pytest.mark.parametrize(
    ("format_", "keys"),
    [
        ("int32", {b"\0\0\0\7": 7, b"\xff\xff\xff\xff": -1}),
        ("int64", {b"\x7f" + b"\xff" * 7: 2**63 - 1}),
        ("float64", {b"\x3f\xf8" + bytes(6): 1.5, b"\x7f\xf0" + bytes(6): math.inf}),
        ("bytes", {b"\0\xff": b"\0\xff"}),
        ("json", {b'{"b": 1}': '{"b": 1}', b'"x"': '"x"'}),
        (
            "uuid",
            {b"3f1d4e9c-0000-4000-8000-000000000001": "3f1d4e9c-0000-4000-8000-000000000001"},
        ),
    ],
)
def test_keys_and_values_of_each_format(
    tmp_path: Path, format_: str, keys: dict[bytes, Any]
) -> None:
    with world(tmp_path, view(key=format_, value=format_)) as made:
        made.put_all({raw: raw for raw in keys})
        rows = rows_of(made)
        assert sorted(map(repr, keys.values())) == sorted(repr(row["key"]) for row in rows)
        assert all(row["key"] == row["value"] for row in rows)


def test_windows_and_sessions(tmp_path: Path) -> None:
    def at(ms: int) -> datetime:
        return datetime.fromtimestamp(ms / 1000, UTC)

    of = view(store="window", value="int64", window_size=10)  # type: ignore[arg-type]
    with world(tmp_path / "w", of) as made:
        made.put_all({window_key("k", 20): bytes(7) + b"\1", window_key("k", 30, 2): bytes(8)})
        assert rows_of(made, "?from=25") == [
            {"key": "k", "start": at(30), "end": at(40), "sequence": 2, "value": 0}
        ]
    with world(tmp_path / "s", view(store="session", value="string")) as made:
        made.put_all({session_key("k", 5, 1005): b"v"})
        assert rows_of(made) == [{"key": "k", "start": at(5), "end": at(1005), "value": "v"}]


def test_a_value_that_cannot_be_read_has_the_reason(tmp_path: Path) -> None:
    with world(tmp_path, DECLARED) as made:
        put(made, b"bad", b'{"dest":')
        put(made, b"good", b'{"dest":"ATL","tags":["x"]}')
        put(made, b"half", b'{"dest":"\\ud800","delay":5}')
        made.place(0, 1, 0, 1)
        bad, good, half = rows_of(made)
        [item] = made.ask("keys?to=bad").json["items"]
        assert bad["unreadable"] == item["unreadable"]["reason"]
        assert (bad["dest"], good["dest"], good["unreadable"]) == (None, "ATL", None)
        assert (half["dest"], half["delay"]) == (None, 5)
        assert half["unreadable"].startswith("dest: ")


def test_limits_and_partitions(orders: World) -> None:
    orders.put_all({b"%05d" % n: b"%d" % n for n in range(3000)})
    everything = [row["key"] for row in rows_of(orders)]
    assert everything == [f"{n:05d}" for n in range(3000)]
    for limit in (1, 2999, 3000, 3001):
        some = [row["key"] for row in rows_of(orders, f"?limit={limit}")]
        assert len(set(some)) == len(some) == min(limit, 3000)
    by_partition = [[row["key"] for row in rows_of(orders, f"?partition={n}")] for n in range(4)]
    assert sorted(itertools.chain(*by_partition)) == everything
    assert all(orders.partition(key.encode()) == n for n, of in enumerate(by_partition)
               for key in of)  # fmt: skip
    end = read(streamed(orders, "?partition=2").body)[1]
    assert end is not None
    assert list(end["positions"]) == ["2"]


@pytest.mark.parametrize("accept", [ARROW, NDJSON, "application/json"])
def test_how_a_stream_would_be_read(orders: World, accept: str) -> None:
    orders.put_all({b"%05d" % n: b"%d" % n for n in range(400)})
    whole, part = (
        orders.ask(f"keys?explain=true{more}", accept=accept).json for more in ("", "&partition=1")
    )
    assert (whole["plan"], whole["partitions"], part["partitions"]) == ("scan", 4, 1)
    assert 0 < part["entries"] < whole["entries"]


def test_a_stream_that_is_cut_has_no_end(orders: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's library reads it without an error."""
    orders.put_all({b"P%05d" % n: b'"%b"' % (b"x" * 500) for n in range(20_000)})
    ask, calls = type(orders.routers["b1"].scatter_gather).ask, 0

    async def failing(*args: Any, **more: Any) -> list[tuple[list[int], ScanResponse]]:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise RuntimeError("broken")
        return await ask(*args, **more)

    monkeypatch.setattr(type(orders.routers["b1"].scatter_gather), "ask", failing)
    answer = streamed(orders)
    table, end = read(answer.body)
    assert (answer.complete, end) == (False, None)
    assert 0 < len(table) < 20_000


def test_the_newest_row_of_a_key_in_several_partitions(tmp_path: Path) -> None:
    with world(tmp_path, DECLARED) as made:
        made.put(b"a", b'{"delay":1}', 1, partition=0)
        made.put(b"a", b'{"delay":2}', 2, partition=1)
        made.put(b"gone", b'{"delay":3}', 1, partition=2)
        made.place(0, 1, 0, 1, mispartitioned=True)
        assert [(row["key"], row["delay"]) for row in rows_of(made, "?limit=1")] == [("a", 2)]
        assert [row["key"] for row in rows_of(made, "?where=delay%3D1")] == []
        keys = [(row["key"], row["delay"]) for row in rows_of(made, "?select=delay", "b2")]
        assert keys == [("a", 2), ("gone", 3)]


def test_only_the_latest_version(tmp_path: Path) -> None:
    with world(tmp_path, view(store="versioned", value="int64")) as made:
        made.put(b"a", bytes(8), 1)
        made.put(b"a", bytes(7) + b"\5", 2)
        made.put(b"b", bytes(8), 1)
        made.put(b"b", None, 2)
        assert rows_of(made) == [{"key": "a", "value": 5}]


@pytest.mark.parametrize("query", ["?order=desc", "?select=", "?select=a,a", "?order_by=a",
                                   "?partition=4", "?where=nosuch(a)"])  # fmt: skip
def test_what_is_refused(orders: World, query: str) -> None:
    answer = orders.ask(f"keys{query}", accept=ARROW)
    assert (answer.status, answer.named[b"content-type"]) == (400, b"application/problem+json")


def test_an_empty_view_has_its_schema(tmp_path: Path) -> None:
    with world(tmp_path, DECLARED) as made:
        table, end = read(streamed(made).body)
        assert (len(table), end is not None and end["rows"]) == (0, 0)
        assert table.schema.names[:2] == ["key", "dest"]


def test_an_owner_that_cannot_answer(orders: World) -> None:
    orders.peers.down.add("b2")
    answer = orders.ask("keys", accept=ARROW)
    assert (answer.status, answer.json["code"]) == (503, "owner-unreachable")


@pytest.mark.parametrize("arguments", [{"timestamps": False, "schema": "other"}, {}])
def test_a_sender_whose_version_has_other_columns(
    orders: World, arguments: dict[str, str | bool]
) -> None:
    orders.put_all({b"%05d" % n: b"1" for n in range(10)})
    request = ScanRequest("orders", ORDERS.hash, 4, COLUMNS, Query(), 10, arguments)
    body = encode_request(request, [1], None)
    answer = asyncio.run(orders.request("b2", "POST", "/internal/scan", body))
    assert (answer.status, answer.json["code"]) == (400, "bad-request")


def test_without_arrows_library(orders: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing() -> bool:
        return False

    monkeypatch.setattr("backend.http.routes.views.can_load", missing)
    answer = orders.ask("keys", accept=ARROW)
    assert (answer.status, answer.json["code"]) == (406, "not-acceptable")
    assert "frames" in answer.json["detail"]
    assert orders.ask("keys").status == 200
