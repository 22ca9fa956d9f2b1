"""Faults of the storage: a disk that fills up, and compaction that cannot keep up."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.faults.conftest import Alarms
from tests.faults.faults import Unsupported, small_disk
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.prometheus.scrapes import Scrape, later, scrape, targets, when
from tests.support.topics import Writer

pytestmark = pytest.mark.system

DISK_MB, LEFT_MB = 64, 3
RECORDS, VALUE_BYTES = 60_000, 4_000  # more than the memtables and files before a compaction hold
STALLED = "queryable_rocksdb_stall_seconds_total"


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
    other.unlink()
    alarms.silent(full, scrape(of))


@pytest.mark.raises("QueryableWritesStopped")
def test_compaction_cannot_keep_up(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, alarms: Alarms
) -> None:
    topic = make_topic(1)
    views = views_toml(things={"topic": topic, "value": "bytes"})
    small = {"write_buffer_mb": "1", "background_jobs": "1", "block_cache_mb": "16"}
    [backend] = deploy(views, **small).start()
    of = targets(f"http://127.0.0.1:{backend.port}")
    healthy = scrape(of)
    alarms.silent(healthy)
    noise = os.urandom(RECORDS + VALUE_BYTES)
    keys = (b"%016x" % random.getrandbits(64) for _ in range(RECORDS))
    writer.send(topic, ((key, noise[n : n + VALUE_BYTES]) for n, key in enumerate(keys)))

    def is_stalled(found: Scrape) -> bool:
        # a scrape may come when writes are not delayed for a moment
        [stalled], [is_now] = found.of(STALLED), found.of("queryable_rocksdb_writes_stopped")
        return stalled > 0.3 and not is_now

    stalled = when(of, is_stalled, 30, "delayed writes")
    assert "QueryableWritesStopped" in alarms.raised(healthy, stalled, later(of, stalled))
    done = when(of, lambda found: found.of("queryable_lag_records") == [0], 60, "all records")
    alarms.silent(done, scrape(of))
