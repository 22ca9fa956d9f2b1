"""One Spark session for the whole run, because it takes some seconds to start."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from local.kafka.jars import spark_jars
from spark.formats.records import RAW_RECORD
from spark.session import start_session

Records = Callable[..., DataFrame]

SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    # To generate and compile code for each plan takes longer than a few records. Jobs in processes
    # of their own (tests/system/spark) generate it, as those of users do.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    with warnings.catch_warnings():
        # sockets and temporary files that pyspark leaves to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        running = start_session(SETTINGS, spark_jars())
        yield running
        running.stop()


@pytest.fixture
def records(session: SparkSession) -> Records:
    """`records((key, value), …)`: rows like those that Spark reads from a raw topic; offsets start
    at 0. Their timestamp is within an hour of the requests in `tests.support.spark.examples`."""

    def make(*pairs: tuple[bytes | None, bytes | None]) -> DataFrame:
        at = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)
        rows: list[tuple[Any, ...]] = [
            ("raw", 0, offset, at, key, value, None) for offset, (key, value) in enumerate(pairs)
        ]
        return session.createDataFrame(rows, RAW_RECORD)

    return make
