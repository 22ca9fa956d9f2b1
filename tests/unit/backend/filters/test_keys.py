"""Conditions on keys of all formats and stores: narrowing what is read never changes an answer."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from backend.queries.filters.condition import condition_of
from backend.queries.filters.plan import key_range
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import NDJSON, world

TEXTS = [
    "",
    "a",
    "a%b",
    "a_b",
    "ab",
    "a\x00",
    "a\x00b",
    "A",
    "b",
    "ä",
    "z\uffff",
    "'",
    '"',
    "\U0001f600",
    "a/b",
]
PATTERNS = ["%", "", "a%", "a_b", "a_", "_%", "a%b", "ä%", "'%", "a\x00%", "\U0001f600%", "%b"]


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def expected(key: str, operator: str, bound: str) -> bool:
    return {
        "=": key == bound, "<": key < bound, "<=": key <= bound, ">": key > bound,
        ">=": key >= bound, "<>": key != bound,
    }[operator]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("store", ["key-value", "window", "session", "versioned"])
def test_every_bound_of_texts(store: str) -> None:
    """All comparisons of all pairs of texts, without instances: the range has every match."""
    of = view(store=store, **({"window_size": 10} if store == "window" else {}))  # type: ignore[arg-type]
    tail = {"window": bytes(12), "session": bytes(16)}.get(store, b"")
    stored = {text: of.layout.stored_key(text.encode() + tail, 0) for text in TEXTS}
    conditions: dict[str, set[str]] = {}
    for bound, operator in itertools.product(TEXTS, ["=", "<", "<=", ">", ">=", "<>"]):
        keys = {text for text in TEXTS if expected(text, operator, bound)}
        conditions[f"key {operator} {literal(bound)}"] = keys
        mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        conditions[f"{literal(bound)} {mirrored} key"] = keys
    for one, other in itertools.product(TEXTS, TEXTS):
        conditions[f"key between {literal(one)} and {literal(other)}"] = {
            text for text in TEXTS if one <= text <= other
        }
        conditions[f"key in ({literal(one)}, {literal(other)})"] = {one, other}
    for pattern in PATTERNS:
        conditions[f"key like {literal(pattern)}"] = {t for t in TEXTS if is_like(t, pattern)}
    for text, keys in conditions.items():
        condition = condition_of(of, text)
        low, high = key_range(of, condition.tree)
        assert keys <= {key for key, at in stored.items() if low <= at < high}, text
        # the row of a versioned view has the key without the time
        rows = [at[:-8] if store == "versioned" else at for at in stored.values()]
        pairs = [(row, bytes(16) + b"{}") for row in rows]
        kept = {of.kind.row_key(of, at, False).key.decode() for at, _ in condition.kept(pairs)}
        assert kept == keys, text


def is_like(text: str, pattern: str) -> bool:
    """By recursion, as the standard defines it."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(is_like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and is_like(text[1:], pattern[1:])


INT32 = {n: struct.pack(">i", n) for n in (-(2**31), -1, 0, 1, 2, 2**31 - 1)}
INT64 = {n: struct.pack(">q", n) for n in INT32}
FLOATS = {n: struct.pack(">d", n) for n in (-1.5, 0.0, 2.5)}
JSONS = {n: n.encode() for n in ('{"a":1}', '{"a":2}', "3", '"x"')}
UUIDS = ["00000000-0000-0000-0000-000000000001", "ABCDEF00-0000-0000-0000-000000000001",
         "abcdef00-0000-0000-0000-000000000001"]  # fmt: skip
UUID_KEYS = {text: text.encode() for text in UUIDS}


