"""Runs views as streams until SIGTERM or SIGINT: ``python -m spark.run --help``."""

from __future__ import annotations

import queue
import signal
import sys
import time
from contextlib import suppress
from types import FrameType

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark.broker import Broker, check_identity
from spark.errors import JobError, made_anew, query_failed, summary
from spark.options import Settings, parse
from spark.progress import Ended, Event, ProgressFile
from spark.session import start_session
from spark.sinks import DEAD_LETTER_SUFFIX, dead_letters, topic_writer
from spark.sources import raw_records
from spark.view import View

_TOPIC_CHECK_SECONDS = 10


class Stop:
    """SIGTERM and SIGINT: until the queries run they end the process, then they are events."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._starting = True

    def install(self) -> None:
        """Takes the signals; to be done again after the session's start, which takes SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def started(self) -> None:
        """From here on a signal is the event ``None``."""
        self._starting = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._starting:
            self._starting = False
            raise SystemExit(0)
        self.events.put(None)


def writers(session: SparkSession, view: View, settings: Settings) -> list[DataStreamWriter]:
    """The two unstarted queries of a view: the view itself, and its dead letters."""
    records = raw_records(session, view.source, settings.kafka, settings.max_offsets_per_trigger)
    rejected = dead_letters(view.rejected(records), by=f"spark/{view.name}")
    checkpoint = settings.checkpoint(view)
    unstarted = [
        topic_writer(
            view.result(records),
            view.topic,
            settings.kafka,
            query=view.name,
            checkpoint=f"{checkpoint}/view",
        ),
        topic_writer(
            rejected,
            view.source + DEAD_LETTER_SUFFIX,
            settings.kafka,
            query=f"{view.name}/dead-letters",
            checkpoint=f"{checkpoint}/dead-letters",
        ),
    ]
    if settings.once:
        return [writer.trigger(availableNow=True) for writer in unstarted]
    return [writer.trigger(processingTime=settings.trigger) for writer in unstarted]


def check_topics(session: SparkSession, broker: Broker, settings: Settings) -> dict[str, str]:
    """The ids of all topics, which are there and are those that the checkpoints speak of."""
    topics = {topic for view in settings.views for topic in (view.source, view.topic)}
    ids = broker.wait_for(topics, settings.topics_deadline, on_wait=_say)
    for source in {view.source for view in settings.views}:
        broker.create_dead_letter_topic(source + DEAD_LETTER_SUFFIX)
    for view in settings.views:
        own = {topic: ids[topic] for topic in (view.source, view.topic)}
        check_identity(session, settings.checkpoint(view), own)
    return ids


def run(settings: Settings) -> None:
    """Returns when told to stop or, with ``once``, when done; ``JobError`` when it failed."""
    stop = Stop()
    stop.install()
    session = start_session(settings.conf, settings.jars, log_level=settings.log_level)
    stop.install()
    try:
        supervise(session, settings, stop)
    finally:
        # When a signal has ended the JVM too, there is nothing left to stop.
        with suppress(Py4JError, PySparkException, OSError):
            session.stop()


def supervise(session: SparkSession, settings: Settings, stop: Stop) -> None:
    """Starts the queries and looks after them until they have ended; see ``run``."""
    names = [view.name for view in settings.views]
    queries: list[StreamingQuery] = []
    with Broker(session, settings.kafka) as broker:
        ids = check_topics(session, broker, settings)
        try:
            progress = ProgressFile(session, settings.progress, names, stop.events)
        except OSError as error:
            raise JobError(
                f"cannot write {settings.progress}: {error.strerror or error}. Name another file "
                "with --progress."
            ) from error
        session.streams.addListener(progress)
        stop.started()
        try:
            later = {}
            for view in settings.views:
                writer, later[view.name] = writers(session, view, settings)
                queries.append(writer.start())
            _say(f"running {', '.join(names)}")
            _watch(broker, settings, queries, later, stop, ids)
        finally:
            with suppress(Py4JError, PySparkException, OSError):
                for query in queries:
                    query.stop()
                session.streams.removeListener(progress)


def _watch(
    broker: Broker,
    settings: Settings,
    queries: list[StreamingQuery],
    later: dict[str, DataStreamWriter],
    stop: Stop,
    ids: dict[str, str],
) -> None:
    """Until all have ended or a signal comes. ``later``: what to start behind which query.

    Dead letters wait for their view's first micro-batch: readers wait for the view, and both read
    and decode every record.
    """
    running = len(queries)
    next_check = time.monotonic() + _TOPIC_CHECK_SECONDS
    while running:
        try:
            event = stop.events.get(timeout=1)
        except queue.Empty:
            if time.monotonic() >= next_check:
                _check_still_there(broker, settings, ids)
                next_check = time.monotonic() + _TOPIC_CHECK_SECONDS
            continue
        if event is None:
            return
        if isinstance(event, Ended) and event.error is not None:
            raise _failure(event, settings)
        if writer := later.pop(event.query, None):
            queries.append(writer.start())
            running += 1
        running -= isinstance(event, Ended)


def _check_still_there(broker: Broker, settings: Settings, ids: dict[str, str]) -> None:
    try:
        now = broker.topic_ids(ids)
    except JobError:
        return  # out of reach for a moment: the queries know how long they can wait
    except Py4JError as error:
        raise JobError(
            "Spark's Java process has ended. Start again; --log-level tells more."
        ) from error
    for view in settings.views:
        for topic in (view.source, view.topic):
            if now.get(topic) != ids[topic]:
                raise made_anew(topic, settings.checkpoint(view))


def _failure(event: Ended, settings: Settings) -> JobError:
    view = next(view for view in settings.views if view.name == event.query.partition("/")[0])
    return query_failed(
        event.query,
        source=view.source,
        target=view.source + DEAD_LETTER_SUFFIX if "/" in event.query else view.topic,
        checkpoint=settings.checkpoint(view),
        error=event.error or "",
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 when told to stop or done, 1 when something failed."""
    settings = parse(arguments)
    try:
        run(settings)
    except JobError as error:
        _say(f"error: {error}")
    except (Py4JNetworkError, ConnectionError):
        _say("error: Spark's Java process has ended. Start again; --log-level error tells more.")
    except (Py4JError, PySparkException) as error:
        _say(
            f"error: Spark: {summary(str(error))}. Check --master, --conf and JAVA_HOME (JDK 17+)."
        )
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
