"""The plan `key`: a condition names the keys, and only their owners are asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import NDJSON, World, world
from tests.unit.backend.indexes.test_index_plans import INDEXED


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        made.put_all({b"k%02d" % n: b'{"n":%d}' % n for n in range(40)})
        yield made


def keys_of(of: World, where: str, more: str = "") -> list[str]:
    answer = of.ask(f"keys?where={quote(where)}{more}")
    assert answer.status == 200, answer.body
    return [item["key"] for item in answer.json["items"]]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("key = 'k07'", ["k07"]),
        ("'k07' = key and n > 3", ["k07"]),
        ("key = 'k07' and n > 9", []),
        ("key in ('k31', 'k02', 'nowhere', 'k17')", ["k02", "k17", "k31"]),
        ("key in ('k31', 'k02') and key in ('k02', 'k05')", ["k02"]),
        ("key in ('k31', 'k02') and key > 'k1'", ["k31"]),
    ],
)
def test_only_these_keys_are_read(orders: World, where: str, keys: list[str]) -> None:
    answer = orders.ask(f"keys?where={quote(where)}")
    assert [item["key"] for item in answer.json["items"]] == keys
    assert answer.named[b"plan"] == b"key"
    assert int(answer.named[b"examined"]) <= 4
    assert keys_of(orders, where, "&order=desc") == keys[::-1]
    count = orders.ask(f"count?exact=true&where={quote(where)}")
    assert (count.json["count"], count.named[b"plan"]) == (len(keys), b"key")
    assert len(orders.ask(f"keys?where={quote(where)}", accept=NDJSON).body.splitlines()) == len(
        keys
    )


def test_only_the_owners_of_the_keys_are_asked(orders: World) -> None:
    home = {name: orders.partition(name.encode()) % 2 for name in ("k01", "k02", "k03", "k04")}
    own = next(name for name, at in home.items() if at == 0)
    other = next(name for name, at in home.items() if at == 1)
    orders.peers.asked.clear()
    assert keys_of(orders, f"key = '{own}'") == [own]
    assert orders.peers.asked == []
    assert keys_of(orders, f"key = '{other}'") == [other]
    assert len(orders.peers.asked) == 1
    orders.peers.down.add("b2")
    assert keys_of(orders, f"key = '{own}'") == [own]


def test_pages_go_on_with_the_next_key(orders: World) -> None:
    where = quote("key in ('k31', 'k02', 'k17', 'k20')")
    first = orders.ask(f"keys?where={where}&limit=3").json
    assert [item["key"] for item in first["items"]] == ["k02", "k17", "k20"]
    second = orders.ask(f"keys?where={where}&limit=3&cursor={first['next']}").json
    assert ([item["key"] for item in second["items"]], second["next"]) == (["k31"], None)


def test_a_key_that_may_be_anywhere_is_looked_for_everywhere(orders: World) -> None:
    key = next(b"k%02d" % n for n in range(40) if orders.partition(b"k%02d" % n) == 0)
    orders.put(key, b'{"n":99}', timestamp=9, partition=1)
    orders.place(0, 1, 0, 1, mispartitioned=True)
    assert keys_of(orders, f"key = '{key.decode()}' and n = 99") == [key.decode()]


@pytest.mark.parametrize("where", ["key = 5.0", "key in (5, 6.0)", "key = 5 or key = 6"])
def test_numbers_that_are_equal_to_a_key(tmp_path: Path, where: str) -> None:
    with world(tmp_path, view(key="int64")) as made:
        made.put_all({n.to_bytes(8, "big"): b'{"n":1}' for n in range(9)})
        answer = made.ask(f"keys?where={quote(where)}")
        assert 5 in [item["key"] for item in answer.json["items"]]


@pytest.mark.parametrize("store", ["window", "session", "versioned"])
def test_all_entries_of_a_key(tmp_path: Path, store: str) -> None:
    of = view(store=store, window_size=10 if store == "window" else None)
    with world(tmp_path, of) as made:
        for name in (b"a", b"ab", b"b"):
            for at in range(3):
                suffix = {
                    "window": (10 * at).to_bytes(8, "big") + bytes(4),
                    "session": (10 * at).to_bytes(8, "big") * 2,
                }.get(store, b"")
                made.put(name + suffix, b'{"n":%d}' % at, timestamp=10 * at)
        resource = {"window": "windows", "session": "sessions"}.get(store, "keys")
        where = quote("key in ('a', 'b')")
        for more in ("", "&order=desc"):
            answer = made.ask(f"{resource}?where={where}{more}")
            names = [item["key"] for item in answer.json["items"]]
            each = 1 if store == "versioned" else 3
            assert sorted(names) == ["a"] * each + ["b"] * each
            assert answer.named[b"plan"] == b"key"


def test_a_key_is_preferred_to_an_index(tmp_path: Path) -> None:
    with world(tmp_path, INDEXED) as made:
        made.put_all({b"k1": b'{"dest":"ATL"}'})
        where = quote("key = 'k1' and dest = 'ATL'")
        assert made.ask(f"keys?where={where}").named[b"plan"] == b"key"
