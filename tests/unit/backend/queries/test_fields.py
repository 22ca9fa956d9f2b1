"""Numbers in values: 64-bit integers and infinite numbers, which JSON has as strings."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal

import pytest

from backend.queries.whole_view.fields import NumberField
from model.formats.protobuf.codecs import definition
from model.formats.protobuf.schema import from_descriptor_set
from model.rows.documents import Documents
from tests.support.in_process.avro_examples import ORDER, FakeSchemas, binary, framed
from tests.support.in_process.examples import view
from tests.support.in_process.protobuf_examples import DESCRIPTORS, order


def test_64_bit_integers_of_protobuf_are_numbers() -> None:
    shop = definition("shop.Order", from_descriptor_set(DESCRIPTORS))
    orders = view(value="protobuf", value_schema=shop)
    field = NumberField(orders, "orderId", "by")
    ids = [0, 5, -1, 2**63 - 1, -(2**63)]
    found = field.values(Documents(orders).parse([order(order_id=each) for each in ids]))
    assert found == ids
    notes = NumberField(orders, "note", "by")
    documents = Documents(orders).parse([order(note=text) for text in ("7", "7.5", "", "x", "٣")])
    assert notes.values(documents) == [7, Decimal("7.5"), None, None, None]
    assert notes.values(Documents(orders).parse([order()])) == [None]


SCHEMAS = {
    "avro": (json.dumps(ORDER), lambda price: binary(ORDER, {"id": 1, "price": price})),
    "protobuf": (
        definition("shop.Order", from_descriptor_set(DESCRIPTORS)),
        lambda price: order(price=price),
    ),
}


@pytest.mark.parametrize("value", list(SCHEMAS))
def test_infinite_numbers_in_fields(value: str) -> None:
    schema, record = SCHEMAS[value]
    orders = view(value=value, value_schema=schema)
    prices = [math.inf, 1.5, -math.inf, math.nan]
    documents = Documents(orders).parse([record(price) for price in prices])
    found = NumberField(orders, "price", "by").values(documents)
    assert found == [math.inf, 1.5, -math.inf, None]


def test_infinite_numbers_of_confluent_avro() -> None:
    of = replace(view(value="avro", value_schema="confluent"), schemas=FakeSchemas(id7=ORDER))
    records = [framed(7, ORDER, {"id": 1, "price": price}) for price in (math.inf, 2.0)]
    documents = Documents(of).parse(records)
    assert NumberField(of, "price", "by").values(documents) == [math.inf, 2.0]


def test_strings_of_other_formats_are_no_numbers() -> None:
    documents = view(value="json")
    field = NumberField(documents, "n", "by")
    assert field.values(Documents(documents).parse([b'{"n":"7"}', b'{"n":7}'])) == [None, 7]
    assert field.values(Documents(documents).parse([b'{"n":"Infinity"}'])) == [None]
