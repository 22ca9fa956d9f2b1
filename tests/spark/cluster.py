"""Runs a view several times on a cluster of processes: see test_cluster.py.

Arguments: the view, the brokers, the raw topic, a folder, and the view topics, one per run.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from local.kafka.jars import spark_jars
from spark.session import ON_FEW_CORES, start_session
from spark.settings import Settings
from spark.sources import Kafka
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.views import VIEWS

ROOT = Path(__file__).parents[2]


def main(name: str, servers: str, source: str, folder: str, *targets: str) -> None:
    conf = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": ON_FEW_CORES,
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    os.chdir(folder)
    session = start_session(conf, spark_jars())
    # Concurrent runs are faster, and each one disturbs the order of the others.
    views = [
        replace(VIEWS[name], name=f"{name}-{number}", source=source, topic=target)
        for number, target in enumerate(targets)
    ]
    settings = Settings(
        views=views,
        kafka=Kafka(servers),
        checkpoint_dir=f"{folder}/checkpoints",
        once=True,
        topics_deadline=60,
    )
    supervise(session, settings, StopSignal())
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
