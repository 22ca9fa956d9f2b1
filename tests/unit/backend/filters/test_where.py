"""Conditions on the entries of whole views: `where`, `select` and what they cost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.rows.declared_fields import parse_declared_fields
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import NDJSON, World, world
from tests.unit.backend.unreadable.applied import put as put_record

FLIGHTS: dict[str, Any] = {
    "N1": {"dest": "ATL", "delay": 61, "crew": {"captain": "Ada"}, "odd-name": 1},
    "N2": {"dest": "ATL", "delay": 60.5, "tags": ["late"]},
    "N3": {"dest": "JFK", "delay": None},
    "N4": {"dest": "JFK", "delay": "61"},
    "N5": {"dest": None},
    "N6": {"delay": 2**53 + 1, "dest": "ATL"},
    "N7": {"delay": 2**64, "dest": "ATL"},
    "M1": "text",
    "M2": 7,
}
DECLARED = parse_declared_fields(
    {"dest": "string", "delay": "int?", "crew": {"captain": "string?"}}
)


def seeded(folder: Path) -> Iterator[World]:
    with world(folder, ORDERS) as made:
        made.put_all({key.encode(): json.dumps(row).encode() for key, row in FLIGHTS.items()})
        yield made


@pytest.fixture
def flights(tmp_path: Path) -> Iterator[World]:
    yield from seeded(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For tests that change nothing."""
    yield from seeded(tmp_path_factory.mktemp("flights"))


def keys_of(of: World, where: str, more: str = "", instance: str = "b1") -> list[str]:
    answer = of.ask(f"keys?where={quote(where)}{more}", instance)
    assert answer.status == 200, answer.body
    return [item["key"] for item in answer.json["items"]]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("dest = 'ATL'", ["N1", "N2", "N6", "N7"]),
        ("delay > 60", ["N1", "N2", "N6"]),
        ("delay >= 60.5 and dest = 'ATL'", ["N1", "N2", "N6"]),
        ("delay = 60.5", ["N2"]),
        ("delay = 9007199254740993", ["N6"]),
        ("delay = 9007199254740992", []),
        ("delay = '61'", ["N4"]),
        ("delay in (61, 60.5)", ["N1", "N2"]),
        ("delay between 60 and 61", ["N1", "N2"]),
        ("delay is null", ["M1", "M2", "N3", "N5"]),
        ("not delay > 60", []),
        ("dest is not null and not dest = 'ATL'", ["N3", "N4"]),
        ("crew.captain = 'Ada'", ["N1"]),
        ("value.crew.captain like 'A%'", ["N1"]),
        ('value."odd-name" = 1', ["N1"]),
        ("key = 'N1'", ["N1"]),
        ("key in ('N1', 'N3', 'X')", ["N1", "N3"]),
        ("key like 'N%' and key > 'N5'", ["N6", "N7"]),
        ("key like 'M%'", ["M1", "M2"]),
        ("'N6' <= key", ["N6", "N7"]),
        ("record_timestamp = timestamp '1970-01-01T00:00:00.007Z'", sorted(FLIGHTS)),
        ("lower(dest) = 'jfk' or delay = 61", ["N1", "N3", "N4"]),
        ("true", sorted(FLIGHTS)),
        ("1 = 2", []),
    ],
)  # fmt: skip
def test_entries_that_meet_a_condition(shared: World, where: str, keys: list[str]) -> None:
    for instance in ("b1", "b2"):
        assert keys_of(shared, where, instance=instance) == keys
        assert keys_of(shared, where, "&order=desc", instance) == keys[::-1]
        pages = list(shared.pages(f"keys?where={quote(where)}&limit=2", instance))
        assert [item["key"] for page in pages for item in page] == keys
    lines = shared.ask(f"keys?where={quote(where)}", accept=NDJSON).body.splitlines()
    assert [json.loads(line)["key"] for line in lines] == keys
    assert shared.ask(f"count?where={quote(where)}").json == {"count": len(keys), "exact": True}
    groups = shared.ask(f"aggregate?where={quote(where)}&by=dest").json["items"]
    assert sum(group["entries"] for group in groups) == len(keys)


