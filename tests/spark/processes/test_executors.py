"""Shuffle partitions by the executors of a session. test_standalone.py has a real cluster."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark.errors import JobError
from spark.processes.executors import settle_partitions
from spark.processes.sizing import Cores

PARTITIONS = "spark.sql.shuffle.partitions"


def test_a_cluster_without_executors_is_an_error(session: SparkSession) -> None:
    """A local session has no executors but the driver."""
    before = session.conf.get(PARTITIONS)
    with pytest.raises(JobError, match="spark://a:1 has started no executor within 0 s"):
        settle_partitions(session, {"spark.master": "spark://a:1"}, processors=2, timeout=0.2)
    assert session.conf.get(PARTITIONS) == before


def test_with_partitions_the_job_does_not_wait(session: SparkSession) -> None:
    conf = {"spark.master": "spark://a:1", PARTITIONS: "7", "spark.cores.max": "3"}
    assert settle_partitions(session, conf, processors=2) == Cores(3)
    assert session.conf.get(PARTITIONS) != "7"
