"""The normal form of a table ``derive``: what counts as an edit of it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from model.derive.normal_form import normal_form
from model.views_file import parse_views

TABLE = """
from = "requests"
fields = { client = "string", bytes = "long 0..1000", "path" = "string" }
let = { big = "bytes > 100 and path = 'a  b'" }
filter = "big and client <> 'a''b' "
key = ["client", "path"]
separator = " "
count = { requests = true, long = "big" }
join.owner = { from = "owners", on = "client", fields = { name = "string" }, static = true }
"""


def form(text: str) -> tuple[tuple[str, str], ...]:
    return normal_form(tomllib.loads(text))


def test_the_form_is_the_same_in_all_releases() -> None:
    assert form(TABLE) == (
        ("count", '{"requests": true, "long": "big"}'),
        ("fields", '{"client": "string", "bytes": "long 0..1000", "path": "string"}'),
        ("filter", "\"big and client<>'a''b'\""),
        ("from", '"requests"'),
        (
            "join",
            '{"owner": {"from": "owners", "on": "client", "fields": {"name": "string"}}}',
        ),
        ("key", '["client", "path"]'),
        ("let", '{"big": "bytes>100 and path=\'a  b\'"}'),
        ("separator", '" "'),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bytes > 100 and", "bytes>100\\n   and"),
        ('filter = "', 'filter = "   '),
        ('from = "requests"\n', "from = 'requests' # the topic\n"),
        ('key = ["client", "path"]\n', 'key = [\n  "client",\n  "path",\n]\n'),
        ("join.owner = { from", "[join.owner]\nfrom"),
    ],
)
def test_another_way_to_write_the_table_is_no_edit(old: str, new: str) -> None:
    assert old in TABLE
    text = TABLE.replace(old, new)
    if "[join" in text:
        text = text.replace('"owners", on = "client", fields', '"owners"\non = "client"\nfields')
        text = text.replace('"string" }, static = true }\n', '"string" }\nstatic = true\n')
    assert form(text) == form(TABLE)


def test_the_order_of_keys_is_no_edit() -> None:
    lines = TABLE.strip().splitlines()
    assert form("\n".join(reversed(lines))) == form(TABLE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 100", ">= 100"),
        ("'a  b'", "'a b'"),
        ("'a''b'", "'a'' b'"),
        ("and client", "andclient"),
        ('separator = " "', 'separator = "/"'),
        ("requests = true, long", "long = true, requests"),
        ('["client", "path"]', '["path", "client"]'),
        ("0..1000", "0..1001"),
        ("0..1000", "0 .. 1 000"),
    ],
)
def test_another_rule_is_an_edit(old: str, new: str) -> None:
    assert old in TABLE
    assert form(TABLE.replace(old, new)) != form(TABLE)


def test_the_entry_of_a_view_has_the_form() -> None:
    text = f"[views.v.derive]\n{TABLE}"
    [entry] = parse_views(text).views
    derivation: Any = entry.derivation
    assert derivation.written == form(TABLE)
