"""Decimals and other texts as numbers of `aggregate` and `top`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.queries.scans.scatter_gather import SCAN_PATH
from backend.queries.whole_view.numbers import Numbers
from backend.wire.answer import Answer
from backend.wire.scan import Query
from backend.wire.scan_codec import ScanRequest, encode_request
from model.topology import Member
from model.views import View
from tests.support.in_process.avro_examples import FakeSchemas, binary, framed
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import PARTITIONS, World, world

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30,
                                   "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ],
}  # fmt: skip
BARE = view(value="avro", value_schema=json.dumps(ORDER))
FRAMED = replace(view(value="avro", value_schema="confluent"), schemas=FakeSchemas(id7=ORDER))
PRICES = ("2.50", "0.10", "0.20", "-12.05", "12345678901234567890.12", "3.00")
EXACT = "12345678901234567883.87"


def record(price: str) -> dict[str, object]:
    return {"price": Decimal(price), "day": date(2026, 11, 29)}


WRITERS: list[tuple[View, Callable[[str], bytes]]] = [
    (BARE, lambda price: binary(ORDER, record(price))),
    (FRAMED, lambda price: framed(7, ORDER, record(price))),
    (
        view(unwrap="debezium"),
        lambda price: b'{"price":"%b","day":"2026-11-29"}' % price.encode(),
    ),
]


def put(made: World, write: Callable[[str], bytes], prices: tuple[str, ...] = PRICES) -> None:
    made.put_all({b"k%d" % n: write(price) for n, price in enumerate(prices)})


def added(numbers: list[int | float | Decimal]) -> Numbers:
    found = Numbers(entries=len(numbers))
    for number in numbers:
        found.add(number)
    return found


@pytest.mark.parametrize(("of", "write"), WRITERS)
def test_sums_of_decimals_have_all_their_digits(
    tmp_path: Path, of: View, write: Callable[[str], bytes]
) -> None:
    with world(tmp_path, of) as made:
        put(made, write)
        answer = made.ask("aggregate?value=price", "b1")
        assert answer.status == 200
        assert answer.body.decode() == (
            f'{{"items":[{{"group":null,"entries":6,"count":6,"sum":{EXACT},"min":-12.05,'
            f'"max":12345678901234567890.12,"avg":{float(Fraction(EXACT) / 6)!r}}}]}}'
        )


@pytest.mark.parametrize(("of", "write"), WRITERS)
def test_the_greatest_decimals(tmp_path: Path, of: View, write: Callable[[str], bytes]) -> None:
    with world(tmp_path, of) as made:
        put(made, write)
        for order, expected in (("desc", [4, 5, 0]), ("asc", [3, 1, 2])):
            answer = made.ask(f"top?by=price&order={order}&limit=3", "b1")
            assert [each["key"] for each in json.loads(answer.body)["items"]] == [
                f"k{n}" for n in expected
            ]


@pytest.mark.parametrize("query", ["aggregate?value=day", "aggregate?by=price&value=day"])
@pytest.mark.parametrize(("of", "write"), WRITERS)
def test_a_field_of_texts_is_named(
    tmp_path: Path, of: View, write: Callable[[str], bytes], query: str
) -> None:
    with world(tmp_path, of) as made:
        put(made, write)
        for target in (query, "top?by=day"):
            answer = made.ask(target, "b1")
            assert answer.status == 400, answer.body
            problem = json.loads(answer.body)
            assert problem["code"] == "bad-parameter"
            assert "texts such as '2026-11-29', and no numbers" in problem["detail"]


@pytest.mark.parametrize("text", ["12.5", "APo=", "2026-11-29T10:00:00Z"])
def test_texts_in_json_are_named(tmp_path: Path, text: str) -> None:
    value = b'{"n":"%b","m":1}' % text.encode()
    with world(tmp_path, ORDERS) as made:
        made.put_all({b"a": value, b"b": b'{"m":2}', b"c": value})
        for target in ("aggregate?value=n", "aggregate?by=m&value=n", "top?by=n"):
            answer = made.ask(target, "b2")
            assert (answer.status, text in answer.body.decode()) == (400, True)
        # a number somewhere: the others have none
        made.put_all({b"d": b'{"n":1.5}'})
        assert json.loads(made.ask("aggregate?value=n", "b1").body)["items"][0]["count"] == 1
        assert len(json.loads(made.ask("top?by=n", "b1").body)["items"]) == 1
        # nothing but missing fields is no mistake
        assert json.loads(made.ask("top?by=x", "b1").body)["items"] == []


decimals = st.decimals(allow_nan=False, allow_infinity=False, places=7)
numbers = decimals | st.integers(-(2**63), 2**64) | st.decimals(-9, 9, places=1)


@given(st.lists(st.lists(numbers, max_size=5), min_size=1, max_size=3))
def test_sums_of_decimals_are_exact_however_they_are_split(
    parts: list[list[int | float | Decimal]],
) -> None:
    merged = Numbers()
    for part in parts:
        merged.merge(Numbers.from_wire(added(part).to_wire()))
    all_of_them = [number for part in parts for number in part]
    if not all_of_them:
        return
    total = sum(map(Fraction, all_of_them), Fraction())
    assert merged.sum is not None
    assert Fraction(merged.sum) == total
    assert merged.average == float(total / len(all_of_them))
    assert (merged.least, merged.greatest) == (min(all_of_them), max(all_of_them))


def test_a_sum_with_a_float_is_rounded_once() -> None:
    found = added([Decimal("0.1"), 0.25, 1])
    assert found.sum == float(Fraction(1, 10) + Fraction(1, 4) + 1)


def test_extremes_of_equal_decimals_do_not_depend_on_their_order() -> None:
    for order in permutations([Decimal("1.0"), Decimal("1.00"), 1]):
        found = added([*order])
        assert (repr(found.least), repr(found.greatest)) == ("1", "Decimal('1.00')")


KNOWN_BEFORE = {"by", "value", "descending", "limit"}
TARGETS = ("aggregate?value=price", "aggregate?by=day&value=price", "top?by=price")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("of", "write"), WRITERS)
def test_no_answer_lacks_the_decimals_of_an_instance_of_the_release_before(
    tmp_path: Path, of: View, write: Callable[[str], bytes], target: str
) -> None:
    """It would say that its partitions have no numbers. It refuses arguments that it does not know:
    here it is asked for one more, as it knows all others."""
    with world(tmp_path, of) as made:
        put(made, write)
        forward = made.peers.forward

        async def before(member: Member, *to: Any, **more: Any) -> Answer:
            *others, body = to
            question = json.loads(body)
            if question["arguments"].keys() - KNOWN_BEFORE:
                question["arguments"]["unknown"] = True
            return await forward(member, *others, json.dumps(question).encode(), **more)

        made.peers.forward = before  # type: ignore[method-assign]
        assert made.ask(target).status == 503
        # it counts and groups alike
        assert made.ask("aggregate?by=price").status == 200


def test_an_instance_of_the_release_before_is_not_given_decimals_that_it_would_leave_out(
    tmp_path: Path,
) -> None:
    """It would rank by numbers alone, and entries with them may be missing behind the decimals."""
    arguments = {"by": "price", "descending": True, "limit": 3}
    for of, status in ((BARE, 400), (ORDERS, 200)):
        with world(tmp_path / of.value, of) as made:
            ask = ScanRequest(of.name, of.hash, PARTITIONS, "top", Query(), 4, arguments)
            request = made.request("b1", "POST", SCAN_PATH.decode(), encode_request(ask, [0], None))
            assert asyncio.run(request).status == status


def test_instances_of_earlier_releases_read_numbers_without_decimals() -> None:
    assert len(json.loads(added([1, 2.5]).to_wire())) == 7
    assert len(json.loads(added([Decimal("2.50")]).to_wire())) == 10
