"""Runs views as streams until SIGTERM or SIGINT: ``python -m spark.run --help``."""

from __future__ import annotations

import queue
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import FrameType

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark.broker import Broker, Topic, check_identity
from spark.errors import JobError, made_anew, query_failed, repartitioned, rows_dropped, summary
from spark.heartbeats import Heartbeats
from spark.options import Settings, parse
from spark.progress import (
    Begun,
    CaughtUp,
    Dropped,
    Ended,
    Event,
    ProgressFile,
    Unwritable,
    with_late_ones,
)
from spark.schemas import Decoder
from spark.session import start_session
from spark.sinks import DEAD_LETTER_SUFFIX, dead_letters, topic_writer
from spark.sources import raw_records
from spark.view import View
from spark.watermarks import Watermarks, observed

_TOPIC_CHECK_SECONDS = 10
_CATCHING_UP = 2
_PATIENCE = 60.0
_FIRST_BACK_OFF = 1.0
_LONGEST_BACK_OFF = 60.0


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


def writers(
    session: SparkSession,
    view: View,
    settings: Settings,
    partitions: int,
    source_partitions: int,
    watermarks: Watermarks,
) -> list[DataStreamWriter]:
    """The two unstarted queries of a view: the view itself, and its dead letters.

    ``partitions``: the number of the view topic's partitions. ``source_partitions``: that of the
    raw topic. If the raw topic gets more, the watermark stops until the next start.
    """
    records = raw_records(session, view.source, settings.kafka, settings.max_offsets_per_trigger)
    rejected = with_late_ones(view.rejected(records))
    timed = view.decoder.event_time is not None
    read = observed(records, source_partitions) if timed else records
    checkpoint = settings.checkpoint(view)
    unstarted = [
        topic_writer(
            view.result(read),
            view.topic,
            settings.kafka,
            partitions=partitions,
            query=view.name,
            checkpoint=f"{checkpoint}/view",
            written=watermarks.move if timed else None,
        ),
        topic_writer(
            dead_letters(rejected, by=f"spark/{view.name}"),
            view.source + DEAD_LETTER_SUFFIX,
            settings.kafka,
            partitions=1,
            query=f"{view.name}/dead-letters",
            checkpoint=f"{checkpoint}/dead-letters",
        ),
    ]
    if settings.once:
        return [writer.trigger(availableNow=True) for writer in unstarted]
    return [writer.trigger(processingTime=settings.trigger) for writer in unstarted]


def check_topics(session: SparkSession, broker: Broker, settings: Settings) -> dict[str, Topic]:
    """All topics, which are there and are those that the checkpoints speak of."""
    topics = {topic for view in settings.views for topic in (view.source, view.topic)}
    found = broker.wait_for(topics, settings.topics_deadline, on_wait=_say)
    for source in {view.source for view in settings.views}:
        broker.create_dead_letter_topic(source + DEAD_LETTER_SUFFIX)
    for view in settings.views:
        own = {topic: found[topic].id for topic in (view.source, view.topic)}
        check_identity(session, settings.checkpoint(view), own)
    return found


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
    with Broker(session, settings.kafka) as broker:
        topics = check_topics(session, broker, settings)
        try:
            progress = ProgressFile(session, settings.progress, names, stop.events)
        except OSError as error:
            raise JobError(
                f"cannot write {settings.progress}: {error.strerror or error}. Name another file "
                "with --progress."
            ) from error
        watermarks = Watermarks(session)
        session.streams.addListener(progress)
        session.streams.addListener(watermarks)
        stop.started()
        queries = Queries(session, settings, topics, stop.events, watermarks)
        beats = Heartbeats(
            broker, settings.views, settings.group_prefix, progress.accounts, settings.health, _say
        )
        with beats:
            try:
                _watch(broker, settings, queries, stop, topics, progress)
            finally:
                beats.over(sys.exception())
                with suppress(Py4JError, PySparkException, OSError):
                    queries.stop()
                    session.streams.removeListener(watermarks)
                    session.streams.removeListener(progress)


