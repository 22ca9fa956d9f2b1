"""Runs a view on a cluster of processes: `python -m tests.spark.cluster` (see test_cluster.py).

Arguments: the view, the brokers, the raw topic, a folder, and the view topics, one a run.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from local.jars import spark_jars
from spark.options import Settings
from spark.run import Stop, supervise
from spark.session import start_session
from spark.sources import Kafka
from spark.views import VIEWS

ROOT = Path(__file__).parents[2]


def main(name: str, servers: str, source: str, folder: str, *targets: str) -> None:
    conf = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    os.chdir(folder)
    session = start_session(conf, spark_jars())
    for target in targets:
        view = replace(VIEWS[name], source=source, topic=target)
        settings = Settings(
            views=[view],
            kafka=Kafka(servers),
            checkpoint_dir=f"{folder}/{target}",
            progress=None,
            once=True,
            trigger="1 second",
            max_offsets_per_trigger=1_000_000,
            topics_deadline=10,
            jars=[],
            conf={},
            log_level="off",
        )
        supervise(session, settings, Stop())
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
