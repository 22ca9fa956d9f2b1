"""Numbers in values: 64-bit integers that JSON has as strings."""

from __future__ import annotations

from backend.queries.whole_view.fields import Documents, NumberField
from model.formats.protobuf.codecs import definition
from model.formats.protobuf.schema import from_descriptor_set
from tests.support.in_process.examples import view
from tests.support.in_process.protobuf_examples import DESCRIPTORS, order


def test_64_bit_integers_of_protobuf_are_numbers() -> None:
    shop = definition("shop.Order", from_descriptor_set(DESCRIPTORS))
    orders = view(value="protobuf", value_schema=shop)
    field = NumberField(orders, "orderId", "by")
    ids = [0, 5, -1, 2**63 - 1, -(2**63)]
    found = field.of(Documents(orders).parse([order(order_id=each) for each in ids]))
    assert found == ids
    notes = NumberField(orders, "note", "by")
    documents = Documents(orders).parse([order(note=text) for text in ("7", "7.5", "", "x", "٣")])
    assert notes.of(documents) == [7, None, None, None, None]
    assert notes.of(Documents(orders).parse([order()])) == [None]


def test_strings_of_other_formats_are_no_numbers() -> None:
    documents = view(value="json")
    field = NumberField(documents, "n", "by")
    assert field.of(Documents(documents).parse([b'{"n":"7"}', b'{"n":7}'])) == [None, 7]
