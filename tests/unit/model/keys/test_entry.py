"""`key_fields` in views.toml."""

from __future__ import annotations

import pytest

from model.problems import ConfigurationError
from model.views_file import parse_views

ORDERS = """\
[views.orders]
topic = "orders"
path = "/orders"
key = "string"
value = "json"
"""
ORDERS_BY_JSON = ORDERS.replace('"string"', '"json"').rstrip()

REFUSED = {
    "no list of key fields": (
        ORDERS + 'key_fields = "id"',
        "line 6, [views.orders], key_fields",
        'a list of 1 to 16 different names, such as ["id"]',
    ),
    "a key field twice": (
        ORDERS + 'key_fields = ["id", "id"]',
        "line 6, [views.orders], key_fields",
        "different names",
    ),
    "key fields of text": (
        ORDERS + 'key_fields = ["id"]',
        "line 6, [views.orders], key_fields",
        'only with key = "json" or "avro" or "protobuf"',
    ),
    "key fields with a partitioner": (
        ORDERS_BY_JSON + '\nkey_fields = ["id"]\npartitioner = "murmur2"',
        "line 7, [views.orders], partitioner",
        'omit it: with key_fields, it is "none"',
    ),
    "key fields of windows": (
        ORDERS_BY_JSON + '\nkey_fields = ["id"]\nstore = "window"',
        "line 7, [views.orders], store",
        "it is key-value or versioned or global",
    ),
    "key fields and appends": (
        ORDERS_BY_JSON + '\nkey_fields = ["id"]\nappend = "on"',
        "line 7, [views.orders], append",
        "how the bytes of a key are written",
    ),
}


@pytest.mark.parametrize(("text", "where", "remedy"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(text: str, where: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_views(text)
    assert where in str(error.value)
    assert remedy in str(error.value)


def test_key_fields() -> None:
    [named] = parse_views(ORDERS_BY_JSON + '\nkey_fields = ["id", "a.b"]').views
    assert (named.key_fields, named.partitioner) == (("id", "a.b"), "none")
    assert named.description()["key_fields"] == ("id", "a.b")
    # the proxy sends keys to any instance
    assert named.routed_encodings == ()
    [plain] = parse_views(ORDERS).views
    assert "key_fields" not in plain.description()
