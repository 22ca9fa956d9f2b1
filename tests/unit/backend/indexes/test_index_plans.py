"""Queries with indexes: every plan gives the rows that sqlite gives."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.ingest.indexes.work import IndexWork
from backend.ingest.read_priority import ReadPriority
from backend.ingest.store_partitions import StorePartition
from backend.ingest.writer import PartitionWriter
from backend.queries.scans import index_run
from backend.storage import rocksdb_store
from model.indexes.declaration import parse_indexes
from model.rows.declared_fields import parse_declared_fields
from model.views import View
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import NDJSON, World, world
from tests.unit.backend.unreadable.applied import put

FIELDS = parse_declared_fields(
    {"dest": "string?", "delay": "long?", "price": "double?", "is_late": "boolean?"}
)
INDEXES = parse_indexes(
    {
        "by-dest": ["dest"],
        "by-route": ["dest", "delay"],
        "by-delay": ["delay"],
        "by-price": ["price"],
        "by-late": ["is_late", "dest"],
    },
    FIELDS,
)
INDEXED = replace(ORDERS, fields=FIELDS, indexes=INDEXES)


@contextmanager
def flights(folder: Path, of: View = INDEXED) -> Iterator[World]:
    with world(folder, of) as made:
        yield made


def put_row(of: World, key: str, row: Any) -> None:
    put(of, key.encode(), None if row is None else json.dumps(row).encode())


def table_of(rows: Mapping[str, Any]) -> sqlite3.Connection:
    """A database with the rows in the table `v`; None is a row that was deleted."""
    database = sqlite3.connect(":memory:")
    database.execute("create table v (key text, dest text, delay integer, price, is_late)")
    database.execute("pragma case_sensitive_like = on")
    database.executemany(
        "insert into v values (?, ?, ?, ?, ?)",
        [
            (key, row.get("dest"), row.get("delay"), row.get("price"), row.get("is_late"))
            for key, row in rows.items()
            if row is not None
        ],
    )
    return database


def asked(of: World, where: str, more: str = "", instance: str = "b1") -> tuple[list[str], str]:
    """The keys of all pages, and the plan of the first one."""
    keys: list[str] = []
    cursor, plan = "", ""
    while True:
        answer = of.ask(f"keys?where={quote(where)}{more}{cursor}", instance)
        assert answer.status == 200, answer.body
        plan = plan or answer.named[b"plan"].decode()
        keys += [item["key"] for item in answer.json["items"]]
        if answer.json["next"] is None:
            return keys, plan
        cursor = f"&cursor={answer.json['next']}"


_DESTS = st.sampled_from(["ATL", "JFK", "", "A", "ATLX", "Ä", "a\x00b", "\U0001f600", "\ue000"])
_NUMBERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([60, 61, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
)
_PRICES = st.one_of(st.integers(-2, 2).map(float), st.sampled_from([0.5, -0.0, 1e300, -1.5]))
_ROWS = st.fixed_dictionaries(
    {},
    optional={
        "dest": st.none() | _DESTS,
        "delay": st.none() | _NUMBERS,
        "price": st.none() | _PRICES,
        "is_late": st.none() | st.booleans(),
    },
)
_CHANGES = st.lists(st.tuples(st.integers(0, 12), st.none() | _ROWS), max_size=30)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_OPERATORS = st.sampled_from(["=", "<", "<=", ">", ">="])
_PARTS = st.one_of(
    st.tuples(st.just("dest"), _OPERATORS, _DESTS.filter(lambda d: "\x00" not in d).map(_text)),
    st.tuples(st.just("delay"), _OPERATORS, _NUMBERS.filter(lambda n: n > -(2**63)).map(str)),
    st.tuples(st.just("price"), _OPERATORS, st.sampled_from(["0", "0.5", "1", "-1.5", "2"])),
    st.sampled_from(
        [
            ("dest", "in", "('ATL', 'JFK', 'A')"),
            ("dest", "is", "null"),
            ("dest", "is not", "null"),
            ("dest", "like", "'AT%'"),
            ("delay", "in", "(1, 60, 2)"),
            ("delay", "between", "0 and 60"),
            ("delay", "is", "null"),
            ("is_late",),
            ("not is_late",),
            ("is_late", "is", "null"),
            ("key", ">=", "'k05'"),
            ("key", "=", "'k02'"),
            ("key", "in", "('k01', 'k03', 'k07')"),
        ]
    ),
).map(" ".join)
_WHERE = st.lists(_PARTS, min_size=1, max_size=3).map(" and ".join)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(_CHANGES, st.lists(_WHERE, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_rows_are_those_of_sqlite(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, Any]],
    conditions: list[str],
    are_all_walked: bool,
    is_busy: bool,
) -> None:
    """Rows are inserted, updated and deleted, which leaves keys of the rows before."""
    rows: dict[str, Any] = {}
    with flights(tmp_path_factory.mktemp("w")) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_run, "_FEW", 1_000 if are_all_walked else 1)
        patch.setattr(rocksdb_store, "_ATTEMPTS", 0 if is_busy else 3)  # too many writes
        for number, row in changes:
            put_row(made, f"k{number:02}", row)
            rows[f"k{number:02}"] = row
        database = table_of(rows)
        for condition in conditions:
            found = database.execute(f"select key from v where {condition} order by key")
            expected = [key for (key,) in found]
            for more in ("", "&limit=2", "&order=desc&limit=3"):
                keys, _ = asked(made, condition, more)
                assert keys == (expected[::-1] if "desc" in more else expected), condition
            count = made.ask(f"count?exact=true&where={quote(condition)}").json["count"]
            assert count == len(expected), condition


def test_the_header_names_the_plan(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(20):
            dest = ["ATL", "JFK"][number % 2]
            put_row(made, f"k{number:02}", {"dest": dest, "delay": number, "price": 1})
        for condition, plan in (
            ("dest = 'ATL'", "index by-dest"),
            ("dest = 'ATL' and delay > 3", "index by-route"),
            ("delay > 3 and dest = 'ATL'", "index by-route"),
            ("delay > 3", "index by-delay"),
            ("price = 1", "index by-price"),
            ("is_late", "index by-late"),
            ("not is_late and dest = 'ATL'", "index by-late"),
            ("dest <> 'ATL'", "scan"),
            ("dest = 'ATL' or delay > 3", "scan"),
            ("key >= 'k05'", "range"),
            ("key >= 'k05' and dest = 'ATL'", "index by-dest"),
        ):
            assert asked(made, condition)[1] == plan, condition
        answer = made.ask(f"keys?where={quote(chr(39).join(['dest = ', 'ATL', '']))}")
        assert answer.named[b"examined"] == b"10"


def test_lines_counts_and_groups_use_it(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(40):
            put_row(made, f"k{number:02}", {"dest": f"D{number % 8}", "delay": number})
        where = quote("dest = 'D3'")
        lines = made.ask(f"keys?where={where}", accept=NDJSON)
        assert lines.named[b"plan"] == b"index by-dest"
        keys = [json.loads(line)["key"] for line in lines.body.splitlines()]
        assert keys == ["k03", "k11", "k19", "k27", "k35"]
        count = made.ask(f"count?exact=true&where={where}")
        assert (count.json["count"], count.named[b"examined"]) == (5, b"5")
        top = made.ask(f"top?by=delay&where={where}&limit=1")
        assert (top.json["items"][0]["key"], top.named[b"plan"]) == ("k35", b"index by-dest")
        groups = made.ask(f"aggregate?by=dest&value=delay&where={where}")
        assert groups.json["items"][0]["sum"] == 95


def test_a_view_with_bounded_scans_allows_indexes(tmp_path: Path) -> None:
    with flights(tmp_path, replace(INDEXED, scans="bounded")) as made:
        put_row(made, "k1", {"dest": "ATL"})
        assert asked(made, "dest = 'ATL'")[0] == ["k1"]
        assert made.code(f"keys?where={quote('key is not null')}", 400) == "no-index"


def test_an_unreadable_value_is_never_missing(tmp_path: Path) -> None:
    """Its fields are not known, so it is in the answer of each condition on them, as in a scan."""
    with flights(tmp_path) as made:
        put_row(made, "k1", {"dest": "ATL"})
        put(made, b"k2", b"{not json")
        plain = made.ask("keys").json["items"]
        for condition in ("dest = 'ATL'", "dest = 'ATL' and delay > 3", "delay is null"):
            answer = made.ask(f"keys?where={quote(condition)}")
            assert answer.named[b"plan"].startswith(b"index")
            assert [item for item in answer.json["items"] if item["key"] == "k2"] == plain[1:]


def test_a_cursor_survives_another_plan(tmp_path: Path) -> None:
    """Rows come in the order of keys from every plan, so a page can go on with another one."""
    with flights(tmp_path) as made:
        for number in range(12):
            put_row(made, f"k{number:02}", {"dest": "ATL", "delay": number % 5})
        where = quote("delay >= 2")
        first = made.ask(f"keys?where={where}&limit=3")
        cursor = first.json["next"]
        for store_partition in made.store_partitions.values():
            store_partition.indexes.ready = {}  # type: ignore[union-attr]
        second = made.ask(f"keys?where={where}&limit=9&cursor={cursor}")
        assert (first.named[b"plan"], second.named[b"plan"]) == (b"index by-delay", b"scan")
        keys = [item["key"] for page in (first, second) for item in page.json["items"]]
        assert keys == [f"k{number:02}" for number in range(12) if number % 5 >= 2]


@pytest.mark.parametrize("more", ["", " and price > 0"], ids=["in-order", "walked"])
def test_a_sweep_between_two_ranges_hides_no_entry(tmp_path: Path, more: str) -> None:
    """Trap: an entry moves from a range that is still to be read to one that was read, and a sweep
    deletes the key that it had."""
    with flights(tmp_path, replace(INDEXED, indexes=INDEXES[:1])) as made:
        put_row(made, "k1", {"dest": "JFK", "price": 1})
        partition = made.store_partitions[made.partition(b"k1")]
        at_one_moment = partition.store.at_one_moment

        def move_after_first_range(*given: Any) -> Any:
            get, (first, *others) = at_one_moment(*given)

            def then_moved() -> Iterator[Any]:
                yield from first
                put_row(made, "k1", {"dest": "ATL", "price": 1})
                sweep(partition)

            return get, [then_moved(), *others]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partition.store, "at_one_moment", move_after_first_range)
            assert asked(made, f"dest in ('ATL', 'JFK'){more}")[0] == ["k1"]


def sweep(store_partition: StorePartition) -> None:
    assert store_partition.indexes is not None
    store_partition.indexes.begin_sweep()
    work = IndexWork(PartitionWriter(lambda: None), ReadPriority(lambda: 0))
    work.run(store_partition, time.monotonic() + 30)


def test_whole_numbers_of_more_than_64_bits_are_null(tmp_path: Path) -> None:
    """-2^63 - 1 as a float is -2^63, which has 64 bits."""
    with flights(tmp_path) as made:
        put(made, b"k1", b'{"dest":"ATL","delay":-9223372036854775809}')
        put(made, b"k2", b'{"dest":18446744073709551616,"delay":-9223372036854775807}')
        for condition, expected in (
            ("delay is null", ["k1"]),
            ("dest is null", ["k2"]),
            ("delay <= -9223372036854775807", ["k2"]),
        ):
            keys, plan = asked(made, condition)
            assert (keys, plan[:6]) == (expected, "index "), condition


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_an_entry_that_several_keys_name_comes_once(tmp_path: Path, order: str) -> None:
    with flights(tmp_path) as made:
        put(made, b"k1", b"{not json")
        for dest in ("ATL", "JFK", "ATL"):
            put_row(made, "k1", {"dest": dest})
            put_row(made, "k2", {"dest": dest})
        for where in ("dest = 'ATL'", "dest in ('ATL', 'JFK')", "dest in ('ATL', 'JFK', 'SEA')"):
            keys, plan = asked(made, where, f"&order={order}&limit=5")
            assert sorted(keys) == ["k1", "k2"]
            assert plan.startswith("index")
            [count] = [made.ask(f"count?where={quote(where)}").json["count"]]
            assert count == 2