class Queries:
    """Starts the queries of all views, in their order and not all at once; again when they failed.

    ``_CATCHING_UP`` views at a time: more would only be later, all of them. One that takes longer
    than ``_PATIENCE`` seconds does not hold up the others for ever.

    Dead letters wait for their view's first micro-batch: readers wait for the view, and both read
    and decode every record. Of views of the same records, the first one has them written.

    A query that failed is started again after ``_FIRST_BACK_OFF`` seconds, each time that it makes
    no progress after twice as long, up to ``_LONGEST_BACK_OFF``.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        topics: Mapping[str, Topic],
        events: queue.SimpleQueue[Event],
        watermarks: Watermarks,
    ) -> None:
        self._session = session
        self._settings = settings
        self._topics = topics
        self._events = events
        self._watermarks = watermarks
        self._waiting = deque(settings.views)
        self._catching_up: set[str] = set()
        self._last_start = time.monotonic()
        self._later: set[str] = set()
        self._seen: list[tuple[str, Decoder]] = []
        self._queries: list[StreamingQuery] = []
        self._failures: Counter[str] = Counter()
        self._again: dict[str, float] = {}
        self.running = 0

    @property
    def without_spark(self) -> bool:
        """Whether Spark itself has stopped, so that nothing can be started again."""
        return bool(self._session._jsc.sc().isStopped())

    @property
    def pending(self) -> bool:
        """Whether some query runs or is to be started again."""
        return bool(self.running or self._again)

    def start_next(self) -> None:
        """Starts the views whose turn it is."""
        while self._waiting and (
            len(self._catching_up) < _CATCHING_UP or time.monotonic() - self._last_start > _PATIENCE
        ):
            view = self._waiting.popleft()
            if (view.source, view.decoder) not in self._seen:
                self._seen.append((view.source, view.decoder))
                self._later.add(view.name)
            self._catching_up.add(view.name)
            self._try(view.name)
            _say(f"running {view.name}")
            self._last_start = time.monotonic()

    def on_event(self, event: Begun | CaughtUp | Ended) -> None:
        if event.query in self._later:
            self._later.remove(event.query)
            self._try(f"{event.query}/dead-letters")
        if isinstance(event, Begun):
            self._failures.pop(event.query, None)
        else:
            self._catching_up.discard(event.query)
        self.running -= isinstance(event, Ended)

    def again_later(self, query: str) -> float:
        """A query that failed is to be started again, after so many seconds."""
        delay = min(_FIRST_BACK_OFF * 2.0 ** min(self._failures[query], 30), _LONGEST_BACK_OFF)
        self._failures[query] += 1
        self._again[query] = time.monotonic() + delay
        return delay

    def start_again(self) -> Iterator[str]:
        """Starts those whose time has come, and gives their names."""
        for query, at in list(self._again.items()):
            if time.monotonic() >= at:
                del self._again[query]
                # What has ended need not be stopped.
                self._queries = [each for each in self._queries if each.isActive]
                self._try(query)
                yield query

    def stop(self) -> None:
        for query in self._queries:
            query.stop()

    def _try(self, query: str) -> None:
        """Starts a query; if Spark refuses, that is an ``Ended``, as if it had begun."""
        name, _, is_dead_letters = query.partition("/")
        view = next(view for view in self._settings.views if view.name == name)
        partitions, of_source = (
            self._topics[topic].partitions for topic in (view.topic, view.source)
        )
        try:
            made = writers(
                self._session, view, self._settings, partitions, of_source, self._watermarks
            )
            self._start(made[bool(is_dead_letters)])
        except (PySparkException, Py4JJavaError) as error:
            self.running += 1
            self._events.put(Ended(query, str(error)))

    def _start(self, writer: DataStreamWriter) -> None:
        self._queries.append(writer.start())
        self.running += 1


def _watch(
    broker: Broker,
    settings: Settings,
    queries: Queries,
    stop: Stop,
    topics: dict[str, Topic],
    progress: ProgressFile,
) -> None:
    """Until all have ended or a signal comes.

    A query that fails leaves the others alone, and is started again; with ``once`` it is not, and
    the first failure is raised when the others are done.
    """
    next_check = time.monotonic() + _TOPIC_CHECK_SECONDS
    failed: JobError | None = None
    queries.start_next()
    while queries.pending:
        try:
            event = stop.events.get(timeout=min(1.0, _FIRST_BACK_OFF))
        except queue.Empty:
            if time.monotonic() >= next_check:
                _check_still_there(broker, settings, topics)
                next_check = time.monotonic() + _TOPIC_CHECK_SECONDS
        else:
            if event is None:
                break
            if isinstance(event, Unwritable):
                raise JobError(f"cannot write {settings.progress}: {event.reason}.")
            if isinstance(event, Dropped):
                _say(rows_dropped(event.view, event.rows))
                continue
            queries.on_event(event)
            if isinstance(event, Ended) and event.error is not None:
                error = _failure(event, settings)
                progress.failed(event.query, str(error))
                if settings.once:
                    failed = failed or error
                elif queries.without_spark:
                    raise JobError(f"Spark has stopped: {error} Start again.")
                else:
                    # Another start mends nothing where the topic is another one.
                    _check_still_there(broker, settings, topics)
                    delay = queries.again_later(event.query)
                    _say(f"error: {error} It is tried again in {delay:g} s.")
        for query in queries.start_again():
            progress.started_again(query)
        queries.start_next()
    if failed is not None:
        raise failed


def _check_still_there(broker: Broker, settings: Settings, topics: dict[str, Topic]) -> None:
    try:
        now = broker.topics(topics)
    except JobError:
        return  # out of reach for a moment: the queries know how long they can wait
    except Py4JError as error:
        raise JobError(
            "Spark's Java process has ended. Start again; --log-level tells more."
        ) from error
    for view in settings.views:
        for topic in (view.source, view.topic):
            if topic not in now or now[topic].id != topics[topic].id:
                raise made_anew(topic, settings.checkpoint(view))
        before, after = topics[view.topic].partitions, now[view.topic].partitions
        if after != before:
            raise repartitioned(view.topic, before, after)


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
