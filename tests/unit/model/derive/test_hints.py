"""Keys that a SQL user tries in [views.NAME.derive], and what the refusal says to write."""

from __future__ import annotations

import pytest

from model.derive.table import parse_derivation


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("group_by", 'key = "…"'),
        ("group-by", 'key = "…"'),
        ("value", 'select = "…"'),
        ("order_by", "top_k"),
        ("limit", "top_k"),
        ("topic", 'from = "…"'),
        ("timestamp", 'time = "…"'),
        ("tumbling", "window"),
        ("wher", "did you mean where?"),
    ],
)
def test_a_key_that_is_refused_says_what_to_write(key: str, hint: str) -> None:
    table = {"from": "t", "fields": {"s": "string"}, "key": "s", "count": True, key: "s"}
    with pytest.raises(ValueError, match="unknown key") as raised:
        parse_derivation(table)
    assert hint in str(raised.value)


@pytest.mark.parametrize("path", [None, "", "a..b", [], ["a", 1], [""], ["a"] * 17, 7])
def test_paths_that_are_refused(path: object) -> None:
    fields = {"s": {"type": "string", "path": path}}
    with pytest.raises(ValueError, match="names with dots"):
        parse_derivation({"from": "t", "fields": fields, "key": "s", "count": True})


def test_paths_of_fields() -> None:
    fields = {
        "id": {"type": "int", "path": "after.id"},
        "city": {"type": "string", "path": ["to.city"]},
        "plain": "string",
    }
    found = parse_derivation({"from": "t", "fields": fields, "key": "city", "count": True})
    assert found.paths == (("id", ("after", "id")), ("city", ("to.city",)))
