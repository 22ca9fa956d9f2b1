"""The records are what they claim to be, and the views in plain Python are right."""

from __future__ import annotations

import json
import struct
from collections import Counter
from statistics import median

import pytest

from spark.event_time.watermarks import DISORDER_S
from tests.pipelines.raw_records import GENERATORS, PARTITIONS, RawRecord
from tests.pipelines.reference import Record, is_too_late, rejected, table
from tests.pipelines.views import VIEWS
from tests.support.spark.examples import flight
from tests.support.spark.logs import TEN, shipped

COUNT = 3000


def as_records(raw: list[RawRecord]) -> list[Record]:
    offsets: Counter[int] = Counter()
    found = []
    for key, value, at, partition in raw:
        found.append(Record(at, partition, offsets[partition], value, key))
        offsets[partition] += 1
    return found


@pytest.mark.parametrize("topic", GENERATORS)
def test_generated_records_have_duplicates_tombstones_and_malformed_ones(topic: str) -> None:
    raw = GENERATORS[topic](1).take(COUNT)
    assert raw == GENERATORS[topic](1).take(COUNT)
    assert raw != GENERATORS[topic](2).take(COUNT)
    values = Counter(value for _, value, _, _ in raw)
    assert values.pop(None) > COUNT / 100
    assert sum(count - 1 for count in values.values()) > COUNT / 50
    assert 1 < len({partition for *_, partition in raw}) <= PARTITIONS
    has_deletions = topic in ("orders", "customers", "countries")
    least = COUNT / (100 if has_deletions else 50)
    assert least < len(rejected(topic, as_records(raw))) < COUNT / 4


def test_generated_requests_are_late_and_unevenly_timed() -> None:
    records = as_records(GENERATORS["weblog"](1).take(COUNT))
    assert COUNT / 200 < sum(map(is_too_late, records)) < COUNT / 10
    middle = [median(r.timestamp for r in records if r.partition == p) for p in range(PARTITIONS)]
    assert middle[1] - middle[0] > 3600 * 1000
    behind = 0
    for partition in range(PARTITIONS):
        highest = 0
        for record in records:
            if record.partition == partition:
                behind = max(behind, highest - record.timestamp)
                highest = max(highest, record.timestamp)
    # the job drops what is out of order by more
    assert 0 < behind < 1000 * DISORDER_S


def test_orders_with_customers() -> None:
    def records(*rows: tuple[str, dict[str, object] | None]) -> list[Record]:
        return [
            Record(0, 0, offset, None if row is None else json.dumps(row).encode(), key.encode())
            for offset, (key, row) in enumerate(rows)
        ]

    raw = {
        "orders": records(
            ("1", {"customer": "B1", "amount": 100}), ("1", {"customer": "A1", "amount": 100}),
            ("2", {"customer": "A2", "amount": 100}), ("3", {"amount": 100}), ("3", None),
            ("4", {"customer": "B1", "amount": 99}), ("5", {"customer": "C1", "amount": 100}),
            ("5", {"customer": "C1", "amount": "100"}),
        ),
        "customers": records(
            ("A1", {"name": "Al", "age": 21}), ("A2", {"name": "Bo", "age": 20}),
            ("C1", {"name": "Cy"}), ("C1", None),
        ),
        "countries": records(("A", {"name": "Aa"}), ("C", {"name": 1})),
    }  # fmt: skip
    found = {key: json.loads(value) for (_, key), value in
             table("orders-with-customers", raw, 1).items()}  # fmt: skip
    assert found == {
        b"1": {"amount": 100, "name": "Al", "age": 21, "country": "Aa"},
        b"5": {"amount": 100},
    }


@pytest.mark.slow
def test_every_demo_view_has_a_reference() -> None:
    views = [each for each in VIEWS.values() if set(each.source_topics) <= set(GENERATORS)]
    assert len(views) >= 8
    raw = {topic: as_records(made(1).take(COUNT)) for topic, made in GENERATORS.items()}
    for view in views:
        assert len(table(view.name, raw, view.partitions)) > 9


def flights(*changes: dict[str, object]) -> list[Record]:
    return [
        Record(at, 0, at, flight(**{"tailnum": "N1", **each})[1]) for at, each in enumerate(changes)
    ]


def requests(*lines: tuple[int, int, int]) -> list[Record]:
    """Of (number, second, seconds until its record)."""
    made = [shipped(n, at, behind=behind, client="c", bytes=n) for n, at, behind in lines]
    return [Record(at, 0, offset, value) for offset, (_, value, at, _) in enumerate(made)]


