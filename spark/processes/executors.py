"""The executors of a running session."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pyspark.sql import SparkSession

from spark.errors import JobError
from spark.processes.sizing import MASTER, PARTITIONS, Cores, cores, partitions

_TIMEOUT_S = 120.0  # for the first executor
# Executors of a cluster that has room for them register within a second or two of each other.
_QUIET_S = 3.0
_INTERVAL_S = 0.1


def settle_partitions(
    session: SparkSession, conf: Mapping[str, str], processors: int, timeout: float = _TIMEOUT_S
) -> Cores:
    """Returns the cores of the session. If ``conf`` does not set the shuffle partitions, waits
    until no more executors register, and sets them to the number of cores. Raises ``JobError`` if
    no executor registers within ``timeout`` s. ``processors``: the number of this machine's
    processors."""
    if PARTITIONS in conf:
        return cores(conf, processors)
    registered = _registered(session, timeout)
    if not registered.total:
        raise JobError(
            f"{conf[MASTER]} has started no executor within {timeout:.0f} s. Check that it has "
            f"free cores and enough memory for an executor. With --conf {PARTITIONS}=N the job "
            "does not wait for executors."
        )
    session.conf.set(PARTITIONS, str(partitions(registered.total)))
    return registered


def _registered(session: SparkSession, timeout: float) -> Cores:
    """The cores of the executors that have registered when no more do, or after ``timeout`` s."""
    began = changed = time.monotonic()
    registered = _executors(session)
    while not registered.total or time.monotonic() < changed + _QUIET_S:
        if time.monotonic() >= began + timeout:
            break
        time.sleep(_INTERVAL_S)
        if (now := _executors(session)) != registered:
            registered, changed = now, time.monotonic()
    return registered


def _executors(session: SparkSession) -> Cores:
    store = session.sparkContext._jsc.sc().statusStore()
    summaries = store.executorList(True)
    executors = [summaries.apply(number) for number in range(summaries.size())]
    sizes = [executor.totalCores() for executor in executors if executor.id() != "driver"]
    return Cores(sum(sizes), len(sizes))
