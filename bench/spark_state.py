"""Measures micro-batches of a view with many live rows: ``python -m bench.spark_state``.

It fills the state of a count with distinct keys, in large micro-batches, and then updates random
keys once a second. Broker and sink are left out, so the numbers are those of the state. The heap is
that of the Spark job, 1 GB.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark.session import start_session

_MIB = 2**20


class ResidentMemory:
    """The largest resident memory of a process, in MiB, sampled each second."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self.largest = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(1):
            resident = self._status.read_text().split("VmRSS:")[1].split()[0]
            self.largest = max(self.largest, int(resident) // 1024)


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


def durations(query: StreamingQuery, seconds: float) -> tuple[list[int], Any]:
    """The durations (ms) of the micro-batches of some seconds, sorted, and the last one's progress.
    The first micro-batch restores the state, and is not among them."""
    while (restored := query.lastProgress) is None:
        if query.awaitTermination(1):
            raise SystemExit("the query has ended")
    print(f"the state is restored after {restored.durationMs['triggerExecution']} ms", flush=True)
    found: dict[int, Any] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end and not query.awaitTermination(5):
        found |= {progress.batchId: progress for progress in query.recentProgress}
    found = {batch: each for batch, each in found.items() if batch > restored.batchId}
    return sorted(
        each.durationMs["triggerExecution"] for each in found.values()
    ), query.lastProgress


def main(
    rows: Annotated[int, typer.Option(help="Rows of the state.")] = 10_000_000,
    load: Annotated[int, typer.Option(help="Rows of a micro-batch while filling.")] = 500_000,
    updates: Annotated[int, typer.Option(help="Updated rows of a micro-batch.")] = 5_000,
    seconds: Annotated[float, typer.Option(help="Time of the updates.")] = 150,
    conf: Annotated[str, typer.Option(help="Other settings of Spark, as JSON.")] = "{}",
) -> None:
    """Print the durations of micro-batches, and the memory of Spark's Java process."""
    session = start_session(json.loads(conf), [])
    jvm: Any = session._jvm
    with tempfile.TemporaryDirectory() as checkpoint:
        filling = ResidentMemory(jvm.java.lang.ProcessHandle.current().pid())
        started = time.monotonic()
        query = count(session, checkpoint, F.col("value"), load, "0 seconds")
        filled(query, rows)
        query.stop()
        filling.stop()
        took_seconds = time.monotonic() - started
        print(
            f"{rows} rows after {took_seconds:.0f} s; resident: {filling.largest} MiB", flush=True
        )
        memory = ResidentMemory(jvm.java.lang.ProcessHandle.current().pid())
        random_key = F.pmod(F.xxhash64("value"), F.lit(rows))
        query = count(session, checkpoint, random_key, updates, "1 second")
        took, last = durations(query, seconds)
        query.stop()
        memory.stop()
        runtime = jvm.java.lang.Runtime.getRuntime()
        state = last.stateOperators[0]
        print(f"{len(took)} micro-batches of {updates} rows, {state.numRowsTotal} rows of state")
        shown = ((p, took[min(len(took) * p // 100, len(took) - 1)]) for p in (50, 90, 99, 100))
        print("ms: " + ", ".join(f"p{p} {value}" for p, value in shown))
        print(
            f"resident: {memory.largest} MiB, of it heap: "
            f"{(runtime.totalMemory() - runtime.freeMemory()) // _MIB} MiB used"
        )
        session.stop()


if __name__ == "__main__":
    typer.run(main)
