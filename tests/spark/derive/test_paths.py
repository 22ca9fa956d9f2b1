"""Deep and odd names, case and ||, in derived views."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.spark.derive.support import START, frame, raw, table, view_of


def test_paths_case_and_concatenation(session: SparkSession) -> None:
    view = view_of("""\
[views.x.derive]
from = "raw"
where = "n is not null"
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
