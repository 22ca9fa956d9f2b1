"""Events that are years older than their records: an import counts, also after newer events."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from spark.options import parse
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from tests.spark.derive.support import START, frame, raw, streamed, table, view_of
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history

FIELDS = 'fields = {{ id = "string", client = "string", at = "time" }}\ntime = "at"\nkey = "client"'
COUNTS = f"""\
[views.{{topic}}.derive]
from = "{{source}}"
{FIELDS}
count = true
"""
YEAR = 365 * 86_400


def text(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def events(random: Random, first: int, count: int) -> list[dict[str, str]]:
    """Over ten hours."""
    return [
        {
            "id": f"{first}-{number}",
            "client": f"c{random.randrange(3)}",
            "at": text(first + random.randrange(36_000)),
        }
        for number in range(count)
    ]


def counts(lines: list[dict[str, str]], window: int) -> dict[tuple[str, int], int]:
    """Plain Python: client and start of the window ► number of events."""
    times = [(line, round(datetime.fromisoformat(line["at"]).timestamp())) for line in lines]
    return Counter((line["client"], at - at % window) for line, at in times)


def found_counts(rows: dict[bytes, bytes]) -> dict[tuple[str, int], int]:
    return {
        (key[:-12].decode(), int.from_bytes(key[-12:-4], "big") // 1000): int.from_bytes(
            value, "big"
        )
        for key, value in rows.items()
    }


def test_an_import_after_newer_events_equals_the_batch(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The job runs several times, and moves watermarks where a view has some."""
    source, random = make_topic(2), Random(7)
    topic = f"{source}-hourly"
    views_toml = tmp_path / "views.toml"
    views_toml.write_text(COUNTS.format(topic=topic, source=source) + 'window = "1h"\n')
    servers = ["--bootstrap-servers", broker.bootstrap_servers]
    options = ["--checkpoint-dir", str(tmp_path / "checkpoints"), "--once"]
    limit = ["--max-offsets-per-trigger", "60"]
    given = parse(["--views-toml", str(views_toml), *servers, *options, *limit])
    written: list[dict[str, str]] = []
    writer = Writer(broker.bootstrap_servers)
    for years in (0, 12, 3, 40):
        lines = events(random, START - years * YEAR, 150)
        writer.send_timed(
            source,
            [
                (None, json.dumps(line).encode(), (START + 36_000) * 1000, random.randrange(2))
                for line in lines
            ],
        )
        written += lines
        supervise(session, given, StopSignal())
    [log, *logs] = history(broker.bootstrap_servers, topic, 3)
    rows: dict[bytes, bytes] = {}
    for each in (log, *logs):
        rows |= {key: value for _, _, key, value in each.records if value is not None}
    assert found_counts(rows) == counts(written, 3600)
    letters = history(broker.bootstrap_servers, f"{source}.dead-letter", 1)
    assert [log.records for log in letters] == [[]]


@pytest.mark.parametrize(
    "shape",
    ['window = "2h"\nadvance = "1h"', 'session = "30m"', 'identity = ["id", "client", "at"]'],
)
def test_old_events_in_all_kinds_of_state(
    session: SparkSession, tmp_path: Path, shape: str
) -> None:
    view = view_of(COUNTS.format(topic="x", source="t") + shape)
    random = Random(3)
    parts = [
        [raw(line, START + 36_000) for line in events(random, START - years * YEAR, 60)]
        for years in (0, 12, 3)
    ]
    parts.append(parts[1][:20])  # again, as after a restart of the import
    together = [record for part in parts for record in part]
    found = table(view.result(frame(session, together)).collect())
    assert streamed(session, view, parts, tmp_path) == found
    assert view.inputs[0].decoder.malformed(frame(session, together)).isEmpty()
    assert not view.has_watermark


def test_a_bound_that_is_declared_rejects_older_events(session: SparkSession) -> None:
    view = view_of(COUNTS.format(topic="x", source="t") + 'window = "1h"\nlateness = "1d"\n')
    line = {"id": "1", "client": "a", "at": text(START)}
    records = [raw(line, START + late) for late in (0, 86_400, 86_401)]
    [row] = view.inputs[0].decoder.malformed(frame(session, records)).collect()
    assert (row["offset"], row["reason"]) == (
        2,
        "at: late: more than 86400 s before the record's timestamp",
    )
    assert view.has_watermark
