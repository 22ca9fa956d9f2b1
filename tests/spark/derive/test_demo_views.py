"""The views of the demo, written in TOML: the same plan and the same bytes as the Python ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from local.demo.datasets import Record, flights, texts
from local.settings import REPOSITORY
from model.views_file import parse_views
from spark.derive.views import derived_view
from spark.formats.records import POSITION, RAW_RECORD
from spark.raw_topics.flights import FLIGHT
from spark.raw_topics.weblog import REQUEST
from spark.view import View
from spark.views import VIEWS
from tests.spark.derive.support import collected, table

PAGE = REPOSITORY / "docs" / "spark" / "derived-views.md"
DEMO = parse_views((Path(__file__).parent / "demo.toml").read_text(), "demo.toml").views
DERIVED = {entry.name: derived_view(entry) for entry in DEMO}
SCHEMAS = {
    "texts": StructType([StructField("text", StringType())]),
    "flights": StructType([*FLIGHT, *POSITION]),
    "weblog": REQUEST,
}
SAME_PLAN = [
    "word-count",
    "latest-departure",
    "requests-per-host",
    "requests-per-minute",
    "bytes-per-host",
]


def derived(name: str) -> View:
    view = DERIVED[name]
    assert view is not None
    return view


def requests() -> Iterable[Record]:
    """Lines like those of the proxy's log: late, repeated and malformed ones among them."""
    random = Random(17)
    start = datetime(2026, 1, 1, 10, tzinfo=UTC)
    for number in range(3000):
        at = start + timedelta(seconds=random.randrange(4 * 3600))
        line: dict[str, Any] = {
            "time": at.isoformat(), "request_id": f"{number % 2900:032x}",
            "client": random.choice(["10.0.0.1", "10.0.0.2", "::1", ""]),
            "bytes": random.choice([0, 100, 2**39, 2**40, -1]), "status": random.choice([200, 404]),
        }  # fmt: skip
        shipped = at + timedelta(seconds=random.choice([-3601, 1, 1, 1, 3600, 3601]))
        yield Record(b"k", json.dumps(line).encode(), round(1000 * shipped.timestamp()))
    yield Record(None, b"{", 0)


def planes() -> Iterable[Record]:
    """Some of the planes of the flights."""
    for number, record in enumerate(islice(flights(), 1000)):
        plane = {"manufacturer": ["BOEING", "AIRBUS", None][number % 3], "seats": 100}
        yield Record(record.key, json.dumps(plane).encode())


def departures() -> Iterable[Record]:
    """The latest departures of some of the planes."""
    for record in islice(planes(), 0, None, 2):
        yield Record(record.key, b'{"flight":"UA1","dest":"DEN"}')


SOURCES: dict[str, Callable[[], Iterable[Record]]] = {
    "flights": lambda: islice(flights(), 3000),
    "texts": lambda: islice(texts(), 1000),
    "weblog": requests,
    "planes": planes,
    "latest-departure": departures,
    "orders": lambda: [
        Record(
            None,
            b'{"id":"a","amount":9.99,"at":"2026-01-01T10:00:00Z","shop":"a","qty":2,"price":1.25,'
            b'"lines":[{"sku":"x","qty":2,"price":0.5}]}',
            1_767_261_600_000,
        )
    ],
    "payments": lambda: [
        Record(
            None,
            b'{"order":"a","number":1,"amount":5,"at":"2026-01-01T11:00:00Z"}',
            1_767_265_200_000,
        )
    ],
    "departed": lambda: [Record(b"0-1", b'{"maker":"AIRBUS"}')],
}


@pytest.fixture(scope="module")
def topics(session: SparkSession) -> dict[str, DataFrame]:
    """Records of the demo's raw topics."""

    def rows(records: Iterable[Record]) -> list[tuple[Any, ...]]:
        return [
            ("raw", 0, offset, datetime.fromtimestamp((at or 0) / 1000, UTC), key, value, None)
            for offset, (key, value, at) in enumerate(records)
        ]

    return {
        name: session.createDataFrame(rows(records()), RAW_RECORD).cache()
        for name, records in SOURCES.items()
    }


