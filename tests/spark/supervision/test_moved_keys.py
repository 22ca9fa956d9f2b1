"""Topics that get more partitions: of each key, the newest record counts, or the view stops."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from local.kafka.broker import Broker
from local.waiting import wait_until
from model.partitioner import partition_of
from model.views_file import parse_views
from spark.derive.views import derived_view
from spark.errors import JobError
from spark.formats.decoders import JsonDecoder
from spark.tables import latest, mapped
from spark.view import Source, View
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner
from tests.support.topics import Writer, history

START = 1_767_225_600_000  # ms
KEYS = ["k0", "k3", "k8", "k10", "k11", "k14", "k15", "k18"]  # all but two move from 2 to 4
TABLE = JsonDecoder(StructType([StructField("n", LongType())]), is_table=True)


def copied(rows: DataFrame) -> DataFrame:
    return mapped(rows, F.to_json(F.struct("n")))


def newest(rows: DataFrame) -> DataFrame:
    return copied(latest(rows))


class MovingRunner(ControlledRunner):
    """A view that copies its table, whose topic has two partitions at first."""

    def __init__(self, session: SparkSession, servers: str, make: MakeTopic, folder: Path) -> None:
        super().__init__(session, servers, make, folder)
        self.source = make(2)
        self.partitions = 2
        # The records of short partitions are all in the first micro-batches.
        self.settings = replace(self.settings, max_offsets_per_trigger=12)
        self.use(replace(self.view, source=self.source, decoder=TABLE, derive=copied))
        # key ► partition ► greatest time, and last value
        self._written: dict[bytes, dict[int, tuple[int, bytes | None]]] = {}

    def use(self, view: View) -> None:
        self.view = view
        self.settings = replace(self.settings, views=[view])

    def grow(self, partitions: int) -> None:
        self.add_partition(self.source, partitions)
        self.partitions = partitions
        self._writer = Writer(self._servers)  # one that knows the new partitions

    def put(self, at: int, *keys: str, known: int | None = None, deletes: bool = False) -> None:
        """Writes the time as the value of each key. ``known``: the partitions that the producer
        knows."""
        count = known or self.partitions
        value = None if deletes else b'{"n":%d}' % at
        records = []
        for key in map(str.encode, keys):
            partition = partition_of("murmur2")(key, count)
            records.append((key, value, START + at, partition))
            # in one partition the later offset counts, in several the greater time
            of_key = self._written.setdefault(key, {})
            latest, _ = of_key.get(partition, (0, None))
            of_key[partition] = max(at, latest), value
        self._writer.send_timed(self.source, records)

    def put_backlog(self) -> None:
        """Old values, behind many records of other keys."""
        self.put(1, *(f"other{number}" for number in range(20)))
        self.put(2, *KEYS)

    def expected(self) -> dict[bytes, bytes | None]:
        newest = {key: max(of.values(), key=itemgetter(0)) for key, of in self._written.items()}
        return {key: value for key, (_, value) in newest.items()}

    def found(self) -> dict[bytes, bytes | None]:
        [log] = self.logs(1)
        return {key: value for *_, key, value in log.records}

    def wait_found(self) -> None:
        wait_until(lambda: self.found() == self.expected(), 60, "the newest values")

    @property
    def marks(self) -> Path:
        return Path(self.settings.checkpoint(self.view)) / "moved-keys.json"

    def mark(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.marks.read_text()) if self.marks.exists() else {}
        return found

    def moved_keys_since(self) -> int | None:
        heartbeat = self.heartbeat()
        return None if heartbeat is None else heartbeat.moved_keys_since_ms

    def wait_read(self) -> None:
        total = sum(log.end for log in history(self._servers, self.source, self.partitions))

        def has_read() -> bool:
            offsets = self.progress()["source_offsets"].get(self.source, {})
            return sum(offsets.values()) == total

        wait_until(has_read, 60, "all records to be read", 0.05)


@pytest.fixture
def runner(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[MovingRunner]:
    runner = MovingRunner(session, broker.bootstrap_servers, make_topic, tmp_path)
    yield runner
    runner.close()


def test_a_view_that_begins_after_partitions_were_added(runner: MovingRunner) -> None:
    """Regression: keys whose newest record is in a new partition kept their value of before."""
    runner.put_backlog()
    runner.grow(4)
    runner.put(3, *KEYS[:-1])
    runner.put(3, KEYS[-1], deletes=True)
    runner.once()
    assert runner.found() == runner.expected()


DERIVED = """\
[views.copy.derive]
from = "{source}"
kind = "{kind}"
fields = {{ n = "int" }}
where = "n <> 4 and record_key is not null"
key = "record_key"
select = ["n"]
"""


@pytest.mark.parametrize("kind", ["stream", "table"])
def test_a_map_of_views_toml_follows_keys_that_move(runner: MovingRunner, kind: str) -> None:
    [entry] = parse_views(DERIVED.format(source=runner.source, kind=kind)).views
    derived = derived_view(entry)
    assert derived is not None
    runner.use(replace(derived, name=runner.view.name, topic=runner.view.topic))
    runner.put_backlog()
    runner.grow(4)
    runner.put(3, *KEYS)
    runner.put(4, KEYS[-1])  # is not in a view of the table, and changes nothing in a map
    runner.once()
    expected = runner.expected()
    last = KEYS[-1].encode()
    expected[last] = None if kind == "table" else b'{"n":3}'
    assert runner.found() == expected


def test_partitions_that_are_added_while_the_job_is_down(runner: MovingRunner) -> None:
    """From 2 to 3, keys also move between the partitions that were there before."""
    runner.put(0, *KEYS)
    runner.once()
    runner.put_backlog()
    runner.grow(3)
    runner.put(3, *KEYS)
    with runner.stream():
        runner.wait_found()
        wait_until(lambda: bool(runner.mark().get("growing")), 60, "the addition to be noticed")
        wait_until(lambda: runner.moved_keys_since() is not None, 60, "readers to be told")
        # what comes late from a producer that does not know the third partition
        runner.put(5, *KEYS)
        runner.put(4, *KEYS, known=2)
        runner.put(7, "k8", known=2)
        runner.wait_read()
    mark = runner.mark()
    assert mark["partitions"] == {runner.source: 2}, "to be looked at once more"
    runner.marks.write_text(json.dumps({**mark, "again_at": 0}))
    with runner.stream():
        wait_until(lambda: not runner.mark()["growing"], 60, "the second look")
        runner.wait_found()
        wait_until(lambda: runner.moved_keys_since() is None, 60, "readers to be told")
    mark = runner.mark()
    assert mark["partitions"] == {runner.source: 3}
    assert mark["again_at"] > time.time() + 60, "because it has found some"
    runner.marks.write_text(json.dumps({**mark, "again_at": 0}))
    runner.once()
    assert runner.mark()["again_at"] is None


def test_keys_that_are_written_to_several_partitions_for_good(
    runner: MovingRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their records have no order in a micro-batch, and a view may have written an older one."""
    runner.put(1, *KEYS)
    runner.once()

    def again() -> dict[str, Any]:
        runner.marks.write_text(json.dumps({**runner.mark(), "again_at": 0}))
        runner.once()
        return runner.mark()

    runner.put(3, *KEYS)
    runner.put(2, *KEYS, known=1)
    mark = again()
    assert runner.found() == runner.expected()
    assert mark["growing"] == mark["partitions"] == {runner.source: 2}
    assert "producers still write keys to several partitions" in capfd.readouterr().err
    with runner.stream():
        wait_until(lambda: runner.moved_keys_since() is not None, 60, "readers to be told")
    mark = again()
    assert (mark["growing"], mark["again_at"]) == ({}, None), "no key was written since"


