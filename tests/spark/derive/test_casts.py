"""Texts as numbers, deep and odd names, case and ||, in derived views."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from tests.spark.derive.support import START, frame, raw, table, view_of

CASES: list[tuple[object, object, object, object]] = [
    # text, as int, as double, as boolean
    ("42", 42, 42.0, None),
    (" +42 ", 42, 42.0, None),
    ("-7", -7, -7.0, None),
    ("42.0", 42, 42.0, None),
    ("42.5", None, 42.5, None),
    ("1e2", 100, 100.0, None),
    ("1e400", None, None, None),
    ("2147483647", 2147483647, 2147483647.0, None),
    ("2147483648", None, 2147483648.0, None),
    ("9" * 30, None, 1e30, None),
    ("", None, None, None),
    ("abc", None, None, None),
    ("0x1f", None, None, None),
    ("1_000", None, None, None),
    ("NaN", None, None, None),
    ("true", None, None, True),
    (" FALSE", None, None, False),
    # fields of the type any
    (42, 42, 42.0, None),
    (42.0, 42, 42.0, None),
    (True, None, None, True),
]


def test_try_cast(session: SparkSession) -> None:
    view = view_of("""\
[views.x.derive]
from = "raw"
fields = { id = "string", given = "any" }
key = "id"
latest = "record_offset"
[views.x.derive.select]
i = "try_cast(given as int)"
d = "try_cast(given as double)"
b = "try_cast(given as boolean)"
""")
    lines = [{"id": f"k{n}", "given": given} for n, (given, *_) in enumerate(CASES)]
    found = table(view.result(frame(session, [raw(line, START) for line in lines])).collect())
    for n, (given, *expected) in enumerate(CASES):
        value = json.loads(found[f"k{n}".encode()])
        assert [value.get(name) for name in ("i", "d", "b")] == expected, given


def test_paths_case_and_concatenation(session: SparkSession) -> None:
    view = view_of("""\
[views.x.derive]
from = "raw"
filter = "n is not null"
key = "coalesce(city, 'nowhere') || '/' || case when n > 10 then 'many' else 'few' end"
sum = "n"
[views.x.derive.fields]
n = { type = "int?", path = "after.n" }
city = { type = "string?", path = ["to-city.name"] }
""")
    given = frame(
        session,
        [
            raw({"after": {"n": 20}, "to-city.name": "Ulm"}, START),
            raw({"after": {"n": 1}, "to-city.name": "Ulm"}, START),
            raw({"after": {"n": 2}}, START),
            raw({"after": None}, START),
            raw({"after": 7, "n": 9}, START),
            raw({"after": {"n": "x"}}, START),
        ],
    )
    found = table(view.result(given).collect())
    assert {key: int.from_bytes(value, "big") for key, value in found.items()} == {
        b"Ulm/many": 20,
        b"Ulm/few": 1,
        b"nowhere/few": 2,
    }
    rejected = view.inputs[0].decoder.malformed(given).collect()
    assert [(row["offset"], row["reason"]) for row in rejected] == [
        (5, "n: not a whole number of 32 bits")
    ]
