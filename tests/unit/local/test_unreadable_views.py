"""What `queryable serve` says of records that cannot be read."""

from __future__ import annotations

from local.unreadable_views import sentences
from tests.support.in_process.examples import view

LETTER = {"key": {"text": "C0001"}, "value": {"text": '{"n":1}'}, "reason": "key: not 8 bytes"}


def test_a_view_with_another_key_format() -> None:
    counts = {"keys": 600, "values": 0, "entries": 0, "refused": 0}
    assert list(sentences(view(key="int64"), counts, LETTER)) == [
        "view orders has no entry: all of its 600 records have an unreadable key",
        '  expected: key = "int64", value = "json"',
        '  the newest has the key "C0001", the value "{\\"n\\":1}", and is refused because of its '
        "key: not 8 bytes",
        "  they are in the topic orders.dead-letter; `queryable check` looks at more",
    ]


def test_a_view_with_another_value_format() -> None:
    counts = {"keys": 0, "values": 9, "entries": 7, "refused": 7}
    first, *_ = sentences(view(), counts, None)
    assert first == "view orders: the value of each of its 7 entries is unreadable"
    some = {"keys": 2, "values": 3, "entries": 100, "refused": 3}
    assert list(sentences(view(), some, {**LETTER, "key": None, "value": {"base64": "/w=="}}))[
        :4
    ] == [
        "view orders: 2 records have an unreadable key, and are in no answer",
        "view orders: 3 records have an unreadable value",
        '  expected: key = "string", value = "json"',
        "  the newest has the key null, the value (base64) /w==, and is refused because of its "
        "key: not 8 bytes",
    ]