TEXTS = st.sampled_from(["", "a", "A", "ä", "z", "10", "'"])
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 2.0, 2**53, 2**53 + 1, 10**15])
ROWS = st.lists(
    st.fixed_dictionaries({}, optional={"n": NUMBERS | st.none(), "s": TEXTS | st.none()}),
    max_size=12,
)


def literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth and draw(st.booleans()):
        kind = draw(st.sampled_from(["and", "or", "not"]))
        left = draw(conditions(depth - 1))
        return (
            f"not ({left})" if kind == "not" else f"({left}) {kind} ({draw(conditions(depth - 1))})"
        )
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "null", "in", "between"]))
    name, values = draw(st.sampled_from([("n", st.integers(-3, 3)), ("s", TEXTS)]))
    one, other = literal(draw(values)), literal(draw(values))
    if operator == "null":
        return f"{name} is {draw(st.sampled_from(['', 'not ']))}null"
    if operator == "in":
        return f"{name} in ({one}, {other})"
    if operator == "between":
        return f"{name} between {one} and {other}"
    return f"{name} {operator} {one}"


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(ROWS, st.lists(conditions(), min_size=1, max_size=5))
def test_conditions_are_those_of_sqlite(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], texts: list[str]
) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("create table v (key text, n, s text)")
    keyed = {f"k{number:02}": row for number, row in enumerate(rows)}
    database.executemany(
        "insert into v values (?, ?, ?)",
        [(key, row.get("n"), row.get("s")) for key, row in keyed.items()],
    )
    with world(tmp_path_factory.mktemp("w"), ORDERS) as made:
        made.put_all({key.encode(): json.dumps(row).encode() for key, row in keyed.items()})
        for text in texts:
            found = database.execute(f"select key from v where {text} order by key")
            assert keys_of(made, text) == [key for (key,) in found], text


def test_declared_fields_are_checked_when_the_condition_is_parsed(tmp_path: Path) -> None:
    of = replace(ORDERS, fields=DECLARED)
    assert of.hash == ORDERS.hash
    with world(tmp_path, of) as made:
        made.put_all({key.encode(): json.dumps(row).encode() for key, row in FLIGHTS.items()})
        assert keys_of(made, "delay > 60") == ["N1"]  # the others are no int
        assert keys_of(made, "crew.captain = 'Ada' and delay + 1 = 62") == ["N1"]
        answer = made.ask(f"keys?where={quote('delay > ' + repr('x'))}")
        assert (answer.status, answer.json["code"]) == (400, "bad-parameter")
        assert "different types" in answer.json["detail"]


def test_instances_that_declare_other_fields_do_not_mix_answers(flights: World) -> None:
    """Trap: during a rolling change of views.toml, one instance reads a field as another type."""
    other = flights.instances["b2"].context
    other.views["orders"] = replace(ORDERS, fields=DECLARED)  # type: ignore[index]
    answer = flights.ask("keys?where=delay%20%3E%2060")
    assert (answer.status, answer.json["code"]) == (503, "other-fields")
    assert b"retry-after" in answer.named
    assert flights.ask("keys").status == 200


def test_the_newest_row_is_chosen_before_it_is_compared(tmp_path: Path) -> None:
    """Trap: an older row in another partition meets the condition, the newest one does not."""
    with world(tmp_path, replace(ORDERS, same_key="newest")) as made:
        key = next(b"k%d" % n for n in range(99) if made.partition(b"k%d" % n) == 0)
        made.put(key, b'{"n":1}', timestamp=1, partition=1)
        made.put(key, b'{"n":2}', timestamp=2, partition=0)
        made.place(0, 1, 0, 1, mispartitioned=True)
        for instance in ("b1", "b2"):
            assert keys_of(made, "n = 1", instance=instance) == []
            assert keys_of(made, "n = 2", instance=instance) == [key.decode()]
            assert made.ask("count?where=n=1", instance).json["count"] == 0
            assert made.ask("count?where=n=2", instance).json["count"] == 1
            selected = made.ask("keys?where=n=2&select=n,m", instance).json["items"]
            assert selected == [{"key": key.decode(), "value": {"n": 2, "m": None}}]


