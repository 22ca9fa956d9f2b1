"""Writes the archive that lets Spark's JVM start in half the time: ``python -m spark.archive``.

Half of a start is loading and verifying thousands of classes. The JVM can keep them ready to be
mapped (class data sharing, JEP 350): here it runs the views on a few records, and writes at its end
what it has loaded. Where the archive does not fit (another JDK, other jars) the JVM ignores it.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from itertools import islice

from pyspark import SparkContext

from spark.schemas import RAW_RECORD
from spark.session import ARCHIVE, ON_FEW_CORES, start_session
from spark.views import VIEWS


def main() -> None:
    """Takes some 30 s, and 180 MB in the virtual environment."""
    ARCHIVE.unlink(missing_ok=True)
    beside = ARCHIVE.with_suffix(".new")
    beside.unlink(missing_ok=True)
    options = f"{ON_FEW_CORES} -XX:ArchiveClassesAtExit={beside} -Xlog:disable"
    session = start_session({"spark.driver.extraJavaOptions": options}, [])
    with tempfile.TemporaryDirectory() as folder:
        at = datetime(2013, 1, 1, tzinfo=UTC)
        rows = [("raw", 0, 0, at, b"k", b"word"), ("raw", 0, 1, at, b"k", None)]
        session.createDataFrame(rows, RAW_RECORD).write.parquet(f"{folder}/records")
        records = session.readStream.schema(RAW_RECORD).parquet(f"{folder}/records")
        # the first two: what the others load besides is not worth four times the queries
        for view in islice(VIEWS.values(), 2):
            for number, made in enumerate((view.result(records), view.rejected(records))):
                writer = made.writeStream.format("noop").outputMode("update")
                checkpoint = f"{folder}/{view.name}-{number}"
                query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
                query.start().awaitTermination(60)
    jvm = SparkContext._gateway
    session.stop()
    if jvm is not None:
        # It ends when its standard input does.
        jvm.shutdown()
        jvm.proc.stdin.close()
        jvm.proc.wait(120)
    beside.rename(ARCHIVE)


if __name__ == "__main__":
    main()
