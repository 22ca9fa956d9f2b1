"""`/views/{view}/by/{field}/{value}`, and `explain` of indexes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from backend.http.paths import Paths
from backend.http.route_table import RouteTable
from model.indexes.declaration import parse_indexes
from model.rows.declared_fields import parse_declared_fields
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import NDJSON, World
from tests.unit.backend.indexes.test_index_plans import INDEXED, flights, put_row


def keys_of(of: World, path: str) -> list[str]:
    answer = of.ask(path)
    assert answer.status == 200, answer.body
    assert answer.named[b"plan"].startswith(b"index ")
    return [item["key"] for item in answer.json["items"]]


def test_values_of_each_type(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        put_row(made, "k1", {"dest": "A'B/C %", "delay": -5, "price": 0.5, "is_late": False})
        put_row(made, "k2", {"dest": "ATL", "delay": 7, "price": 1, "is_late": True})
        assert keys_of(made, f"by/dest/{quote(chr(39).join(('A', 'B/C %')), safe='')}") == ["k1"]
        assert keys_of(made, "by/delay/-5") == ["k1"]
        assert keys_of(made, "by/price/1.0") == ["k2"]
        assert keys_of(made, "by/is_late/false") == ["k1"]
        assert keys_of(made, "by/value.dest/ATL") == ["k2"]
        assert keys_of(made, "by/dest/nowhere") == []


def test_other_parameters_of_pages(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        for number in range(6):
            put_row(made, f"k{number}", {"dest": "ATL", "delay": number})
        where = quote("delay < 2 or delay > 3")
        assert keys_of(made, f"by/dest/ATL?where={where}") == ["k0", "k1", "k4", "k5"]
        assert keys_of(made, "by/dest/ATL?order_by=delay&order=desc&limit=2") == ["k5", "k4"]
        lines = made.ask("by/dest/ATL?select=delay", accept=NDJSON).body.splitlines()
        assert len(lines) == 6
        page = made.ask("by/dest/ATL?limit=4").json
        assert keys_of(made, f"by/dest/ATL?limit=4&cursor={page['next']}") == ["k4", "k5"]
        broken = quote("delay < 2) or (delay > 3")
        assert made.code(f"by/dest/ATL?where={broken}", 400) == "bad-parameter"


def test_it_never_scans(tmp_path: Path) -> None:
    with flights(tmp_path) as made:
        put_row(made, "k1", {"dest": "ATL"})
        assert made.code("by/crew/Ada", 400) == "no-index"
        assert made.code("by/delay/soon", 400) == "bad-parameter"
        assert made.code("by/is_late/1", 400) == "bad-parameter"
        indexes = made.store_partitions[0].indexes
        assert indexes is not None
        indexes.ready = {}
        assert made.code("by/dest/ATL", 503) == "index-building"
        made.place(0, 1, 0, 1, mispartitioned=True)
        assert made.code("by/dest/ATL", 503) == "mis-partitioned"


def test_names_of_deep_fields(tmp_path: Path) -> None:
    fields = parse_declared_fields({"crew": {"captain": "string?"}, '"odd-name"': "int?"})
    indexes = parse_indexes({"a": ["crew.captain"], "b": ['"odd-name"']}, fields)
    with flights(tmp_path, replace(ORDERS, fields=fields, indexes=indexes)) as made:
        put_row(made, "k1", {"crew": {"captain": "Ada"}})
        assert keys_of(made, "by/crew.captain/Ada") == ["k1"]


@pytest.mark.parametrize("path", ["by", "by/dest", "by/dest/", "by//ATL", "by/dest/ATL/more"])
def test_other_paths_are_not_of_this_route(tmp_path: Path, path: str) -> None:
    with flights(tmp_path) as made:
        versions = made.instances["b1"].context.group.versions
        table = RouteTable(made.routers["b1"].routes, Paths(versions), versions)
        assert table.match(b"/views/orders/by/dest/ATL").route.label == "by"
        assert table.match(f"/views/orders/{path}".encode()).route.label != "by"


def test_explain_says_how_many_entries_an_index_names(tmp_path: Path) -> None:
    with flights(tmp_path, replace(INDEXED, scans="bounded")) as made:
        for number in range(60):
            put_row(made, f"k{number}", {"dest": f"D{number % 6}"})
        where = "dest = 'D1'"
        plan = made.ask(f"keys?explain=true&where={quote(where)}").json
        assert plan == {"plan": "index by-dest", "partitions": 4, "entries": 10, "filter": where}
        assert made.ask("by/dest/D1?explain=true").json["entries"] == 10
