"""Derived views on records in memory, compared with Spark: random tables and records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

from pyspark.sql import Row, SparkSession

from model.derive.evaluation.evaluate import Entry, as_line, evaluate
from model.derive.evaluation.records import Record
from model.expressions.values import reader
from model.formats.registry import KEY_CODECS
from model.kinds.session import SessionLayout
from model.kinds.window import WindowLayout
from model.rows.json_fields import member_at
from model.views import View
from model.views_file import parse_views
from spark.derive.views import derived_view
from tests.spark.derive import test_changing_joins as joins
from tests.spark.derive import test_tables as tables
from tests.spark.derive.support import START, collected, frame, table

FIELDS = """\
[views.x.derive.fields]
id = "string"
shop = "string?"
at = "time"
ts = "long"
items = "int 0..9"
price = "decimal(2)?"
ratio = "double?"
tags = "strings"
counts = "longs?"
labels = "map"
lines = { type = "objects", fields = { sku = "string", qty = "int?", at = "time?" } }
"""
TABLES = 20
RECORDS = 80


def random_value(random: Random) -> dict[str, Any]:
    def clock() -> str:
        fraction = random.choice(["", "", ".5", ".123456"])
        minute = random.randrange(-90, 90)
        return f"2026-01-01T{10 + minute // 60:02d}:{minute % 60:02d}:00{fraction}Z"

    value: dict[str, Any] = {
        "id": str(random.randrange(60)),
        "shop": random.choice([None, "s1", "s2", "s2", "É|"]),
        "at": clock(),
        "ts": START * 1000 + random.randrange(-4_000_000, 4_000_000),
        "items": random.randrange(10),
        "price": random.choice([None, 0, 1.5, 12.34, -0.1]),
        "ratio": random.choice([None, 0.5, 1e300, -3]),
        "tags": random.choices(["a", "b", "É"], k=random.randrange(3)),
        "counts": random.choice([None, [], [2**53 + 1, 3]]),
        "labels": random.choice([{}, {"colour": "red"}, {"colour": 7, "size": True}]),
        "lines": [
            {"sku": random.choice("xyz"), "qty": random.choice([None, 1, 2]), "at": clock()}
            for _ in range(random.randrange(3))
        ],
    }
    if not random.randrange(12):
        value[random.choice(list(value))] = random.choice([None, "x", 11, [1], {}, 2**70])
    return value


def random_record(random: Random) -> Record:
    if not random.randrange(40):
        return Record(random.choice([None, b"", b"[]", b"{", b"\xff", b'{"id":1}']), b"k")
    value = json.dumps(random_value(random)).encode()
    return Record(value, random.choice([None, b"k", b"\xff"]), START * 1000)


def random_table(random: Random) -> str:
    """A views.toml with one view."""
    lines = ["[views.x]", 'value = "json"', "[views.x.derive]", 'from = "t"']
    values = ["items", "price", "price * items", "round(price * 0.5, 1)", "ts", "items / 3"]
    texts = ["id", "shop", "date(at, 'Europe/Berlin')", "labels['colour']", "tags[1]"]
    keys = ["coalesce(shop, 'none')", "concat(id, '-', items)", "date(at)"]
    shapes = [
        "keys",
        "windows",
        "hops",
        "points",
        "sessions",
        "calendar",
        "map",
        "map",
        "map points",
    ]
    shape = random.choice(shapes)
    if random.randrange(2):
        lines.append("require = \"items <> 3 and (shop is null or shop <> 'bad')\"")
    if shape == "sessions":
        values = ["items", "ts % 60"]
    elif random.randrange(2):
        name, array = random.choice(
            [("tag", "tags"), ("line", "lines"), ("word", "split(id, '1')")]
        )
        lines.append(f'each = {{ {name} = "{array}" }}')
        repeated = "line.sku" if name == "line" else name
        keys += [repeated] * 3
        texts += [repeated] + (["line.at"] if name == "line" else [])
        values += ["line.qty"] if name == "line" else []
    if random.randrange(2):
        conditions = [
            "items > 2",
            "price > 0 or ratio is null",
            "hour(at) < 10",
            "contains(tags, 'a')",
        ]
        lines.append(f'where = "{random.choice(conditions)}"')
    many_parts = not random.randrange(4)
    lines.append('key = ["id", "items"]' if many_parts else f'key = "{random.choice(keys)}"')
    if shape not in ("keys", "map"):
        lines += ['lateness = "1h"'] * random.randrange(2)
        lines.append(
            'time = "at"' if random.randrange(2) else "time = \"date_trunc('minute', at)\""
        )
    lines += {
        "keys": [],
        "map": [],
        "map points": ["points = true"],
        "calendar": ['window = "1 day"', 'zone = "Europe/Berlin"'],
        "windows": ['window = "30m"'],
        "hops": ['window = "30m"', 'advance = "10m"'],
        "points": ["points = true"],
        "sessions": ['session = "7m"'],
    }[shape]
    is_map = shape.startswith("map")
    if not is_map:
        lines.append('count = { n = true, some = "price is not null" }')
        for function in ("sum", "avg", "min", "max"):
            lines.append(f'{function} = {{ {function}1 = "{random.choice(values)}" }}')
    if shape != "sessions" and not is_map:
        by = random.choice([*values, "at", "coalesce(shop, '')"])
        k = random.randrange(1, 4)
        lines.append(f'latest = "{by}"')
        lines.append(f'top_k = {{ k = {k}, by = "{random.choice([*values, *texts])}" }}')
    if shape != "sessions":
        selected = {
            f"c{number}": random.choice([*values, *texts, "tags", "at"]) for number in range(3)
        }
        lines.append("select = {" + ", ".join(f'{n} = "{v}"' for n, v in selected.items()) + "}")
    return "\n".join([*lines, FIELDS])


def entries_of(view: View, rows: Iterable[Row]) -> list[Entry]:
    """The records of the view's topic as the entries of an evaluation."""
    codec = KEY_CODECS[view.key]
    found: list[Entry] = []
    for key, value in table(rows).items():
        entry: Entry
        if view.store == "window":
            window = WindowLayout(codec)
            stored = window.entry_key(window.stored_key(key))
            entry = {"key": stored.key.decode(), "start": stored.start}
        elif view.store == "session":
            session = SessionLayout(codec)
            ended = session.entry_key(session.stored_key(key))
            entry = {"key": ended.key.decode(), "start": ended.start, "end": ended.end}
        else:
            entry = {"key": key.decode()}
        found.append({**entry, "value": json.loads(value)})
    return sorted(found, key=lambda entry: (entry["key"], entry.get("start", 0)))


