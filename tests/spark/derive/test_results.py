"""Derived views, compared with plain Python, and as streams with themselves as batches."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from model.formats.registry import KEY_CODECS
from model.kinds.session import SessionLayout
from model.kinds.window import WindowLayout
from tests.spark.derive.support import START, Raw, collected, frame, raw, streamed, table, view_of

FIELDS = """\
from = "orders"
fields = { id = "string", shop = "string", at = "time", items = "int 0..9", price = "decimal(2)?" }
"""

Line = dict[str, Any]


def orders(count: int = 400) -> list[Line]:
    random = Random(3)
    return [
        {
            "id": f"{number % (count - 20)}",
            "shop": f"s{random.randrange(4)}",
            "at": clock(START + 60 * random.randrange(240)),
            "items": random.randrange(5),
            "price": random.choice([None, 0, 1.5, 12.34, 0.1, 99999.99]),
        }
        for number in range(count)
    ]


def clock(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def records(lines: list[Line]) -> list[Raw]:
    return [raw(line, seconds(line)) for line in lines]


def seconds(line: Line) -> int:
    return round(datetime.fromisoformat(line["at"]).timestamp())


def cents(line: Line) -> int | None:
    return None if line["price"] is None else round(100 * line["price"])


ALL = f"""\
[views.shops.derive]
{FIELDS}
key = "shop"
latest = "at"
select = ["id", "items", "at"]
count = {{ orders = true, large = "items > 3" }}
sum = {{ items = "items", turnover = "price" }}
min = {{ first = "at", cheapest = "price" }}
max = {{ most = "items * 2", last_id = "id" }}
avg = {{ mean = "items", mean_price = "price" }}
distinct = {{ ids = "id" }}
top_k = {{ k = 3, by = "price" }}
"""


def all_of(lines: list[Line]) -> Line:
    prices = [price for price in map(cents, lines) if price is not None]
    rank = {id(line): (line["at"], line["id"], line["items"]) for line in lines}
    newest = max(lines, key=lambda line: rank[id(line)])
    top = sorted(
        lines,
        key=lambda line: (-1 if cents(line) is None else cents(line), line["id"], line["items"],
                          line["at"]),
        reverse=True,
    )  # fmt: skip
    selected = [{name: line[name] for name in ("id", "items", "at")} for line in (newest, *top)]
    return {
        "latest": selected[0],
        "orders": len(lines),
        "large": sum(line["items"] > 3 for line in lines),
        "items": sum(line["items"] for line in lines),
        "turnover": sum(prices) / 100,
        "first": min(line["at"] for line in lines),
        "cheapest": min(prices) / 100,
        "most": 2 * max(line["items"] for line in lines),
        "last_id": max(line["id"] for line in lines),
        "mean": sum(line["items"] for line in lines) / len(lines),
        "mean_price": (sum(prices) / 100) / len(prices),
        "ids": len({line["id"] for line in lines}),
        "top_k": selected[1:4],
    }


def by_shop(lines: list[Line]) -> dict[str, list[Line]]:
    shops = defaultdict(list)
    for line in lines:
        shops[line["shop"]].append(line)
    return shops


def test_all_aggregates(session: SparkSession, tmp_path: Path) -> None:
    view, lines = view_of(ALL), orders()
    found = table(view.result(frame(session, records(lines))).collect())
    shops = {key.decode(): json.loads(value) for key, value in found.items()}
    for shop, wanted in ((shop, all_of(lines)) for shop, lines in by_shop(lines).items()):
        estimate = shops[shop].pop("ids")
        assert abs(estimate - wanted.pop("ids")) <= 2
        assert shops[shop] == wanted
    parts = [records(lines[part::3]) for part in range(3)]
    assert streamed(session, view, parts, tmp_path) == found


def test_an_estimate_does_not_depend_on_the_order(session: SparkSession) -> None:
    """Of many values, when sketches are no longer exact."""
    view = view_of(
        '[views.x.derive]\nfrom = "t"\nfields = { n = "long" }\nkey = "mod(n, 2)"\ndistinct = "n"'
    )
    results = set()
    for parts in (1, 7):
        rows = session.range(40_000).toDF("n").repartition(parts)
        found = table(view.derive(rows).collect())
        estimates = [int.from_bytes(each, "big") for each in found.values()]
        assert all(abs(each - 20_000) < 1600 for each in estimates), estimates
        results.add(tuple(sorted(found.items())))
    assert len(results) == 1


def test_hopping_windows_without_duplicates(session: SparkSession, tmp_path: Path) -> None:
    text = f"""\
