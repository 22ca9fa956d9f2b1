"""Runs views as streams until SIGTERM or SIGINT: ``python -m spark.run --help``."""

from __future__ import annotations

import sys

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from spark.errors import JVM_ENDED, JobError, summary
from spark.options import parse
from spark.processes.java_process import end_spark
from spark.session import start_session
from spark.settings import Settings
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import log, supervise


def run(settings: Settings) -> None:
    """Returns after a signal or, with ``once``, when done; ``JobError`` if the job failed."""
    stop = StopSignal()
    stop.install()
    try:
        session = start_session(
            settings.conf,
            settings.jars,
            log_level=settings.log_level,
            views=len(settings.views),
            log=log,
        )
        stop.install()
        supervise(session, settings, stop)
    finally:
        end_spark()


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 after a signal or when done, 1 after a failure."""
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
