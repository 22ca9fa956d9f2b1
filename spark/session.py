"""The Spark session: on this machine (``local[2]``) or on any ``spark.master``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

# Made by spark.archive; it fits this environment's jars only.
ARCHIVE = Path(sys.prefix) / "spark.jsa"
# A concurrent collector's threads, and the optimizing compiler's, would compete with the tasks.
ON_FEW_CORES = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
LOG_CONFIG = Path(__file__).with_name("log4j2.properties")

# What the views' meaning rests on: not to be set otherwise.
_MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
}

_DEFAULTS = {
    "spark.app.name": "queryable-topics",
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # How soon a restarted query with nothing to do says where it stands.
    "spark.sql.streaming.noDataProgressEventInterval": "1s",
    "spark.sql.streaming.stopTimeout": "20s",
}

_LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": ON_FEW_CORES,
}


def jars_in(folder: Path) -> list[Path]:
    """The jars of a folder, sorted; none where there is no such folder."""
    return sorted(folder.glob("*.jar"))


def submitted() -> bool:
    """Whether ``spark-submit`` started this process: its JVM and its settings are there already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def settings(
    given: Mapping[str, str], jars: list[Path], *, log_level: str = "off"
) -> dict[str, str]:
    """All Spark settings; ``given`` (by spark-submit or ``--conf``) win over every default."""
    chosen = _DEFAULTS | dict(given)
    if chosen["spark.master"].startswith("local"):
        chosen = _LOCAL_DEFAULTS | chosen
        if ARCHIVE.exists():
            # -Xlog: nothing is said where the archive does not fit
            archive = f"-Xlog:disable -XX:SharedArchiveFile={ARCHIVE}"
            java_options = chosen["spark.driver.extraJavaOptions"]
            chosen["spark.driver.extraJavaOptions"] = f"{archive} {java_options}"
    if jars:
        chosen.setdefault("spark.jars", ",".join(str(jar) for jar in jars))
    logging_options = f"-Dlog4j2.configurationFile={LOG_CONFIG} -Dqueryable.log.level={log_level}"
    java_options = chosen.get("spark.driver.extraJavaOptions", "")
    chosen["spark.driver.extraJavaOptions"] = f"{java_options} {logging_options}".strip()
    return chosen | _MEANING


def start_session(
    given: Mapping[str, str], jars: list[Path], *, log_level: str = "off"
) -> SparkSession:
    """Starts the session (3 s, without ``ARCHIVE`` 8); ``jars``: those of Spark's Kafka source."""
    # Driver and executors of a local master are one machine: the same Python, not one of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # pyspark logs every exception that it raises, as JSON; who catches it says what is needed.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    if submitted():
        SparkContext._ensure_initialized()
        given = dict(SparkConf().getAll()) | dict(given)
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings(given, jars, log_level=log_level).items()))
    session = SparkSession.Builder().config(conf=conf).getOrCreate()
    if submitted():
        session.sparkContext.setLogLevel(log_level.upper())
    return session