[views.orders-per-hour.derive]
{FIELDS}
identity = ["id", "shop", "at", "items"]
time = "at"
lateness = "1m"
window = "1h"
advance = "20m"
key = ["shop", "mod(items, 2)"]
sum = "items"
"""
    view, lines = view_of(text), orders()
    late = raw(lines[0], seconds(lines[0]) + 61)
    twice = [*records(lines), *records(lines[:50]), late]
    wanted: dict[tuple[str, int], int] = defaultdict(int)
    unique = {(line["id"], line["shop"], line["at"], line["items"]) for line in lines}
    for _, shop, at, items in unique:
        time = round(datetime.fromisoformat(at).timestamp())
        for start in range(time - time % 1200 - 2400, time + 1, 1200):
            wanted[f"{shop}|{items % 2}", start * 1000] += items
    found = table(view.result(frame(session, twice)).collect())
    layout = WindowLayout(KEY_CODECS["string"])
    entries = {layout.entry_key(layout.stored_key(key)): value for key, value in found.items()}
    assert {
        (entry.key.decode(), entry.start): int.from_bytes(value, "big")
        for entry, value in entries.items()
    } == wanted
    [rejected] = view.rejected(frame(session, twice)).collect()
    assert rejected["reason"].startswith("at: late: more than 60 s before")
    parts = [twice[part::2] for part in range(2)]
    assert streamed(session, view, parts, tmp_path) == found


def test_sessions(session: SparkSession, tmp_path: Path) -> None:
    text = f"""\
[views.rushes.derive]
{FIELDS}
session = "2m"
where = "items > 0"
key = "shop"
count = {{ orders = true, large = "items > 3" }}
sum = {{ cents = "items * 9000000000000000" }}
max = {{ most = "items" }}
avg = {{ mean = "items" }}
"""
    view, lines = view_of(text), orders()
    wanted = {}
    for shop, of_shop in by_shop([line for line in lines if line["items"]]).items():
        rush: list[Line] = []
        for line in [*sorted(of_shop, key=seconds), None]:
            if rush and (line is None or seconds(line) - seconds(rush[-1]) > 120):
                items = [each["items"] for each in rush]
                wanted[shop, seconds(rush[0]) * 1000, seconds(rush[-1]) * 1000] = {
                    "orders": len(items),
                    "large": sum(each > 3 for each in items),
                    "cents": min(9_000_000_000_000_000 * sum(items), 2**63 - 1),
                    "most": max(items),
                    "mean": sum(items) / len(items),
                }
                rush = []
            if line is not None:
                rush.append(line)
    found = table(view.result(frame(session, records(lines))).collect())
    layout = SessionLayout(KEY_CODECS["string"])
    entries = {layout.entry_key(layout.stored_key(key)): value for key, value in found.items()}
    assert {
        (entry.key.decode(), entry.start, entry.end): json.loads(value)
        for entry, value in entries.items()
    } == wanted
    parts = [records(lines[part::3]) for part in range(3)]
    assert streamed(session, view, parts, tmp_path) == found


def test_points_in_time_with_a_computed_time(session: SparkSession, tmp_path: Path) -> None:
    text = f"""\
