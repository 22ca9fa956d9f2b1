"""The Spark session: on this machine (``local[2]``) or with any ``spark.master``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from model.machine.limits import memory, processors
from spark.jvm_names import keep_classes
from spark.processes import local_files
from spark.processes.executors import settle_partitions
from spark.processes.java_process import close_state_at_exit
from spark.processes.sizing import (
    DRIVER_MEMORY,
    MASTER,
    PARTITIONS,
    Machine,
    described,
    is_driver_alone,
    is_local,
    sizes,
    warnings,
)
from spark.processes.worker_python import use_this_python
from spark.required import check_spark, spark_values

# spark.archive writes it; it matches only the jars of this environment.
ARCHIVE = Path(sys.prefix) / "spark.jsa"
# The threads of a concurrent collector and of the optimizing compiler would compete with tasks.
# Without that compiler the JVM has 48 MB for compiled code, which the code that Spark generates for
# ten views fills within minutes. Then the JVM stops compiling. The usual size is 240 MB.
ON_FEW_CORES = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# Spark looks through the error of a stream that was stopped with a pattern that needs 0.5 KB of the
# thread's stack for each character. The memory of a stack is used only when it is needed.
_STACK_SIZE = "-Xss32m"
LOG_CONFIG = Path(__file__).with_name("log4j2.properties")

_DEFAULTS = {
    "spark.app.name": "queryable-topics",
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Searches for moved keys have a pool of their own (spark.moved_keys).
    "spark.scheduler.mode": "FAIR",
    # A restarted query without new records reports its offsets after this time.
    "spark.sql.streaming.noDataProgressEventInterval": "1s",
    "spark.sql.streaming.stopTimeout": "20s",
    # A RocksDB instance has at most two write buffers of 16 MB and a cache of 8 MB, and some two
    # bytes per row for its filters and indexes. If all instances share one memory
    # (boundedMemoryUsage), filters compete with data for a place in the cache: with ten million
    # rows a read takes 100 times as long (docs/spark/state.md).
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "false",
    "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB": "16",
    "spark.sql.streaming.stateStore.rocksdb.maxWriteBufferNumber": "2",
    "spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB": "8",
    # The files of most instances are small.
    "spark.sql.streaming.stateStore.rocksdb.allowFAllocate": "false",
}

_LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": ON_FEW_CORES,
}


def submitted() -> bool:
    """Whether ``spark-submit`` started this process, and with it the JVM with its settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def settings(
    overrides: Mapping[str, str],
    jars: list[Path],
    *,
    checkpoints: str = "",
    log_level: str = "off",
    views: int = 1,
    machine: Machine | None = None,
    temporary: Path | None = None,
) -> dict[str, str]:
    """All Spark settings. ``overrides`` (spark-submit's or ``--conf``) replace the defaults.
    Raises ``JobError`` if one of them contradicts a required setting. ``checkpoints``: their
    folder. ``machine``: this one if None. ``temporary``: the folder for Java's temporary files."""
    check_spark(overrides)
    chosen = sizes(_DEFAULTS | dict(overrides), machine or this_machine(), views)
    if is_local(chosen[MASTER]):
        chosen = _LOCAL_DEFAULTS | chosen
        if is_driver_alone(chosen[MASTER]) and _is_local_folder(checkpoints, chosen):
            chosen = local_files.SETTINGS | chosen
        if ARCHIVE.exists():
            # -Xlog: no message if the archive does not match
            archive = f"-Xlog:disable -XX:SharedArchiveFile={ARCHIVE}"
            java_options = chosen["spark.driver.extraJavaOptions"]
            chosen["spark.driver.extraJavaOptions"] = f"{archive} {java_options}"
    if jars:
        chosen.setdefault("spark.jars", ",".join(str(jar) for jar in jars))
    logging_options = f"-Dlog4j2.configurationFile={LOG_CONFIG} -Dqueryable.log.level={log_level}"
    # the last one of several such options counts, so the user's option wins
    java_options = f"{_STACK_SIZE} {chosen.get('spark.driver.extraJavaOptions', '')}"
    if temporary is not None:
        java_options = f'"-Djava.io.tmpdir={temporary}" {java_options}'
    chosen["spark.driver.extraJavaOptions"] = f"{java_options} {logging_options}".strip()
    return chosen | spark_values()


def _is_local_folder(path: str, conf: Mapping[str, str]) -> bool:
    """Whether Hadoop looks for the path in this machine's file system."""
    scheme = urlsplit(path).scheme
    if scheme:
        return scheme == "file"
    # Hadoop's own configuration files can name another file system for paths without a scheme.
    is_default = not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR"))
    default = "file:" if is_default else ""
    return conf.get("spark.hadoop.fs.defaultFS", default).startswith("file:")


def this_machine() -> Machine:
    return Machine(processors(), memory())


def start_session(
    overrides: Mapping[str, str],
    jars: list[Path],
    *,
    checkpoints: str = "",
    log_level: str = "off",
    views: int = 1,
    log: Callable[[str], None] | None = None,
    temporary: Path | None = None,
) -> SparkSession:
    """Starts the session: takes 3 s, without ``ARCHIVE`` 8 s. Raises ``JobError`` if the number of
    shuffle partitions depends on the executors of a cluster, and the cluster starts none.

    ``jars``: Spark's Kafka source. ``checkpoints``: their folder. ``views``: how many the session
    runs. ``log`` gets the sizes and warnings. ``temporary``: the folder for Java's temporary files;
    spark-submit's Java runs already, so it does not use it.
    """
    # pyspark logs every exception that it raises as JSON. The job logs its errors itself.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    fixed = {}
    if submitted():
        SparkContext._ensure_initialized()
        overrides = dict(SparkConf().getAll()) | dict(overrides)
        fixed = {DRIVER_MEMORY: "1g"}  # Spark's default; the JVM runs already
    conf = SparkConf(loadDefaults=False)
    chosen = settings(
        fixed | dict(overrides), jars, checkpoints=checkpoints, log_level=log_level, views=views,
        temporary=temporary,
    )  # fmt: skip
    conf.setAll(list(chosen.items()))
    use_this_python(os.environ, starts_java=is_local(chosen[MASTER]) and not submitted())
    session = SparkSession.Builder().config(conf=conf).getOrCreate()
    keep_classes(session._jvm)
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    local_files.let_copy(session._jvm, hadoop)
    close_state_at_exit(session._jvm)
    if submitted():
        session.sparkContext.setLogLevel(log_level.upper())
    session_cores = settle_partitions(session, chosen, processors())
    if log is not None:
        chosen[PARTITIONS] = str(session.conf.get(PARTITIONS))
        log(described(chosen, overrides, session_cores))
        for line in warnings(chosen, this_machine(), views):
            log(line)
    return session
