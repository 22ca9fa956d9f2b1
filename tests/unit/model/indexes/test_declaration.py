"""`[views.NAME.indexes]` in views.toml."""

from __future__ import annotations

import pytest

from model.problems import ConfigurationError
from model.views import View
from model.views_file import parse_views

BASE = """
[views.flights]
topic = "flights"
key = "string"
value = "json"
{more}
[views.flights.fields]
dest = "string"
delay = "int?"
tags = "strings?"
sizes = "longs"
attributes = "map"
"""


def flights(indexes: str, more: str = "") -> View:
    [view] = parse_views(BASE.format(more=more) + indexes).views
    return view


def test_indexes_have_declared_fields_in_their_order() -> None:
    view = flights('[views.flights.indexes]\nby-route = ["dest", "delay"]\nby-delay = ["delay"]')
    assert [(index.name, [f.name for f in index.fields]) for index in view.indexes] == [
        ("by-route", ["dest", "delay"]),
        ("by-delay", ["delay"]),
    ]


def test_a_list_may_be_any_field() -> None:
    view = flights('[views.flights.indexes]\na = ["tags"]\nb = ["dest", "sizes"]\nc = ["dest"]')
    assert [index.list_at for index in view.indexes] == [0, 1, None]


def test_indexes_do_not_change_the_definition_of_a_view() -> None:
    with_index = flights('[views.flights.indexes]\nby-dest = ["dest"]')
    assert with_index.hash == flights("").hash
    assert with_index == flights("")


@pytest.mark.parametrize(
    ("indexes", "more", "message"),
    [
        ('by-dest = ["origin"]', "", "declared fields: dest, delay, tags, sizes, attributes"),
        (
            'by-map = ["attributes"]',
            "",
            "'attributes' is a map of strings, which cannot be indexed",
        ),
        ('by-tags = ["tags", "dest", "sizes"]', "", "'sizes' is a second list"),
        ('by-dest = "dest"', "", "must be a list of 1 to 4 fields"),
        ("by-dest = []", "", "must be a list of 1 to 4 fields"),
        ('by-dest = ["dest", "dest"]', "", "is in it twice"),
        ('"by dest" = ["dest"]', "", "is not a name"),
        ('a = ["dest"]\nb = ["dest"]', "", "has the same fields as a"),
        ("\n".join(f'i{n} = ["dest"]' for n in range(9)), "", "at most 8"),
        ('by-dest = ["dest"]', 'store = "versioned"', 'not for store = "versioned"'),
        ('by-dest = ["dest"]', 'partitioner = "none"', "keys are in several partitions"),
    ],
)
def test_mistakes(indexes: str, more: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=r"views\.flights") as error:
        flights(f"[views.flights.indexes]\n{indexes}", more)
    assert message in str(error.value)