[views.x.derive]
{FIELDS}
where = "price is not null and shop <> 's3'"
identity = ["id", "at", "items", "shop", "price"]
time = "timestamp_seconds(unix_seconds(at) + 60 * items)"
lateness = "0s"
earliness = "3m"
key = "shop"
points = true
count = true
"""
    view, lines = view_of(text), orders(200)
    counted = [line for line in lines if line["price"] is not None and line["shop"] != "s3"]
    wanted: dict[tuple[str, int], int] = defaultdict(int)
    for line in {json.dumps(line): line for line in counted if line["items"] < 4}.values():
        wanted[line["shop"], 1000 * (seconds(line) + 60 * line["items"])] += 1
    late = [raw(line, seconds(line) + 1) for line in counted if line["items"] == 0]
    given = [*records(lines), *late]
    found = table(view.result(frame(session, given)).collect())
    layout = WindowLayout(KEY_CODECS["string"])
    entries = {layout.entry_key(layout.stored_key(key)): value for key, value in found.items()}
    assert {
        (entry.key.decode(), entry.start): int.from_bytes(value, "big")
        for entry, value in entries.items()
    } == wanted
    rejected = view.rejected(frame(session, given)).collect()
    reasons = sorted({row["reason"] for row in rejected})
    assert reasons == [
        "time: late: more than 0 s before the record's timestamp",
        "time: more than 180 s after the record's timestamp",
    ]
    assert len(rejected) == len(late) + sum(line["items"] == 4 for line in counted)
    assert streamed(session, view, [given[part::2] for part in range(2)], tmp_path) == found


def test_a_join_with_a_table(session: SparkSession, tmp_path: Path) -> None:
    text = f"""\
[views.x.derive]
{FIELDS}
where = "owner.age is null or owner.age > 30"
key = "coalesce(owner.name, 'nobody')"
count = {{ orders = true, of_adults = "owner.age > 17" }}
max = {{ town = "lower(owner.town)" }}
[views.x.derive.join.owner]
from = "owners"
on = "lower(shop)"
fields = {{ name = "string", age = "int?", town = "string?" }}
static = true
"""
    view, lines = view_of(text), orders(100)
    assert view.source_topics == ("orders", "owners")
    assert [source.static for source in view.inputs] == [False, True]
    owners = frame(
        session,
        [
            raw({"name": "Old", "age": 1}, START, b"s0"),
            raw({"name": "Ann", "age": 40, "town": "Ulm"}, START, b"s0"),
            raw({"name": "Bob", "age": 20}, START, b"s1"),
            raw({"name": "Eve"}, START, b"s2"),
            (b"s2", None, START),
            raw({"name": "x" * 1001}, START, b"s0"),
            raw({"age": 1}, START, b"s0"),
            raw({"name": "No"}, START, None),
        ],
    )
    shops = by_shop(lines)
    found = table(view.result(frame(session, records(lines)), owners).collect())
    assert {key.decode(): json.loads(value) for key, value in found.items()} == {
        "Ann": {"orders": len(shops["s0"]), "of_adults": len(shops["s0"]), "town": "ulm"},
        "nobody": {"orders": len(shops["s2"]) + len(shops["s3"]), "of_adults": 0},
    }
    rejected = view.inputs[1].decoder.malformed(owners).collect()
    assert [(row["offset"], row["reason"]) for row in rejected] == [
        (5, "name: more than 1000 bytes"), (6, "name: missing"), (7, "key: null"),
    ]  # fmt: skip
    parts = [records(lines[part::2]) for part in range(2)]
    assert streamed(session, view, parts, tmp_path, owners) == found


def double(value: bytes) -> float:
    number: float = struct.unpack(">d", value)[0]
    return number


VALUES: list[tuple[str, Callable[[bytes], Any], object]] = [
    ('avg = "n"', double, 2.0),
    ('sum = "coalesce(d, d)"', double, 3.3),
    ('max = "x"', double, 0.25),
    ('min = "s"', bytes.decode, "C"),
    ('latest = "n"\nselect = "lower(s)"', bytes.decode, "c"),
    ('latest = "0 - n"\nselect = "n * -1"',
     lambda value: int.from_bytes(value, "big", signed=True), -1),
    ('top_k = { k = 1, by = "n" }\nselect = "s"', json.loads, {"top_k": ["C"]}),
    ('latest = "n"\nselect = ["record_timestamp", "record_key", "t"]', json.loads,
     {"record_timestamp": "2026-01-01T10:00:05.000Z", "record_key": "k",
      "t": "2026-01-01T00:00:00Z"}),
    ('latest = "n"\nselect = { n = "n", text = "text" }\ncount = true', json.loads,
     {"latest": {"n": 3}, "count": 3}),
]  # fmt: skip


def test_formats_of_values(session: SparkSession) -> None:
    fields = """{ n = "int", d = "decimal(1)", x = "double", s = "string", text = "string?", \
t = "time" }"""
    head = f'[views.x.derive]\nfrom = "t"\nfields = {fields}\nkey = "1"\n'
    t = "2026-01-01T00:00:00Z"
    lines = [
        {"n": 3, "d": 1.1, "x": -0.0, "s": "C", "t": t},
        {"n": 2, "d": 1.1, "x": 0.25, "s": "b", "text": "y", "t": t},
        {"n": 1, "d": 1.1, "x": 0.0, "s": "a", "text": None, "t": t},
    ]
    given = frame(session, [raw(line, START + 5, b"k") for line in lines])
    found = collected([view_of(head + aggregate).result(given) for aggregate, _, _ in VALUES])
    for (aggregate, decode, wanted), rows in zip(VALUES, found, strict=True):
        [(key, value)] = table(rows).items()
        assert key == (1).to_bytes(8, "big")
        assert decode(value) == wanted, aggregate


def test_times_keep_their_fractions_and_numbers_have_units(session: SparkSession) -> None:
    view = view_of(
        """\
