"""Windows of the calendar in Spark, compared with Python's time zones."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo, available_timezones

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from model.formats.registry import KEY_CODECS
from model.kinds.calendar_windows import UNITS, CalendarWindows
from model.kinds.window import WindowLayout
from spark.event_time.calendar import with_calendar_window
from tests.spark.derive.support import frame, raw, streamed, table, view_of

# days around which the clocks of a zone were changed
CHANGES = {
    "UTC": ["2026-01-01"],
    "Europe/Berlin": ["2026-03-29", "2026-10-25", "2250-10-27"],
    "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],
    "Pacific/Apia": ["2011-12-30"],
    "America/Sao_Paulo": ["2018-11-04", "2018-02-18"],
    "America/St_Johns": ["2010-03-14", "2010-11-07"],
    "Africa/Casablanca": ["2026-02-15"],
    "America/New_York": ["2026-03-08", "2026-11-01"],
}


def instants(days: list[str]) -> list[datetime]:
    """Each quarter of an hour within three days of the days, some moments next to them, and times
    of two centuries."""
    random, found = Random(7), []
    for day in days:
        start = datetime.fromisoformat(f"{day}T00:00:00+00:00") - timedelta(days=3)
        found += [start + n * timedelta(minutes=15) for n in range(6 * 96)]
    found += [at + timedelta(minutes=n) for at in found[::16] for n in (1, 2)]
    found += [at - timedelta(milliseconds=1) for at in found[::4]]
    first, last = datetime(1971, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
    return found + [first + random.random() * (last - first) for _ in range(300)]


def test_spark_and_python_agree(session: SparkSession) -> None:
    results: list[DataFrame] = []
    for zone, days in CHANGES.items():
        given = session.createDataFrame([(at,) for at in instants(days)], "time timestamp")
        for unit in UNITS:
            rows = with_calendar_window(given, "time", CalendarWindows(unit, zone), "window")
            times = (F.unix_millis(name).alias(name[-5:]) for name in ("time", "window.start"))
            end = F.unix_millis("window.end").alias("end")
            named = rows.select(*times, end)
            results.append(named.withColumn("zone", F.lit(zone)).withColumn("unit", F.lit(unit)))
    found = reduce(DataFrame.union, results).collect()
    assert len(found) > 10_000
    assert {
        (row.zone, row.unit, row["time"], row.start, row.end)
        for row in found
        if (row.start, row.end) != CalendarWindows(row.unit, row.zone).window(row["time"])
    } == set()


def test_java_knows_the_time_zones_that_are_allowed(session: SparkSession) -> None:
    java = set(session._jvm.java.time.ZoneId.getAvailableZoneIds())
    new = {"America/Coyhaique"}  # since 2025
    assert {zone for zone in available_timezones() if "/" in zone} - java <= new


def test_state_is_freed_when_a_window_has_ended(session: SparkSession, tmp_path: Path) -> None:
    windows = CalendarWindows("day", "Europe/Berlin")
    for day in ("2026-03-28T12:00:00+00:00", "2026-03-29T12:00:00+00:00",
                "2026-03-31T12:00:00+00:00", "2026-03-31T13:00:00+00:00"):  # fmt: skip
        at = session.createDataFrame([(datetime.fromisoformat(day),)], "time timestamp")
        at.coalesce(1).write.mode("append").parquet(f"{tmp_path}/raw")
        stream = session.readStream.schema("time timestamp").parquet(f"{tmp_path}/raw")
        timely = stream.withWatermark("time", "0 seconds")
        query = (
            with_calendar_window(timely, "time", windows, "#window")
            .groupBy("#window")
            .count()
            .writeStream.outputMode("update")
            .foreachBatch(lambda rows, _: rows.collect())
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        progress = query.lastProgress
    assert progress is not None
    assert progress.stateOperators[0].numRowsTotal == 1


def test_months_of_a_time_zone(session: SparkSession, tmp_path: Path) -> None:
    view = view_of("""\
[views.words-per-month.derive]
from = "words"
fields = { word = "string", at = "time" }
time = "at"
window = "1 month"
zone = "Europe/Berlin"
key = "word"
count = true
""")
    random = Random(5)
    first = datetime(2026, 1, 20, tzinfo=UTC)
    lines = [
        (random.choice("ab"), first + timedelta(minutes=random.randrange(100 * 1440)))
        for _ in range(200)
    ]
    wanted: dict[tuple[str, int], int] = defaultdict(int)
    for word, at in lines:
        month = at.astimezone(ZoneInfo("Europe/Berlin"))
        start = datetime(month.year, month.month, 1, tzinfo=ZoneInfo("Europe/Berlin"))
        wanted[word, round(start.timestamp()) * 1000] += 1
    records = [raw({"word": w, "at": at.isoformat()}, round(at.timestamp())) for w, at in lines]
    found = streamed(session, view, [records[part::2] for part in range(2)], tmp_path)
    layout = WindowLayout(KEY_CODECS["string"])
    entries = {layout.entry_key(layout.stored_key(key)): value for key, value in found.items()}
    assert {
        (entry.key.decode(), entry.start): int.from_bytes(value, "big")
        for entry, value in entries.items()
    } == wanted
    assert table(view.result(frame(session, records)).collect()) == found
