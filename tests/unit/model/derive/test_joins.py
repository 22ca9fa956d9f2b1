"""Joins with tables that change, and with static ones."""

from __future__ import annotations

import tomllib

import pytest

from model.derive.normal_form import normal_form
from model.derive.reading import TableError
from model.derive.table import parse_derivation

ORDERS = """
from = "orders"
kind = "table"
fields = { customer = "string?", amount = "int" }
key = "record_key"
[join.buyer]
from = "customers"
on = "customer"
fields = { name = "string", age = "int?" }
"""
STREAM = ORDERS.replace('kind = "table"\n', "").replace("record_key", "amount")


def replaced(old: str, new: str, text: str = ORDERS) -> str:
    assert old in text
    return text.replace(old, new)


def test_a_join_follows_changes_unless_it_is_static() -> None:
    selected = (
        'key = "record_key"\nselect = { who = "buyer.name", n = "amount" }\nwhere = "buyer.age > 1"'
    )
    found = parse_derivation(tomllib.loads(replaced('key = "record_key"', selected)))
    assert [join.name for join in found.changing] == ["buyer"]
    assert found.where_is_last
    assert found.is_map
    static = parse_derivation(
        tomllib.loads(replaced('on = "customer"', 'static = true\non = "customer"'))
    )
    assert static.changing == ()
    assert [join.static for join in static.joins] == [True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            replaced("key =", "count = true\nkey =", STREAM),
            "customers may change, and count cannot take back what it has counted with an earlier "
            "row. Write static = true if the topic never gets another record. Otherwise write two "
            "views: this one without count, and one whose from is its topic, "
            'with kind = "table"',
        ),
        (
            replaced('"amount"', "\"coalesce(buyer.name, '')\"", STREAM),
            "cannot have buyer.name, because the table may change",
        ),
        (
            replaced('key = "amount"', 'key = "amount"\npoints = true', STREAM),
            "not with buyer, a table that changes: put the time into key",
        ),
        (replaced("on =", "static = 1\non ="), "1 is not true or false"),
        (
            replaced("on =", 'type = "inner"\non ='),
            "a join is a left join: fields are null without a row. For an inner join, write "
            'where = "buyer.name is not null"',
        ),
        (replaced("on =", 'key = "id"\non ='), "on is compared with the record keys"),
    ],
)  # fmt: skip
def test_what_a_changing_join_cannot_do(text: str, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_derivation(tomllib.loads(text))
    assert message in str(error.value)


def test_a_static_join_of_an_earlier_release_continues_when_it_says_so() -> None:
    """Earlier releases had static joins alone, and no key ``static``."""

    def form(text: str) -> dict[str, str]:
        return dict(normal_form(tomllib.loads(text)))

    static = form(replaced("on =", "static = true\non ="))
    fields = '{"name": "string", "age": "int?"}'
    stored = f'{{"buyer": {{"from": "customers", "on": "customer", "fields": {fields}}}}}'
    assert static["join"] == stored
    assert form(ORDERS)["join"] == stored.replace("}}}", '}, "static": false}}')
    assert form(replaced("on =", "static = false\non =")) == form(ORDERS)


PAIRS = """
from = "orders"
fields = { id = "int", amount = "int" }
key = "concat(id, '-', payment.number)"
[join.payment]
from = "payments"
on = "id"
key = "order"
within = "1h"
fields = { order = "int", number = "int", note = "string?" }
"""


def test_a_join_of_two_streams() -> None:
    found = parse_derivation(tomllib.loads(PAIRS))
    assert found.changing == ()
    join = found.pairs
    assert join is not None
    assert (join.within, join.source) == (3_600_000, "payments")
    # without time, that of the record
    assert found.time is not None
    assert found.time.field == "record_timestamp"
    assert join.stream is not None
    assert join.stream.time == found.time
    on_key = replaced(
        'key = "order"\n', "", replaced('on = "id"', "on = \"concat(id, '')\"", PAIRS)
    )
    other = parse_derivation(tomllib.loads(on_key)).pairs
    assert other is not None
    assert other.stream is not None
    assert other.stream.where is not None  # the record's key is not null


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (replaced("key = \"concat(id, '-', payment.number)\"", 'key = "id"', PAIRS),
         "has no field of payment. A record may be in several pairs"),
        (replaced("concat(id, '-', payment.number)", "payment.number", PAIRS),
         "has no field of orders"),
        (replaced("key = \"concat", "count = true\nkey = \"concat", PAIRS),
         "not with a join of two streams, which Spark cannot aggregate. Write two views"),
        (replaced('key = "order"', 'key = "note"', PAIRS), '"note" may be null'),
        (replaced("order = \"int\"", 'order = "string"', PAIRS),
         "is a whole number, and key is a string; cast one of them"),
        (replaced('"1h"', '"1 hour ago"', PAIRS), "is not a valid duration"),
        (replaced('within = "1h"', 'within = "1h"\nstatic = true', PAIRS), "unknown key"),
        (PAIRS + '[join.c]\nfrom = "c"\non = "concat(id)"\nfields = { a = "int" }',
         "has no other join"),
        (replaced("key = \"concat", "kind = \"table\"\nkey = \"concat", PAIRS),
         'only for two streams, and from has kind = "table"'),
    ],
)  # fmt: skip
def test_what_a_join_of_two_streams_cannot_do(text: str, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_derivation(tomllib.loads(text))
    assert message in str(error.value)
