"""Indexes of lists: an entry has a key for each element, and comes once."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.queries.scans import index_run
from model.indexes.declaration import parse_indexes
from model.indexes.encoding import MAX_ELEMENTS
from model.rows.declared_fields import parse_declared_fields
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import NDJSON, World
from tests.unit.backend.indexes.test_by_value import keys_of
from tests.unit.backend.indexes.test_index_plans import asked, flights, put_row, sweep
from tests.unit.backend.indexes.test_order_by import keys_of as ordered_keys
from tests.unit.backend.unreadable.applied import put

FIELDS = parse_declared_fields(
    {"tags": "strings?", "sizes": "longs?", "shop": "string?", "delay": "long?"}
)
INDEXED = replace(
    ORDERS,
    fields=FIELDS,
    indexes=parse_indexes(
        {
            "by-tags": ["tags"],
            "by-shop": ["shop", "tags", "delay"],
            "by-sizes": ["sizes", "delay"],
            "by-delay": ["delay", "tags"],
        },
        FIELDS,
    ),
)
LONG = "x" * 1024
MANY_TAGS = [f"t{number}" for number in range(MAX_ELEMENTS + 1)]
_TAGS = st.sampled_from(["a", "b", "", "Ä", "a\x00b", "\U0001f600", LONG, LONG + "1", LONG + "2"])
_SIZES = st.sampled_from([0, 1, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63)])
_NO_LIST = st.sampled_from(["a", 1, {"a": 1}, ["a", None], ["a", 1], [["a"]], [1.5], [True]])
_ROWS = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.none()
        | st.lists(_TAGS, max_size=4)
        | st.just([*MANY_TAGS, "a"])
        | st.sampled_from([MANY_TAGS, ["a", "b"] * 60])
        | _NO_LIST,
        "sizes": st.none() | st.lists(_SIZES, max_size=4) | st.just([*range(200)]) | _NO_LIST,
        "shop": st.none() | st.sampled_from(["s", "t"]),
        "delay": st.none() | st.integers(-3, 3),
    },
)
_FIRST: list[tuple[int, Any]] = [
    (2, {"tags": [*MANY_TAGS, "a"], "shop": "s", "delay": 0}),
    (4, {"tags": ["b", "a"], "sizes": [7, 1], "shop": "s", "delay": 1}),
    (6, {"tags": ["a", "a"], "sizes": [*range(200)], "shop": "s", "delay": -1}),
    (8, {"tags": [], "sizes": [7], "shop": "t"}),
]
"""Rows that most examples have."""
_CHANGES = st.lists(st.tuples(st.integers(0, 9), st.none() | _ROWS), max_size=30)
_PARTS = st.sampled_from(
    [
        "contains(tags, 'a')",
        "contains(tags, 'b')",
        "contains(tags, '')",
        "contains(tags, 't7')",
        f"contains(tags, '{LONG}1')",
        "contains(sizes, 7)",
        "contains(sizes, 9007199254740993)",
        "contains(sizes, -1)",
        "tags is null",
        "tags is not null",
        "sizes is null",
        "shop = 's'",
        "shop in ('s', 't')",
        "shop is null",
        "delay > 0",
        "delay = 1",
        "delay is null",
        "key >= 'k05'",
        "not contains(tags, 'a')",
        "(contains(tags, 'a') or contains(tags, 'b'))",
    ]
)
_WHERE = st.lists(_PARTS, min_size=1, max_size=3, unique=True).map(" and ".join)


def list_of(values: Any, kind: type) -> list[Any] | None:
    """A value of another type than the declared one is null."""
    is_list = isinstance(values, list) and all(type(value) is kind for value in values)
    return values if is_list else None


def table_of(rows: Mapping[str, Any]) -> sqlite3.Connection:
    """The rows, and the elements of their lists: `json_each` would end a text at a zero byte."""
    database = sqlite3.connect(":memory:")
    database.execute("create table v (key text, tags, sizes, shop text, delay integer)")
    database.execute("create table elements (key text, field text, value)")
    for key, row in rows.items():
        if row is None:
            continue
        lists = {"tags": list_of(row.get("tags"), str), "sizes": list_of(row.get("sizes"), int)}
        sizes = [None if values is None else len(values) for values in lists.values()]
        values = (key, *sizes, row.get("shop"), row.get("delay"))
        database.execute("insert into v values (?, ?, ?, ?, ?)", values)
        for field, elements in lists.items():
            found = [(key, field, element) for element in elements or ()]
            database.executemany("insert into elements values (?, ?, ?)", found)
    return database


def in_sql(condition: str) -> str:
    for name in ("tags", "sizes"):
        begin = f"contains({name}, "
        while begin in condition:
            head, _, rest = condition.partition(begin)
            value, _, rest = rest.partition(")")
            own = f"elements.key = v.key and field = '{name}'"
            exists = f"exists (select 1 from elements where {own} and value = {value})"
            condition = f"{head}iif({name} is null, null, {exists}){rest}"
    return condition


def filled(made: World, changes: list[tuple[int, Any]]) -> dict[str, Any]:
    """Applies updates and deletes, which leave keys of the rows before; the rows by key."""
    rows: dict[str, Any] = {}
    for number, row in [*_FIRST, *changes]:
        put_row(made, f"k{number:02}", row)
        rows[f"k{number:02}"] = row
    return rows


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(_CHANGES, st.lists(_WHERE, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_rows_are_those_of_sqlite(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, Any]],
    conditions: list[str],
    are_all_walked: bool,
    are_swept: bool,
) -> None:
    with (
        flights(tmp_path_factory.mktemp("w"), INDEXED) as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(index_run, "_FEW", 1_000 if are_all_walked else 1)
        database = table_of(filled(made, changes))
        for store_partition in made.store_partitions.values() if are_swept else ():
            sweep(store_partition)
        for condition in conditions:
            sql = f"select key from v where {in_sql(condition)} order by key"
            expected = [key for (key,) in database.execute(sql)]
            for more in ("", "&limit=2", "&order=desc&limit=3"):
                keys, _ = asked(made, condition, more)
                assert keys == (expected[::-1] if "desc" in more else expected), condition
            count = made.ask(f"count?exact=true&where={quote(condition)}").json["count"]
            assert count == len(expected), condition


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(
    _CHANGES,
    st.sampled_from(
        [
            ("contains(sizes, 7)", "delay"),
            ("shop = 's' and contains(tags, 'a')", "delay"),
            ("contains(tags, 'a') and shop = 't'", "delay"),
            ("contains(tags, 't7') and shop = 's'", "delay"),
            ("sizes is null", "delay"),
        ]
    ),
    st.none() | _WHERE,
    st.booleans(),
    st.integers(1, 4),
)
def test_the_order_is_that_of_sqlite(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, Any]],
    ordered: tuple[str, str],
    more: str | None,
    backwards: bool,
    limit: int,
) -> None:
    condition, order_by = ordered
    where = condition if more is None else f"{condition} and {more}"
    order = "desc" if backwards else "asc"
    with flights(tmp_path_factory.mktemp("w"), INDEXED) as made:
        database = table_of(filled(made, changes))
        # rows with the same value are in the order of their keys
        sql = f"select key from v where {in_sql(where)} order by {order_by} {order}, key {order}"
        expected = [key for (key,) in database.execute(sql)]
        query = f"&order={order}&limit={limit}&where={quote(where)}"
        assert ordered_keys(made, order_by, query) == expected, where


def test_the_plan_and_what_is_examined(tmp_path: Path) -> None:
    with flights(tmp_path, INDEXED) as made:
        for number in range(40):
            tags = [f"t{number % 8}", "all", "all"]
            put_row(made, f"k{number:02}", {"tags": tags, "shop": "s", "delay": number})
        for condition, plan in (
            ("contains(tags, 't3')", "index by-tags"),
            ("contains(tags, 't3') and shop = 's'", "index by-shop"),
            ("contains(tags, 't3') and delay > 3", "index by-tags"),
            ("contains(sizes, 1)", "index by-sizes"),
            ("contains(tags, 't3') or delay > 3", "scan"),
            ("not contains(tags, 't3')", "scan"),
            ("contains(tags, shop)", "scan"),
            ("size(tags) = 1", "scan"),
        ):
            assert asked(made, condition)[1] == plan, condition
        where = quote("contains(tags, 't3')")
        answer = made.ask(f"keys?where={where}")
        assert answer.named[b"examined"] == b"5"
        assert made.ask(f"keys?explain=true&where={where}").json["entries"] == 5
        where = quote("contains(tags, 'all')")
        lines = made.ask(f"keys?where={where}", accept=NDJSON)
        assert len(lines.body.splitlines()) == 40
        groups = made.ask(f"aggregate?by=shop&value=delay&where={where}")
        assert [group["count"] for group in groups.json["items"]] == [40]


def test_the_short_form(tmp_path: Path) -> None:
    with flights(tmp_path, INDEXED) as made:
        put_row(made, "k1", {"tags": ["A'B", "x"], "sizes": [-5]})
        put_row(made, "k2", {"tags": MANY_TAGS, "sizes": [-5, 7]})
        put_row(made, "k3", {"tags": []})
        assert keys_of(made, f"by/tags/{quote(chr(39).join('AB'))}") == ["k1"]
        assert keys_of(made, "by/tags/t7") == ["k2"]
        assert keys_of(made, "by/sizes/-5") == ["k1", "k2"]
        assert keys_of(made, "by/sizes/-5?where=" + quote("contains(sizes, 7)")) == ["k2"]
        assert keys_of(made, "by/sizes/-5?order_by=delay&order=desc") == ["k2", "k1"]
        assert made.code("by/sizes/1.5", 400) == "bad-parameter"
        assert made.code("by/sizes/x", 400) == "bad-parameter"


@pytest.mark.parametrize("is_swept", [False, True])
def test_a_removed_element_names_no_row(tmp_path: Path, is_swept: bool) -> None:
    """Trap: the key of an element that an update has removed, or added again."""
    with flights(tmp_path, INDEXED) as made:
        put_row(made, "k1", {"tags": ["a", "b"], "shop": "s", "delay": 1})
        put_row(made, "k2", {"tags": ["a"], "shop": "s", "delay": 2})
        put_row(made, "k1", {"tags": ["b"], "shop": "s", "delay": 3})
        put_row(made, "k2", {"tags": ["a", *MANY_TAGS], "shop": "s", "delay": 2})
        for store_partition in made.store_partitions.values() if is_swept else ():
            sweep(store_partition)
        assert keys_of(made, "by/tags/a") == ["k2"]
        assert keys_of(made, "by/tags/b") == ["k1"]
        for limit in (1, 5):
            where = quote("shop = 's' and contains(tags, 'a')")
            more = f"&limit={limit}&where={where}"
            assert ordered_keys(made, "delay", more) == ["k2"]
        put_row(made, "k1", {"tags": ["a", "b"], "shop": "s", "delay": 1})
        assert ordered_keys(made, "delay", f"&limit=1&where={where}") == ["k1", "k2"]
        assert keys_of(made, "by/tags/a?limit=5") == ["k1", "k2"]


def test_a_place_that_two_keys_name_comes_once(tmp_path: Path) -> None:
    """An entry had too many elements, or has them now, also at the end of what is read at once."""
    many, few = [*range(200)], [7]
    with flights(tmp_path, INDEXED) as made:
        expected = []
        for number in range(90):
            lists = [[few], [many, few], [few, many]][number % 3]
            for sizes in lists:
                put_row(made, f"k{number:02}", {"sizes": sizes, "delay": number})
            expected.append(f"k{number:02}")
        for limit in (4, 1000):
            more = f"&limit={limit}&where={quote('contains(sizes, 7)')}"
            assert ordered_keys(made, "delay", more) == expected
            assert ordered_keys(made, "delay", f"{more}&order=desc") == expected[::-1]


def test_an_order_in_which_a_row_would_come_several_times_is_refused(tmp_path: Path) -> None:
    with flights(tmp_path, INDEXED) as made:
        put_row(made, "k1", {"tags": ["a", "b"], "shop": "s", "delay": 1})
        for query in (
            "order_by=tags",
            "order_by=delay",
            "order_by=delay&where=" + quote("shop = 's'"),
            "order_by=delay&where=" + quote("contains(tags, 'a')"),
            "order_by=tags&where=" + quote("shop = 's' and contains(tags, 'a')"),
        ):
            answer = made.ask(f"keys?{query}")
            assert (answer.status, answer.json["code"]) == (400, "no-index"), query
        assert "list" in answer.json["detail"]


def test_a_value_that_cannot_be_read_is_in_each_answer(tmp_path: Path) -> None:
    with flights(tmp_path, INDEXED) as made:
        put(made, b"k1", b"{not json")
        put_row(made, "k2", {"tags": ["a"], "sizes": [1], "delay": 5})
        assert asked(made, "contains(tags, 'a')") == (["k1", "k2"], "index by-tags")
        where = quote("contains(sizes, 1)")
        assert ordered_keys(made, "delay", f"&where={where}") == ["k2", "k1"]
