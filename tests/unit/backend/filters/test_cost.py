"""What a condition may cost: entries, time in the event loop, memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from backend.queries.filters.condition import Condition, _compiled, condition_of
from backend.queries.filters.selection import selection_of
from backend.queries.scans import scatter_gather
from backend.queries.scans.scan_budget import ScanBudget
from model.records import entry_head
from tests.support.in_process.avro_examples import ORDER, FakeSchemas, framed
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import NDJSON, World, numbered, world


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        made.put_all(numbered(100))  # type: ignore[arg-type]
        yield made


@pytest.mark.parametrize("where", ["n < 0", "n >= 0"])
def test_a_stream_refuses_to_examine_more(orders: World, where: str) -> None:
    """It has no cursor: if it ended early, the rest would be missing."""
    target = f"keys?where={quote(where)}&max_examined="
    answer = orders.ask(f"{target}10", accept=NDJSON)
    assert (answer.status, answer.json["code"]) == (400, "too-many-entries")
    assert len(orders.peers.asked) <= 4, "not one request an entry"
    answer = orders.ask(f"{target}100", accept=NDJSON)
    assert answer.status == 200
    assert answer.body.count(b"\n") == (100 if where == "n >= 0" else 0)


def test_pages_of_one_entry_go_on_to_the_end(orders: World) -> None:
    for order in ("asc", "desc"):
        keys, pages = [], 0
        target = f"keys?where={quote('mod(n, 40) = 7')}&max_examined=1&order={order}"
        for page in orders.pages(f"{target}&from=key-00005&to=key-00050"):
            keys += [item["key"] for item in page]
            pages += 1
        expected = ["key-00007", "key-00047"]
        assert keys == (expected if order == "asc" else expected[::-1])
        assert pages > 10


def test_regular_expressions_are_refused(orders: World) -> None:
    """One of them could hold the event loop for minutes at a long value."""
    for where in (
        "regexp_like(a, 'x')",
        "not (n = 1 or regexp_extract(key, '[0-9]+') = '7')",
        "regexp_like(key, '.*x.*y')",
    ):
        answer = orders.ask(f"keys?where={quote(where)}")
        assert (answer.status, answer.json["code"]) == (400, "bad-parameter")
        assert "regular expression" in answer.json["detail"]


def test_a_search_for_any_characters_is_short(orders: World) -> None:
    """It takes time in proportion to the length of both texts: 1.4 s for 1 MB and 1,800."""
    for pattern, status in (
        ("%" + "_x" * 26 + "%", 400),
        ("%" + "_x" * 25 + "%", 200),
        ("_x" * 100, 200),
        ("_x" * 100 + "%" + "_x" * 100, 200),
        ("%" + "x" * 200 + "%", 200),
    ):
        where = quote(f"key like '{pattern}'")
        answer = orders.ask(f"keys?where={where}")
        assert answer.status == status, pattern
        assert (status == 400) is ("at most 50 characters" in answer.json.get("detail", ""))


def test_the_coordinator_filters_in_steps(orders: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a key may be in several partitions, one instance compares all rows."""
    orders.place(0, 1, 0, 1, mispartitioned=True)
    sizes = []
    kept = scatter_gather.filtered

    def counted(view, query, what, rows):  # type: ignore[no-untyped-def]
        sizes.append(len(rows))
        return kept(view, query, what, rows)

    monkeypatch.setattr(scatter_gather, "filtered", counted)
    assert len(orders.ask(f"keys?where={quote('n >= 0')}&limit=100").json["items"]) == 100
    assert sum(sizes) == 100
    assert max(sizes) <= 50


def test_an_owner_compares_a_chunk_at_a_time(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its partitions has read a chunk: together, they would be several steps."""
    sizes = []
    kept = Condition.kept

    def counted(self, pairs):  # type: ignore[no-untyped-def]
        sizes.append(len(pairs))
        return kept(self, pairs)

    monkeypatch.setattr(Condition, "kept", counted)
    chunk = property(lambda _: 8, lambda *_: None)
    monkeypatch.setattr(ScanBudget, "chunk", chunk, raising=False)
    assert len(orders.ask(f"keys?where={quote('n >= 0')}&limit=100").json["items"]) == 100
    assert sum(sizes) >= 100
    assert max(sizes) <= 8


def test_kept_conditions_have_bounded_memory() -> None:
    text = " or ".join(f"a.b.c.d.e.f.g.h.i.j.k{number} = 1" for number in range(60))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        condition = Condition(ORDERS, text)
        size = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert condition.needs_values
    assert size * _compiled.cache_info().maxsize < 32 << 20


def test_kept_conditions_and_selections_are_those_of_a_source_of_schemas() -> None:
    """Equal views may have another source: after another reading of views.toml, and in tests."""
    plain = view(value="avro", value_schema="confluent")
    renamed = {**ORDER, "fields": [{"name": "number", "type": "long"}]}
    for schema, name in ((ORDER, "id"), (renamed, "number")):
        of = replace(plain, schemas=FakeSchemas(id7=schema))
        value = {"id": 1, "price": 2.0} if name == "id" else {"number": 1}
        pair = b"k", entry_head(1, 1) + framed(7, schema, value)
        assert len(condition_of(of, "id = 1 or number = 1").kept([pair])) == 1
        [item] = selection_of(of, "id,number").items([pair])
        assert json.loads(item)["value"][name] == 1