def test_the_latest_version_is_chosen_before_it_is_compared(tmp_path: Path) -> None:
    with world(tmp_path, view(store="versioned")) as made:
        made.put(b"k", b'{"n":1}', timestamp=1)
        made.put(b"k", b'{"n":2}', timestamp=2)
        assert keys_of(made, "n = 1") == []
        assert keys_of(made, "n = 2") == ["k"]


def test_a_page_ends_at_what_it_may_examine(flights: World) -> None:
    """Trap: the cursor is the last key that was examined, not the last one that matched."""
    where = quote("dest = 'JFK'")
    target, found, examined = f"keys?where={where}&max_examined=2", [], []
    cursor = ""
    for _ in range(20):
        answer = flights.ask(target + cursor)
        assert answer.status == 200
        assert answer.named[b"plan"] == b"scan"
        examined.append(int(answer.named[b"examined"]))
        found += [item["key"] for item in answer.json["items"]]
        if answer.json["next"] is None:
            break
        cursor = f"&cursor={answer.json['next']}"
    assert found == ["N3", "N4"]
    assert len(examined) > 1
    for query in ("count", "aggregate", "top?by=delay"):
        mark = "&" if "?" in query else "?"
        answer = flights.ask(f"{query}{mark}where={where}&max_examined=2")
        assert (answer.status, answer.json["code"]) == (400, "too-many-entries")
    assert flights.code(f"keys?where={quote('true')}&max_examined=0", 400) == "bad-parameter"


def test_a_cursor_belongs_to_its_condition(flights: World) -> None:
    cursor = flights.ask(f"keys?limit=1&where={quote('delay > 60')}").json["next"]
    assert flights.code(f"keys?limit=1&cursor={cursor}", 400) == "cursor-invalid"
    other = quote("delay > 61")
    assert flights.code(f"keys?limit=1&where={other}&cursor={cursor}", 400) == "cursor-invalid"


def test_entries_that_cannot_be_read_are_not_lost(flights: World) -> None:
    put_record(flights, b"N8", b'{"n":')
    bad = flights.ask("keys?from=N8").json["items"]
    for where, listed in (("delay > 60", True), ("delay is null", True), ("key = 'N1'", False),
                          ("key > 'N7' and delay = 1", True)):  # fmt: skip
        items = flights.ask(f"keys?where={quote(where)}").json["items"]
        assert (bad[0] in items) is listed, where
    answer = flights.ask(f"count?where={quote('delay = 61')}").json
    assert answer == {"count": 2, "exact": True, "unreadable": 1}


