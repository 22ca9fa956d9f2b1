"""Rows in the order of a field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.storage import rocksdb_store
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import NDJSON, World
from tests.unit.backend.indexes.test_index_plans import (
    _CHANGES,
    _WHERE,
    INDEXED,
    flights,
    put_row,
    table_of,
)
from tests.unit.backend.unreadable.applied import put


def keys_of(of: World, order_by: str, more: str = "", instance: str = "b1") -> list[str]:
    """The keys of all pages."""
    keys: list[str] = []
    cursor = ""
    while True:
        answer = of.ask(f"keys?order_by={order_by}{more}{cursor}", instance)
        assert answer.status == 200, answer.body
        keys += [item["key"] for item in answer.json["items"]]
        if answer.json["next"] is None:
            return keys
        cursor = f"&cursor={answer.json['next']}"


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(
    _CHANGES,
    st.none() | _WHERE,
    st.sampled_from(["delay", "price", "dest"]),
    st.booleans(),
    st.integers(1, 5),
    st.booleans(),
)
def test_the_order_is_that_of_sqlite(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, Any]],
    condition: str | None,
    order_by: str,
    backwards: bool,
    limit: int,
    is_busy: bool,
) -> None:
    rows: dict[str, Any] = {}
    with flights(tmp_path_factory.mktemp("w")) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocksdb_store, "_ATTEMPTS", 0 if is_busy else 3)
        for number, row in changes:
            put_row(made, f"k{number:02}", row)
            rows[f"k{number:02}"] = row
        database = table_of(rows)
        order = "desc" if backwards else "asc"
        # the order of places: rows with the same number are in the order of the index's next field
        sql = f"select key, {order_by} from v where {condition or 'true'} order by 2 {order}"
        expected = list(database.execute(sql))
        more = f"&order={order}&limit={limit}"
        if condition is not None:
            more += f"&where={quote(condition)}"
        keys = keys_of(made, order_by, more)
        assert sorted(keys) == sorted(key for key, _ in expected)
        assert [rows[key].get(order_by) for key in keys] == [value for _, value in expected]
        assert keys_of(made, order_by, more, "b2") == keys


def test_rows_with_the_same_value_are_in_the_order_of_keys(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(8):
            put_row(made, f"k{number}", {"delay": number % 2})
        assert keys_of(made, "delay") == [f"k{n}" for n in (0, 2, 4, 6, 1, 3, 5, 7)]
        assert keys_of(made, "delay", "&order=desc&limit=3") == [
            f"k{n}" for n in (7, 5, 3, 1, 6, 4, 2, 0)
        ]


def test_a_stale_key_names_no_row(tmp_path: Path) -> None:
    """Trap: 70 becomes 90. With `delay > 60`, the row is given once, at 90."""
    with flights(tmp_path) as made:
        put_row(made, "k1", {"delay": 70})
        put_row(made, "k2", {"delay": 80})
        put_row(made, "k1", {"delay": 90})
        assert keys_of(made, "delay", f"&where={quote('delay > 60')}") == ["k2", "k1"]


@pytest.mark.parametrize("limit", [1, 2, 10])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_stale_key_on_either_side_names_no_row(tmp_path: Path, order: str, limit: int) -> None:
    with flights(tmp_path) as made:
        for number in range(6):
            put_row(made, f"k{number}", {"delay": 50})
        for number, delay in enumerate((90, 10, 70, 30, 80, 20)):
            put_row(made, f"k{number}", {"delay": delay})
            put_row(made, f"k{number}", {"delay": 100 - delay})
        ascending = ["k0", "k4", "k2", "k3", "k5", "k1"]
        keys = ascending if order == "asc" else ascending[::-1]
        assert keys_of(made, "delay", f"&order={order}&limit={limit}") == keys


def test_only_the_first_rows_are_examined(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(400):
            put_row(made, f"k{number:03}", {"delay": number, "dest": f"D{number % 2}"})
        answer = made.ask("keys?order_by=delay&order=desc&limit=3&select=delay")
        assert [item["value"]["delay"] for item in answer.json["items"]] == [399, 398, 397]
        assert answer.named[b"plan"] == b"index by-delay"
        assert int(answer.named[b"examined"]) < 100
        within = made.ask(
            f"keys?order_by=delay&limit=2&where={quote(chr(39).join(['dest=', 'D1', '']))}"
        )
        assert [item["key"] for item in within.json["items"]] == ["k001", "k003"]
        assert within.named[b"plan"] == b"index by-route"


def test_one_value_of_several_is_enough(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(4):
            put_row(made, f"k{number}", {"delay": -number, "dest": f"D{number % 2}"})
        for where in (
            "dest = 'D1' and dest in ('D0', 'D1')",
            "dest in ('D0', 'D1') and dest = 'D1'",
        ):
            assert keys_of(made, "delay", f"&where={quote(where)}") == ["k3", "k1"]


def test_lines_are_in_order(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in (3, 1, 2):
            put_row(made, f"k{number}", {"delay": -number})
        lines = made.ask("keys?order_by=delay", accept=NDJSON).body.splitlines()
        assert [line[8:10] for line in lines] == [b"k3", b"k2", b"k1"]


def test_unreadable_rows_come_last(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        put(made, b"k1", b"{not json")
        put_row(made, "k2", {"delay": 5})
        put_row(made, "k3", {})
        assert keys_of(made, "delay") == ["k3", "k2", "k1"]
        assert keys_of(made, "delay", "&order=desc") == ["k1", "k2", "k3"]


def test_without_an_index_it_is_refused(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        answer = made.ask("keys?order_by=crew")
        assert (answer.status, answer.json["code"]) == (400, "no-index")
        assert "dest, dest, delay, price, is_late" in answer.json["detail"]
        assert made.code("keys?order_by=a..b", 400) == "bad-parameter"
        assert made.code("count?order_by=delay", 400) == "unknown-parameter"


def test_an_index_that_is_built_is_503(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        put_row(made, "k1", {"delay": 1})
        indexes = made.store_partitions[1].indexes
        assert indexes is not None
        indexes.ready = {}
        assert made.code("keys?order_by=delay", 503) == "index-building"


def test_keys_in_several_partitions_have_no_order(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        made.place(0, 1, 0, 1, mispartitioned=True)
        assert made.code("keys?order_by=delay", 503) == "mis-partitioned"


def test_a_cursor_belongs_to_its_order(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(5):
            put_row(made, f"k{number}", {"delay": number, "price": number})
        cursor = made.ask("keys?order_by=delay&limit=2").json["next"]
        for other in ("", "order_by=price&", "order_by=delay&order=desc&"):
            assert made.code(f"keys?{other}cursor={cursor}", 400) == "cursor-invalid"


def test_instances_with_other_indexes_do_not_mix_answers(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        put_row(made, "k1", {"delay": 1})
        other: Any = made.instances["b2"].context.views
        other["orders"] = replace(INDEXED, indexes=INDEXED.indexes[:1])
        for store_partition in made.instances["b2"].context.store_partitions.all():
            store_partition.view = other["orders"]
        assert made.code("keys?order_by=delay", 503) == "index-building"
        assert replace(ORDERS, indexes=INDEXED.indexes) == ORDERS
