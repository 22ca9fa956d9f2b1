"""A view on several executors, where a shuffle delivers rows in any order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from local.errors import tail
from local.kafka.broker import Broker
from local.processes import end, spawn
from tests.spark.cluster import ROOT
from tests.spark.test_logs import random_flights
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.logs import Log
from tests.support.topics import history

RUNS = 2


def spark_home(folder: Path) -> Path:
    """A folder with links to the installed Spark, because workers write into SPARK_HOME."""
    home = folder / "spark-home"
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    return home


@pytest.mark.timeout(400)
def test_flights_count_the_same_in_each_run_on_a_cluster(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    log = Log(session, servers, make_topic, tmp_path)
    log.append(random_flights(seed=7, times=3))
    targets = [make_topic(partitions=3, cleanup_policy="compact") for _ in range(RUNS)]
    command = [sys.executable, "-m", "tests.spark.cluster", "airports", servers, log.topic]
    env = {**os.environ, "SPARK_HOME": str(spark_home(tmp_path))}
    log_file = tmp_path / "cluster.log"
    process = spawn([*command, str(tmp_path), *targets], log_file, env=env, cwd=ROOT)
    try:
        status = process.wait(300)
    except subprocess.TimeoutExpired:
        status = None
        end(process, 20)
    assert status == 0, tail(log_file.read_text(), 30)
    wanted = log.batch("airports")
    # each of the forty flights counts for one destination
    assert sum(int(value.split(b":")[1].strip(b"}")) for value in wanted.values()) == 40
    for target in targets:
        logs = history(servers, target, 3)
        written = {key: value for each in logs for _, _, key, value in each.records}
        assert {key: value for key, value in written.items() if value is not None} == wanted
