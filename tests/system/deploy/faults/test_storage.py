"""Faults of the storage: a disk that fills up, and compaction that cannot keep up."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from local.waiting import wait_until
from tests.faults.faults import Unsupported, small_disk
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.prometheus.scrapes import DISTANCE, later, scrape, targets, when
from tests.support.topics import Writer
from tests.system.deploy.faults.conftest import Alarms

DISK_MB, LEFT_MB = 64, 3
RECORDS, VALUE_BYTES = 10_000, 4_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    folder = tmp_path / "disk"
    with ExitStack() as stack:
        try:
            stack.enter_context(small_disk(folder, DISK_MB))
        except Unsupported as reason:
            pytest.skip(str(reason))
        yield folder


@pytest.mark.raises("QueryableDiskFull")
@pytest.mark.walks("QueryableDiskFull")
def test_the_disk_fills_up(
    disk: Path, deploy: Deploy, make_topic: MakeTopic, alarms: Alarms
) -> None:
    deployment = deploy(views_toml(things={"topic": make_topic(1)}))
    backend = deployment.new(data_dir=str(disk / "data")).start()
    of = targets(f"http://127.0.0.1:{backend.port}")
    healthy = scrape(of)
    alarms.silent(healthy)
    [free] = healthy.of("queryable_disk_free_bytes")
    other = disk / "other"
    other.write_bytes(bytes(int(free) - (LEFT_MB << 20)))
    full = scrape(of)
    assert alarms.raised(healthy, full) == {"QueryableDiskFull"}
    alarms.walk("QueryableDiskFull", {"data/b1": str(disk / "data"), "orders": "things"})
    other.unlink()
    alarms.silent(full, scrape(of))


@pytest.mark.raises("QueryableWritesStopped")
@pytest.mark.walks("QueryableWritesStopped")
def test_compaction_cannot_keep_up(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, alarms: Alarms
) -> None:
    topic = make_topic(1)
    views = views_toml(things={"topic": topic, "value": "bytes"})
    [backend] = deploy(views, block_cache_mb="16").start()
    of = targets(f"http://127.0.0.1:{backend.port}")
    healthy = scrape(of)
    alarms.silent(healthy)
    noise = os.urandom(1 << 20)  # cannot be compressed

    def write() -> None:
        """More records when most of those before have been ingested."""
        when(of, lambda found: sum(found.of("queryable_lag_records")) < RECORDS, 30, "ingest")
        keys = (os.urandom(8).hex().encode() for _ in range(RECORDS))
        starts = (random.randrange(len(noise) - VALUE_BYTES) for _ in range(RECORDS))
        values = (noise[start : start + VALUE_BYTES] for start in starts)
        writer.send(topic, zip(keys, values, strict=True))

    def is_raised() -> bool:
        # a fast machine would have ingested any fixed number of records before the second scrape
        stalled = scrape(of)
        while time.time() - stalled.at < DISTANCE:
            write()
        return "QueryableWritesStopped" in alarms.raised(healthy, stalled, later(of, stalled))

    wait_until(is_raised, 60, "delayed writes")
    here = {"127.0.0.1:8081": backend.address, "orders": "things"}
    alarms.walk("QueryableWritesStopped", here)
    done = when(of, lambda found: found.of("queryable_lag_records") == [0], 60, "all records")
    alarms.silent(done, scrape(of))
