"""Runs views as streams until SIGTERM or SIGINT: ``python -m spark.run --help``."""

from __future__ import annotations

import sys
from contextlib import suppress

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from spark.errors import JVM_ENDED, JobError, summary
from spark.options import parse
from spark.realtime.slots import local_master
from spark.session import start_session
from spark.settings import Settings
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import log, supervise


def run(settings: Settings) -> None:
    """Returns after a signal or, with ``once``, when done; ``JobError`` if the job failed."""
    stop = StopSignal()
    stop.install()
    session = start_session(settings.conf, settings.jars, log_level=settings.log_level)
    stop.install()
    try:
        master = local_master(session, settings)
        if master is not None:
            session.stop()
            log(f"real-time views: --master {master}")
            conf = {**settings.conf, "spark.master": master}
            session = start_session(conf, settings.jars, log_level=settings.log_level)
            stop.install()
        supervise(session, settings, stop)
    finally:
        # If a signal has also ended the JVM, the session has already stopped.
        with suppress(Py4JError, PySparkException, OSError):
            session.stop()


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
