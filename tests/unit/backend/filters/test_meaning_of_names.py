"""What names mean in `where` and `select`: names with dots, and the value itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import World, world


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        made.put_all(
            {
                b"k1": b'{"a": {"b": 1}, "a.b": 2}',
                b"k2": b'{"a": {"b": 2}, "a.b": 1}',
                b"k3": b'{"a": {"b": 1, "b.c": 3}, "value": {"a": 4}}',
            }
        )
        yield made


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ('a.b = 1 and value."a.b" = 2', ["k1"]),
        ('value."a.b" = 1 and a.b = 2', ["k2"]),
        ('a.b < value."a.b"', ["k1"]),
        ('a."b.c" = 3 and a.b.c is null', ["k3"]),
        ("value.value.a = 4", ["k3"]),
    ],
)
def test_a_name_with_a_dot_is_no_path(orders: World, where: str, keys: list[str]) -> None:
    items = orders.ask(f"keys?where={quote(where)}").json["items"]
    assert [item["key"] for item in items] == keys


def test_selected_names_mean_the_same_as_in_conditions(orders: World) -> None:
    items = orders.ask("keys?to=k1&select=value.a.b").json["items"]
    assert items == [{"key": "k1", "value": {"a.b": 1}}]
    items = orders.ask("keys?from=k3&select=value,value.value.a").json["items"]
    assert items == [{"key": "k3", "value": {"value": {"a": 4}, "value.a": 4}}]


@pytest.mark.parametrize("select", ['a.b,"a.b"', 'a,"a"', "a,value.a", "a..b", ".a", "a.", '"a"b'])
def test_a_selected_name_is_clear(orders: World, select: str) -> None:
    assert orders.code(f"keys?select={quote(select)}", 400) == "bad-parameter"