def test_a_rebuild_looks_at_all_records(runner: MovingRunner) -> None:
    runner.put_backlog()
    runner.grow(4)
    runner.put(3, *KEYS)
    runner.once()
    before = runner.mark()["query"]
    with runner.stream():
        runner.send("rebuild")
        wait_until(lambda: runner.mark()["query"] != before, 60, "a look after the rebuild")
        assert runner.found() == runner.expected()


def test_a_view_that_compares_the_rows_of_a_table_stops(runner: MovingRunner) -> None:
    """Regression: a key that moved to a partition with a smaller number kept its old row."""
    runner.use(replace(runner.view, derive=newest))
    runner.put(1, *KEYS)
    runner.grow(3)
    runner.put(2, *KEYS)
    for _ in range(2):
        with pytest.raises(JobError, match=rf"topic {runner.source} has, or gets, keys .* new one"):
            runner.once()


def test_a_view_with_a_static_table_stops(runner: MovingRunner, make_topic: MakeTopic) -> None:
    facts = make_topic()
    runner.write_to(facts, b'{"n": 1}')
    sources = (Source(facts, TABLE), Source(runner.source, TABLE, static=True))
    runner.use(
        replace(
            runner.view,
            source="",
            decoder=None,
            sources=sources,
            derive=lambda rows, _: copied(rows),
        )
    )
    runner.put(1, *KEYS)
    runner.grow(3)
    runner.put(2, *KEYS)
    with pytest.raises(JobError, match=f"topic {runner.source} has, or gets"):
        runner.once()
