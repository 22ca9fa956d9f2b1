"""Whether a request is too late or too early depends only on its record. Needs no session."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from spark.event_time.bounds import EARLINESS, LATENESS
from spark.formats.batches import Rules, malformed, well_formed
from spark.formats.strict_json import JsonFormat
from spark.raw_topics.weblog import REQUEST, WEBLOG
from tests.support.spark.examples import request

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
LATE = "time: late: more than 3600 s before the record's timestamp"
EARLY = "time: more than 3600 s after the record's timestamp"
OUTSIDE = "time: not within 1971 to 2260"


def reason(value: bytes, timestamp: datetime | int) -> str | None:
    """The reason for rejecting a line whose record has this timestamp, or None."""
    columns = [pa.array([value], pa.binary()), pa.array([timestamp], pa.timestamp("us", tz="UTC"))]
    batch = pa.RecordBatch.from_arrays(columns, ["value", "timestamp"])
    rules = Rules(JsonFormat(REQUEST), validate=WEBLOG.validate, event_time=WEBLOG.event_time)
    [rejected] = malformed([batch], rules)
    [good] = well_formed([batch], rules, ["timestamp"])
    assert rejected.num_rows + good.num_rows == 1
    return rejected.column("reason")[0].as_py() if rejected.num_rows else None


@pytest.mark.parametrize(
    ("shipped_after", "expected"),
    [
        (0, None),
        (LATENESS, None),
        (LATENESS + 1, LATE),
        (-EARLINESS, None),
        (-EARLINESS - 1, EARLY),
        (10**9, LATE),
    ],
)
def test_a_line_is_late_or_early_by_its_records_timestamp(
    shipped_after: int, expected: str | None
) -> None:
    line = request(1, "10:00:00")[1]
    assert reason(line, AT + timedelta(seconds=shipped_after)) == expected


@pytest.mark.parametrize(
    "time", ["2099-01-01T00:00:00+00:00", "9999-12-31T23:59:59-18:00", "9999-01-01T00:00:00+00:00"]
)
def test_a_clock_far_ahead_is_early(time: str) -> None:
    line = json.loads(request(1, "10:00:00")[1])
    assert reason(json.dumps({**line, "time": time}).encode(), AT) == EARLY


@pytest.mark.parametrize("year", [1, 1970, 2262, 9999])
def test_times_outside_the_range_of_pandas_or_watermarks_are_rejected(year: int) -> None:
    line = json.loads(request(1, "10:00:00")[1])
    time = f"{year:04}-06-01T00:00:00+00:00"
    value = json.dumps({**line, "time": time}).encode()
    assert reason(value, datetime(year, 6, 1, tzinfo=UTC)) == OUTSIDE


def test_timestamps_beyond_pythons_are_no_error() -> None:
    line = request(1, "10:00:00")[1]
    assert reason(line, 2**63 - 1000) == LATE
    assert reason(line, -(2**62)) == EARLY
