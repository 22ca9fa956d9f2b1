"""Runs views as streams until SIGTERM or SIGINT: ``python -m spark.run --help``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.errors import JVM_ENDED, JobError, summary
from spark.options import parse
from spark.processes.java_process import end_spark
from spark.processes.sizing import DRIVER_MEMORY, PARTITIONS
from spark.processes.temporary_files import temporary_folder
from spark.realtime.slots import local_master
from spark.session import start_session
from spark.settings import Settings
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import log, supervise


def run(settings: Settings) -> None:
    """Runs the job until a signal or, with ``once``, until it is done. Raises ``JobError`` if it
    failed."""
    stop = StopSignal()
    stop.install()
    _delete_earlier_files(settings)
    with temporary_folder() as temporary:
        try:
            _run(settings, stop, temporary)
        finally:
            end_spark()


def _delete_earlier_files(settings: Settings) -> None:
    """Deletes the files of an earlier job, because their state and offsets are not those of this
    job. If that fails, writing them fails later."""
    for file in (settings.health, settings.progress):
        if file is not None:
            with suppress(OSError):
                file.unlink()


def _run(settings: Settings, stop: StopSignal, temporary: Path) -> None:
    session = _start(settings, settings.conf, temporary, log)
    stop.install()
    master = local_master(session, settings)
    if master is not None:
        # more slots, but sizes for the same processors
        conf = {**_sizes_of(session), **settings.conf, "spark.master": master}
        session.stop()
        log(f"real-time views: --master {master}")
        session = _start(settings, conf, temporary, None)
        stop.install()
    supervise(session, settings, stop)


def _start(
    settings: Settings,
    conf: Mapping[str, str],
    temporary: Path,
    log: Callable[[str], None] | None,
) -> SparkSession:
    return start_session(
        conf,
        settings.jars,
        checkpoints=settings.checkpoint_dir,
        log_level=settings.log_level,
        views=len(settings.views),
        log=log,
        temporary=temporary,
    )


def _sizes_of(session: SparkSession) -> dict[str, str]:
    return {name: str(session.conf.get(name)) for name in (DRIVER_MEMORY, PARTITIONS)}


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0 after a signal or when done, 1 after a failure."""
    settings = parse(arguments)
    try:
        run(settings)
    except JobError as error:
        log(f"error: {error}")
    except (Py4JNetworkError, ConnectionError):
        log(f"error: {JVM_ENDED}")
    except (Py4JError, PySparkException) as error:
        log(f"error: Spark: {summary(str(error))}. Check --master, --conf and JAVA_HOME (JDK 17+).")
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