[views.x.derive]
from = "t"
key = "k"
time = "at"
points = true
latest = "at"
select = { at = "at", ms = "ms", s = "s", n = "unix_millis(at)" }
[views.x.derive.fields]
k = "string"
at = "time"
ms = "time? ms"
s = "time s"
"""
    )
    at = "2026-01-01T11:00"
    lines = [
        {"at": f"{at}+01:00", "ms": None, "s": START},
        {"at": f"{at}:01.5+0100", "ms": START * 1000 + 1500, "s": START + 1.5},
        {"at": f"{at}:02.1234567+01:00[Europe/Berlin]", "ms": START * 1000, "s": START},
        {"at": at, "s": START},
        {"at": f"{at}Z", "ms": "1", "s": START},
        {"at": f"{at}Z", "s": f"{START}"},
    ]
    given = frame(session, [raw({"k": "k", **line}, START) for line in lines])
    rejected = {row["offset"]: row["reason"] for row in view.rejected(given).collect()}
    assert rejected == {
        3: "at: a time without a zone: Z or an offset such as +01:00 is missing",
        4: "ms: not a number",
        5: "s: not a number",
    }
    values = sorted(table(view.result(given).collect()).values())
    whole, ms = "2026-01-01T10:00:00Z", START * 1000
    assert list(map(json.loads, values)) == [
        {"at": whole, "s": whole, "n": ms},
        {"at": "2026-01-01T10:00:01.500Z", "ms": "2026-01-01T10:00:01.500Z",
         "s": "2026-01-01T10:00:01.500Z", "n": ms + 1500},
        {"at": "2026-01-01T10:00:02.123456Z", "ms": whole, "s": whole, "n": ms + 2123},
    ]  # fmt: skip


def test_sums_stop_at_the_limits_of_int64(session: SparkSession) -> None:
    view = view_of(
        '[views.x.derive]\nfrom = "t"\nfields = { n = "long", k = "string" }\nkey = "k"\nsum = "n"'
    )
    numbers = [("a", 2**63 - 1), ("a", 5), ("b", -(2**63)), ("b", -5), ("c", 7), ("c", -8)]
    given = [raw({"k": key, "n": number}, START) for key, number in numbers]
    found = table(view.result(frame(session, given)).collect())
    sums = {key: int.from_bytes(value, "big", signed=True) for key, value in found.items()}
    assert sums == {b"a": 2**63 - 1, b"b": -(2**63), b"c": -1}
