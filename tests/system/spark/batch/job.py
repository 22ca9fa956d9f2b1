"""A job with its own Spark, which pushes three times while its tasks fail or hang: see
test_failing_jobs.py.

Argument: a folder. Each push has a folder in it with views.toml: `fails`, `fails-once`, `hangs`.
The error of the first one is in `fails/error.txt`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from model.pushes.manifest import Pinned
from spark.batch.data_source import register

ROWS = 3_000
# Spark's pipes to Python have buffers: the writer must get rows before a later batch
_PADDING = "repeat('x', 5000) as padding"


def with_failures(
    batches: Iterable[pa.RecordBatch], what: str, folder: Path
) -> Iterator[pa.RecordBatch]:
    """The batches; task 1 is killed or hangs after several of them."""
    context = TaskContext.get()
    assert context is not None
    for number, batch in enumerate(batches):
        if context.partitionId() == 1 and number == 5:
            if what == "hangs":
                threading.Event().wait()
            if what == "fails" or context.attemptNumber() == 0:
                # its writer has written files by then
                while not list(folder.glob("pushes/*/*-1-*.sst")):
                    threading.Event().wait(0.02)
                os.kill(os.getpid(), signal.SIGKILL)
        yield batch


def push(session: SparkSession, what: str, folder: Path) -> None:
    pinned = Pinned("orders", "orders", "topic-1", 1_700_000_000_000, {"orders": {0: 0, 1: 0}})
    rows = session.range(0, ROWS, 1, 3).selectExpr("concat('k', id) as key", _PADDING)
    failing = rows.mapInArrow(partial(with_failures, what=what, folder=folder), rows.schema)
    (
        failing.write.format("queryable")
        .option("view", "orders")
        .option("views", str(folder / "views.toml"))
        .option("offsets", pinned.encode())
        .option("runBytes", "10000")
        .mode("overwrite")
        .save()
    )


def main(name: str) -> None:
    folder = Path(name)
    session = (
        SparkSession.builder.master("local[2,2]")  # two threads, and two attempts of a task
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        .getOrCreate()
    )
    register(session)
    try:
        push(session, "fails", folder / "fails")
    except Exception as e:
        (folder / "fails" / "error.txt").write_text(str(e))
    push(session, "fails-once", folder / "fails-once")
    push(session, "hangs", folder / "hangs")


if __name__ == "__main__":
    main(*sys.argv[1:])