def test_selected_fields_keep_their_bytes(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made:
        number = b"123456789012345678901"
        made.put(b"k", b'{"a": 1.0, "b":{"c" : [1,  2]}, "d.e":"\\u00e4", "f":%b}' % number)
        names = quote('f,b.c,"d.e",a,x')
        answer = made.ask(f"keys?select={names}")
        assert answer.body == (
            b'{"items":[{"key":"k","value":{"f":123456789012345678901,"b.c":[1,  2],'
            b'"d.e":"\\u00e4","a":1.0,"x":null}}],"next":null}'
        )
        for wrong in ("", "a,a", "a,,b", ",".join(f"f{n}" for n in range(101))):
            assert made.code(f"keys?select={wrong}", 400) == "bad-parameter"


def test_what_the_parameters_refuse(flights: World) -> None:
    for where, why in (
        ("dest ==", "="),
        ("lower(dest)", "condition"),
        ("dest = ", "ends too early"),
        ("a = 1 and " * 300 + "a = 1", "2000 characters"),
        ("(" * 60 + "a = 1" + ")" * 60, "levels"),
        ("x" * 65_536 + " = 1", "8192"),
        ("regexp(a)", "unknown function"),
        ('dest = "ATL"', "strings have single quotes"),
    ):
        answer = flights.ask("query", method="POST", body=json.dumps({"where": where}).encode())
        assert answer.status == 400, where
        assert why in answer.json["detail"], answer.json["detail"]
    with_numbers = flights.ask(f"keys?where={quote('value = 7')}").json["items"]
    assert with_numbers == [{"key": "M2", "value": 7}]


def test_a_condition_in_a_body(flights: World) -> None:
    body = json.dumps({"where": "delay > 60", "select": "delay", "limit": 2}).encode()
    answer = flights.ask("query", method="POST", body=body)
    assert answer.json["items"] == [
        {"key": "N1", "value": {"delay": 61}}, {"key": "N2", "value": {"delay": 60.5}},
    ]  # fmt: skip
    assert answer.json["next"] is not None


def test_the_plan_is_explained(flights: World) -> None:
    for where, plan in (
        ("key = 'N1'", "key"), ("key like 'N%'", "range"), ("key like '%1'", "scan"),
        ("delay > 1", "scan"), ("delay > 1 and 'N3' > key", "range"),
        ("key = 'N1' or delay > 1", "scan"), ("not key = 'N1'", "scan"),
    ):  # fmt: skip
        for resource in ("keys", "count", "aggregate"):
            answer = flights.ask(f"{resource}?explain=true&where={quote(where)}")
            assert answer.status == 200, answer.body
            found = answer.json
            assert found.pop("entries") >= 0
            assert found == {"plan": plan, "partitions": 4, "filter": where}
            assert answer.named[b"plan"] == plan.encode()


def test_positions_on_request(flights: World) -> None:
    positions = {
        number: flights.owner(number)
        .context.store_partitions.get("orders", number)
        .progress.position  # type: ignore[union-attr]
        for number in range(4)
    }
    expected = ",".join(f"{number}:{at}" for number, at in positions.items()).encode()
    for target in ("keys?offsets=true", "count?exact=true&offsets=true"):
        assert flights.ask(target).named[b"offsets"] == expected
    assert b"offsets" not in flights.ask("keys").named


def test_a_view_may_refuse_scans(tmp_path: Path) -> None:
    with world(tmp_path, replace(ORDERS, scans="bounded")) as made:
        made.put(b"a", b'{"n":1}')
        for target in ("keys", "keys?where=n=1", "count?exact=true", "top?by=n", "aggregate"):
            assert made.code(target, 400) == "no-index"
        assert keys_of(made, "key = 'a' and n = 1") == ["a"]
        assert made.ask("keys?prefix=a").status == 200
        assert made.ask("count").status == 200, "an estimate reads nothing"


@pytest.mark.parametrize("store", ["window", "session"])
def test_times_of_windows_and_sessions(tmp_path: Path, store: str) -> None:
    size = {"window_size": 60_000} if store == "window" else {}
    with world(tmp_path, replace(view(store=store), **size)) as made:
        for start in (0, 60_000, 120_000):
            tail = start.to_bytes(8, "big")
            if store == "window":
                made.put(b"k" + tail + bytes(4), b'{"start":5}')
            else:
                made.put(b"k" + (start + 60_000).to_bytes(8, "big") + tail, b'{"start":5}')
        resource = f"{store}s"
        for where, starts in (
            ("start >= timestamp '1970-01-01T00:01:00Z'", [60_000, 120_000]),
            ("\"end\" = timestamp '1970-01-01T00:02:00Z'", [60_000]),
            ("unix_seconds(start) = 0 and value.start = 5", [0]),
        ):
            answer = made.ask(f"{resource}?where={quote(where)}")
            assert answer.status == 200, answer.body
            assert [item["start"] for item in answer.json["items"]] == starts