def check_declared_fields(view: View, value: Any) -> None:
    """Conditions read every field of a value as the type that `derive` declares; lists of objects
    have none."""
    for field in view.fields:
        member = member_at(value, field.path)
        if member is None:
            assert field.type.optional, (field, value)
        else:
            assert reader(field.type)(member) is not None, (field, value)
    assert value.keys() <= {field.path[0] for field in view.fields} | {"top_k"}


def test_random_tables_and_records(session: SparkSession) -> None:
    random = Random(11)
    records = [random_record(random) for _ in range(RECORDS)]
    given = frame(
        session, [(record.key, record.value, record.timestamp // 1000) for record in records]
    ).cache()
    texts = [random_table(random) for _ in range(TABLES)]
    views = [parse_views(text).views[0] for text in texts]
    jobs = [derived_view(view) for view in views]
    found = collected([job.result(given) for job in jobs if job is not None])
    for text, view, job, rows in zip(texts, views, jobs, found, strict=True):
        evaluation = evaluate(
            view,
            [
                Record(record.value, record.key, record.timestamp // 1000 * 1000)
                for record in records
            ],
        )
        assert job is not None
        reasons = {row["offset"]: row["reason"] for row in job.rejected(given).collect()}
        assert {
            letter.number - 1: letter.reason for letter in evaluation.dead_letters
        } == reasons, text
        entries = entries_of(view, rows)
        assert [json.loads(as_line(entry)) for entry in evaluation.entries] == entries, text
        for entry in entries:
            check_declared_fields(view, entry["value"])
    given.unpersist()


def test_tables_and_their_aggregates_as_in_the_tests_of_spark() -> None:
    for seed in range(5):
        records = tables.orders(seed)
        [view] = parse_views(tables.VIEW).views
        found = evaluate(view, [Record(value, key) for key, value, _ in records])
        assert json.loads(as_line(found.values)) == tables.wanted(records)
        assert [letter.reason[:6] for letter in found.dead_letters] == ["value:"]


def test_joins_with_tables_that_change_as_in_the_tests_of_spark() -> None:
    for seed in range(5):
        topics = joins.lines(seed)
        names = {name: name for name in topics}
        orders, events = parse_views(joins.VIEWS_TOML.format(**names)).views
        given = {
            name: [Record(value, key) for key, value in lines] for name, lines in topics.items()
        }
        tables = {"buyer": given["customers"], "land": given["countries"]}
        assert evaluate(orders, given["orders"], tables).values == joins.wanted_orders(topics)
        tables = {"buyer": given["customers"]}
        assert evaluate(events, given["events"], tables).values == joins.wanted_events(topics)