@pytest.mark.parametrize(
    ("format_", "keys", "where", "matches"),
    [
        ("int32", INT32, "key > -1 and key <= 2", [0, 1, 2]),
        ("int32", INT32, "key < 9999999999", [*INT32]),
        ("int32", INT32, "key > 9999999999", []),
        ("int32", INT32, "key > 0.5 and key < 1.5", [1]),
        ("int32", INT32, "key in (1, 2.0, 9999999999)", [1, 2]),
        ("int64", INT64, "key between -1 and 1", [-1, 0, 1]),
        ("int64", INT64, "key between 1 and -1", []),
        ("float64", FLOATS, "key >= 0", [0.0, 2.5]),
        ("float64", {n: struct.pack(">d", n) for n in (-1.5, -0.0, 2.5)}, "key = 0", [-0.0]),
        ("float64", FLOATS, "key in (2.5, 7)", [2.5]),
        ("uuid", UUID_KEYS, f"key = '{UUIDS[1]}'", [UUIDS[1]]),
        ("uuid", UUID_KEYS, "key like 'a%'", [UUIDS[2]]),
        ("uuid", UUID_KEYS, "lower(key) like 'a%'", UUIDS[1:]),
        ("json", JSONS, "key.a > 1", [{"a": 2}]),
        ("json", JSONS, "key = 3", [3]),
        ("json", JSONS, "key >= 'a'", ["x"]),
    ],
)  # fmt: skip
def test_keys_of_other_formats(
    tmp_path: Path, format_: str, keys: dict[Any, bytes], where: str, matches: list[Any]
) -> None:
    with world(tmp_path, view(key=format_)) as made:
        made.put_all(dict.fromkeys(keys.values(), b"{}"))
        for instance in ("b1", "b2"):
            for target in (f"keys?where={quote(where)}", f"keys?where={quote(where)}&order=desc"):
                items = [
                    item for page in made.pages(f"{target}&limit=1", instance) for item in page
                ]
                listed = [item["key"] for item in items]
                assert sorted(listed, key=str) == sorted(matches, key=str)
        assert made.ask(f"count?where={quote(where)}").json["count"] == len(matches)


def test_a_condition_and_other_bounds(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made:
        made.put_all({b"k%02d" % n: b'{"n":%d}' % n for n in range(40)})
        where = quote("key > 'k03' and n <> 20 and key like 'k%'")
        for bounds, numbers in (
            ("from=k02&to=k05", [4, 5]), ("prefix=k1", [*range(10, 20)]),
            ("prefix=k2&to=k21", [21]), ("prefix=x", []), ("from=k39", [39]), ("to=k03", []),
        ):  # fmt: skip
            for order, sign in (("asc", 1), ("desc", -1)):
                for more in ("limit=1", "limit=3&max_examined=2"):
                    target = f"keys?where={where}&{bounds}&order={order}&{more}"
                    for instance in ("b1", "b2"):
                        items = [i for page in made.pages(target, instance) for i in page]
                        assert [item["value"]["n"] for item in items] == numbers[::sign], target
                lines = made.ask(f"keys?where={where}&{bounds}&order={order}", accept=NDJSON).body
                assert lines.count(b"\n") == len(numbers)


def test_bounds_of_a_mispartitioned_view(tmp_path: Path) -> None:
    """Pages of one entry, while one instance compares rows with the condition."""
    with world(tmp_path, replace(ORDERS, same_key="newest")) as made:
        for n in range(12):
            made.put(b"k%02d" % n, b'{"n":1}', timestamp=1, partition=n % 4)
            made.put(b"k%02d" % n, b'{"n":%d}' % (n % 3), timestamp=2, partition=(n + 1) % 4)
        made.place(0, 1, 0, 1, mispartitioned=True)
        for order in ("asc", "desc"):
            target = f"keys?where={quote('n = 1')}&limit=1&max_examined=1&order={order}"
            listed = [i["key"] for page in made.pages(target) for i in page]
            keys = ["k01", "k04", "k07", "k10"]
            assert listed == (keys if order == "asc" else keys[::-1])
        top = made.ask(f"top?by=n&where={quote('n < 2')}&limit=20").json["items"]
        assert sorted(item["value"]["n"] for item in top) == [0] * 4 + [1] * 4
