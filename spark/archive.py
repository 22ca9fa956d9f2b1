"""Writes an archive of classes that halves the start of Spark's JVM: ``python -m spark.archive``.

The JVM spends half of its start on loading and verifying thousands of classes. It can map them from
an archive instead (class data sharing, JEP 350). This command runs views on a few records; then the
JVM writes the classes that it has loaded. If the archive does not match (another JDK, other jars),
the JVM ignores it.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime

from pyspark import SparkContext

from spark.formats.records import RAW_RECORD
from spark.session import ARCHIVE, ON_FEW_CORES, start_session
from spark.views import VIEWS

_TYPICAL_VIEWS = ("latest-departure", "word-count")


def main() -> None:
    """Writes the archive, 180 MB, into the virtual environment; takes some 30 s."""
    argparse.ArgumentParser(
        prog="python -m spark.archive",
        description=f"Writes {ARCHIVE}, from which Spark's JVM starts twice as fast. This takes "
        "some 30 s, and 180 MB.",
    ).parse_args()
    # the session would map it, and a JVM that maps such an archive cannot write one
    ARCHIVE.unlink(missing_ok=True)
    temporary = ARCHIVE.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    options = f"{ON_FEW_CORES} -XX:ArchiveClassesAtExit={temporary} -Xlog:disable"
    session = start_session({"spark.driver.extraJavaOptions": options}, [])
    with tempfile.TemporaryDirectory() as folder:
        at = datetime(2013, 1, 1, tzinfo=UTC)
        rows = [("raw", 0, 0, at, b"k", b"word", None), ("raw", 0, 1, at, b"k", None, None)]
        session.createDataFrame(rows, RAW_RECORD).write.parquet(f"{folder}/records")
        records = session.readStream.schema(RAW_RECORD).parquet(f"{folder}/records")
        # Two views are enough: the others load few more classes, and take four times as long.
        for view in (VIEWS[name] for name in _TYPICAL_VIEWS):
            for number, table in enumerate((view.result(records), view.rejected(records))):
                writer = table.writeStream.format("noop").outputMode("update")
                checkpoint = f"{folder}/{view.name}-{number}"
                query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
                query.start().awaitTermination(60)
    jvm = SparkContext._gateway
    session.stop()
    if jvm is not None:
        # The JVM ends when its standard input is closed.
        jvm.shutdown()
        jvm.proc.stdin.close()
        jvm.proc.wait(120)
    temporary.rename(ARCHIVE)


if __name__ == "__main__":
    main()
