"""Measures micro-batches of a view with many live rows: ``python -m bench.spark.state``.

It fills the state of a count with distinct keys, in large micro-batches, and then updates random
keys once a second. Broker and sink are left out, so the numbers show only the state. The heap is as
large as in the Spark job: 1 GB.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark.session import start_session

_MIB = 2**20


class Process:
    """The memory and CPU time of a process and of the children that it has waited for."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    def memory(self) -> str:
        """The resident memory, now and at most since the start."""
        status = (self._folder / "status").read_text()
        now, most = (
            int(status.split(f"{name}:")[1].split()[0]) // 1024 for name in ("VmRSS", "VmHWM")
        )
        return f"resident: {now} MiB, at most {most} MiB"

    def cpu(self) -> float:
        """The CPU time in seconds since its start."""
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def count(
    session: SparkSession, checkpoint: str, key: Column, batch: int, trigger: str
) -> StreamingQuery:
    """Starts a count of ``batch`` generated keys per micro-batch."""
    numbers = (
        session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", batch)
        .option("numPartitions", 2)
        .load()
    )
    counted = numbers.groupBy(F.concat(F.lit("host-"), key.cast("string")).alias("key")).count()
    return (
        counted.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=trigger)
        .start()
    )


def filled(query: StreamingQuery, rows: int) -> None:
    """Waits until the state has this many rows. Raises the query's error."""
    while True:
        progress = query.lastProgress
        if progress is not None and progress.stateOperators[0].numRowsTotal >= rows:
            return
        if query.awaitTermination(1):
            raise SystemExit("the query has ended")


def durations(query: StreamingQuery, seconds: float, process: Process) -> tuple[list[int], float]:
    """The durations (ms) of the micro-batches of some seconds, sorted, and their CPU time (s). The
    first micro-batch restores the state, and is not among them."""
    while (restored := query.lastProgress) is None:
        if query.awaitTermination(1):
            raise SystemExit("the query has ended")
    print(f"the state is restored after {restored.durationMs['triggerExecution']} ms", flush=True)
    found: dict[int, int] = {}
    before = process.cpu()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not query.awaitTermination(5):
        for progress in query.recentProgress:
            found[progress.batchId] = progress.durationMs["triggerExecution"]
    del found[restored.batchId]
    return sorted(found.values()), process.cpu() - before


def main(
    rows: Annotated[int, typer.Option(help="Rows of the state.")] = 10_000_000,
    load: Annotated[int, typer.Option(help="Rows of a micro-batch while filling.")] = 500_000,
    updates: Annotated[int, typer.Option(help="Updated rows of a micro-batch.")] = 5_000,
    seconds: Annotated[float, typer.Option(help="Time of the updates.")] = 150,
    keep: Annotated[
        Path | None, typer.Option(help="A folder for the state; if it exists, it is used again.")
    ] = None,
    conf: Annotated[str, typer.Option(help="Other settings of Spark, as JSON.")] = "{}",
) -> None:
    """Print the durations of micro-batches, and the memory of Spark's Java process."""
    session = start_session(json.loads(conf), [])
    jvm: Any = session._jvm
    process = Process(jvm.java.lang.ProcessHandle.current().pid())
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = temporary if keep is None else str(keep)
        if keep is None or not keep.exists():
            started = time.monotonic()
            query = count(session, checkpoint, F.col("value"), load, "0 seconds")
            filled(query, rows)
            query.stop()
            print(
                f"filled after {time.monotonic() - started:.0f} s; {process.memory()}", flush=True
            )
        random_key = F.pmod(F.xxhash64("value"), F.lit(rows))
        query = count(session, checkpoint, random_key, updates, "1 second")
        took, cpu = durations(query, seconds, process)
        total = query.lastProgress.stateOperators[0].numRowsTotal if query.lastProgress else 0
        query.stop()
        shown = ((p, took[min(len(took) * p // 100, len(took) - 1)]) for p in (50, 90, 99, 100))
        print(f"{len(took)} micro-batches of {updates} rows, with {total} rows of state")
        print("ms: " + ", ".join(f"p{p} {value}" for p, value in shown))
        print(f"CPU ms per micro-batch: {1000 * cpu / len(took):.0f}")
        runtime = jvm.java.lang.Runtime.getRuntime()
        heap = (runtime.totalMemory() - runtime.freeMemory()) // _MIB
        print(f"{process.memory()}; heap: {heap} MiB used")
        session.stop()


if __name__ == "__main__":
    typer.run(main)
