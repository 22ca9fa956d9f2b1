"""How Spark's Java process ends. tests/system/spark/test_run.py has its end after a job."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local.waiting import wait_until
from spark.processes.java_process import close_state_at_exit, kill_later, killed_after


@pytest.fixture
def endless() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not end by itself."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_process_that_hangs_is_killed(endless: subprocess.Popen[bytes]) -> None:
    with killed_after(endless.kill, 0.1):
        assert endless.wait(30) == -signal.SIGKILL


def test_a_process_that_ends_in_time_is_not_killed(endless: subprocess.Popen[bytes]) -> None:
    with killed_after(endless.kill, 60):
        endless.terminate()
        assert endless.wait(30) == -signal.SIGTERM
    assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]


def test_a_process_that_hangs_is_killed_from_outside(endless: subprocess.Popen[bytes]) -> None:
    with kill_later(endless.pid, 0.1) as guard:
        assert endless.wait(30) == -signal.SIGKILL
        assert guard.wait(30) == 0


def test_the_guard_ends_with_the_process(endless: subprocess.Popen[bytes]) -> None:
    with kill_later(endless.pid, 600) as guard:
        endless.terminate()
        assert endless.wait(30) == -signal.SIGTERM
        assert guard.wait(30) == 0


def test_databases_of_state_are_closed_at_exit(session: SparkSession, tmp_path: Path) -> None:
    counts = session.readStream.format("rate").load().groupBy("value").count()
    writer = counts.writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    wait_until(lambda: query.lastProgress and query.lastProgress.stateOperators, 60, "state")
    query.stop()
    jvm = session._jvm
    assert jvm is not None
    store = jvm.org.apache.spark.sql.execution.streaming.state.StateStore
    # Its maintenance stops when all databases are closed.
    assert store.isMaintenanceRunning()
    close_state_at_exit(jvm).apply()
    assert not store.isMaintenanceRunning()


def test_the_jvm_has_room_for_the_code_of_many_views(session: SparkSession) -> None:
    """Regression: 48 MB were full within minutes, and the JVM stopped compiling."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    sizes = {pool.getName(): pool.getUsage().getMax() for pool in pools}
    assert sum(size for name, size in sizes.items() if name.startswith("Code")) >= 240 << 20, sizes