@pytest.mark.parametrize("name", SAME_PLAN)
def test_the_plan_is_that_of_the_python_view(session: SparkSession, name: str) -> None:
    rows = session.createDataFrame([], SCHEMAS[VIEWS[name].source])
    mine, theirs = (normalised(view.derive(rows)) for view in (derived(name), VIEWS[name]))
    assert mine == theirs
    assert "Aggregate" in mine


def normalised(rows: DataFrame) -> str:
    """The optimized plan, without projections: columns are replaced by what they are computed from,
    and have no names. `lower` of a derived view writes Σ as σ first."""
    plan = rows._jdf.queryExecution().optimizedPlan().toString()
    lines = re.sub(r"lower\(translate\((\S+), Σ, σ\)\)", r"lower(\1)", plan).splitlines()
    computed: dict[str, str] = {}
    kept: list[str] = []
    for line in reversed(lines):  # the lowest operator first
        for name, of in computed.items():
            line = line.replace(name, of)
        for each in split(line):
            if (alias := re.fullmatch(r"(.*) AS ([^ ]+#[0-9]+L?)", each)) is not None:
                computed[alias[2]] = alias[1]
        if "Project [" not in line or line is lines[0]:
            kept.append(line)
    columns = [
        computed[f"{column}"] for column in computed if re.match("(key|value|bare_key)#", column)
    ]
    # grouping columns may have another name in the result
    kept = [re.sub(r"(Aggregate \[.*?\]), .*", r"\1", line) for line in kept]
    return re.sub(r"#[0-9]+L?| +\+- ", "", "\n".join([*columns, *kept]))


def split(text: str) -> list[str]:
    """The parts between commas that are not within parentheses."""
    found, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character in ",[]" and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [each.strip() for each in found]


def test_the_records_are_those_of_the_python_views(topics: dict[str, DataFrame]) -> None:
    names = list(DERIVED)
    sources = {name: topics[VIEWS[name].source] for name in names}
    found = collected(
        [view.result(sources[name]) for name in names for view in (derived(name), VIEWS[name])]
    )
    for number, name in enumerate(names):
        mine, theirs = found[2 * number : 2 * number + 2]
        assert table(mine) == table(theirs), name
        assert len(table(mine)) >= 3
        of_keys = [{(row["key"], row["bare_key"]) for row in rows} for rows in (mine, theirs)]
        assert of_keys[0] == of_keys[1]


def test_the_dead_letters_are_those_of_the_python_views(topics: dict[str, DataFrame]) -> None:
    for name in ("word-count", "latest-departure", "visits"):
        records = topics[VIEWS[name].source]
        mine, theirs = (
            {row["offset"] for row in view.rejected(records).collect()}
            for view in (derived(name), VIEWS[name])
        )
        assert mine == theirs
        assert name != "visits" or mine


EXAMPLES = [
    entry
    for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    if 'format = "avro"' not in block  # tests/spark/derive/test_schema_values.py
    for entry in parse_views(block, PAGE.name).views
]


def test_the_examples_of_the_documentation_have_results(topics: dict[str, DataFrame]) -> None:
    views = [derived_view(entry) for entry in EXAMPLES]
    results = [
        view.result(*(topics[source] for source in view.source_topics)) for view in views if view
    ]
    for entry, rows in zip(EXAMPLES, collected(results), strict=True):
        keys, values = entry.codecs()
        assert any(row["value"] is not None for row in rows), entry.name
        for row in rows:
            entry.layout.stored_key(bytes(row["key"]))
            keys.check(bytes(row["key"] if row["bare_key"] is None else row["bare_key"]))
            if row["value"] is not None:  # otherwise it deletes
                values.check(bytes(row["value"]))