def values(view: str, records: list[Record], **more: list[Record]) -> dict[bytes, bytes]:
    raw = {**dict.fromkeys(["flights", "texts", "weblog"], records), **more}
    return {key: value for (_, key), value in table(view, raw, 1).items()}


def test_flights_by_hand() -> None:
    records = flights(
        {"dest": "IAH", "dep_delay": 9}, {"dest": "ORD"}, {"dep_time": None}, {"tailnum": ""},
        {"dep_delay": 0, "minute": 30, "flight": 2},
    )  # fmt: skip
    assert values("airports", records) == {b"ORD": b'{"count":1}', b"IAH": b'{"count":1}'}
    latest = json.loads(values("latest-departure", records)[b"N1"])
    assert (latest["flight"], latest["time"]) == ("UA2", "2013-01-01T10:30:00Z")
    departures = values("departures", records)
    assert len(departures) == 3
    assert departures[b"N1" + struct.pack(">qi", 1357035420000, 0)] == (
        b'{"flight":"UA1545","origin":"EWR","dest":"ORD","delay":2}'
    )
    assert list(rejected("flights", records)) == [b"flights:0:3"]


def test_aircraft_by_hand() -> None:
    def rows(*values: bytes) -> list[Record]:
        return [Record(0, 0, offset, value) for offset, value in enumerate(values)]

    reference = {
        "planes": rows(b'{"tailnum":"N1","year":5}', b'{"tailnum":"N1","seats":9}', b"5"),
        "airlines": rows(b'{"carrier":"UA","name":"United"}', b'{"carrier":"UA"}'),
        "us-airports": rows(b'{"faa":"BOS","name":"Logan"}'),
    }
    found = values("aircraft", flights({}, {"tailnum": "N2", "carrier": "XX"}), **reference)
    assert found[b"N1"] == (
        b'{"seats":9,"flight":"UA1545","airline":"United","origin":"EWR","dest":"IAH",'
        b'"time":"2013-01-01T10:17:00Z","delay":2}'
    )
    assert found[b"N2"].startswith(b'{"flight":"XX1545","origin"')
    assert len(rejected("planes", reference["planes"])) == 1
    assert len(rejected("airlines", reference["airlines"])) == 1


def test_texts_by_hand() -> None:
    texts = [b"The the", b"\xff", b"x" * 1001, None, b"the end"]
    records = [Record(0, 1, offset, text) for offset, text in enumerate(texts)]
    counts = {b"the": (3).to_bytes(8, "big"), b"end": (1).to_bytes(8, "big")}
    assert values("word-count", records) == counts
    assert list(rejected("texts", records)) == [b"texts:1:1", b"texts:1:2", b"texts:1:3"]


@pytest.mark.parametrize(
    ("view", "wanted"),
    [
        ("requests-per-host", {b"c": 4}),
        ("bytes-per-host", {b"c": 1 + 2 + 3 + 4}),
        (
            "requests-per-minute",
            {b"c" + struct.pack(">qi", 1000 * (TEN + at), 0): n for at, n in [(0, 2), (1800, 2)]},
        ),
    ],
)
def test_requests_by_hand(view: str, wanted: dict[bytes, int]) -> None:
    lines = requests((1, 0, 0), (1, 0, 60), (2, 59, 3600), (3, 1859, 0), (4, 1858, -3600),
                     (5, 0, 3601), (6, 0, -3601))  # fmt: skip
    assert values(view, lines) == {key: n.to_bytes(8, "big") for key, n in wanted.items()}
    assert [is_too_late(line) for line in lines] == [False] * 5 + [True, False]
    assert list(rejected("weblog", lines)) == [b"weblog:0:5", b"weblog:0:6"]


def test_visits_by_hand() -> None:
    def visit(first: int, last: int, requests: int, size: int) -> tuple[bytes, bytes]:
        key = b"c" + struct.pack(">qq", 1000 * (TEN + last), 1000 * (TEN + first))
        return key, f'{{"requests":{requests},"bytes":{size}}}'.encode()

    lines = requests((1, 0, 0), (2, 1800, 0), (3, 3601, 0), (1, 0, 0))
    assert values("visits", lines) == dict([visit(0, 1800, 2, 3), visit(3601, 3601, 1, 3)])
    joined = requests((1, 0, 0), (2, 1800, 0), (3, 3601, 0), (4, 1801, 1900))
    assert values("visits", joined) == dict([visit(0, 3601, 4, 10)])
