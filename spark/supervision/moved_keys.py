"""Keys that move because their topic gets more partitions: their newest record counts.

- A view without state writes the results of each record, and nothing orders the results from two
  partitions. When it has caught up, the job looks for keys with records in several partitions, and
  writes the results of their records again, in order (``spark.moved_keys``). It does so after the
  load, after an addition of partitions, and once more when all producers know the new partitions:
  until then, some of them write to the old ones.
- A view whose state has a table compares its records by partition and offset. That is wrong for
  moved keys, so such a view is stopped. A view with a static table that has moved keys is stopped,
  too.
- A view of several streams, or with an unknown operator, may compare records in this way. The job
  warns.
- The state of all other views gives the same results in any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.generations import query_folders
from spark.checkpoints.positions import Positions, committed_positions
from spark.errors import JobError, moved_rows, summary
from spark.formats.decoders import is_table
from spark.kafka_admin import KafkaAdmin, Topic
from spark.moved_keys.dependence import Dependence, dependence
from spark.moved_keys.marks import Mark, read_mark, write_mark
from spark.moved_keys.records import count_moved_keys, in_order, moved_keys, newest_rows, with_homes
from spark.moved_keys.search import Search
from spark.moved_keys.watched import Counts, SearchReason, WatchedView
from spark.settings import Settings
from spark.sinks import write_rows
from spark.sources import records_between, static_records
from spark.supervision.static_sources import StaticSources
from spark.supervision.status import ViewStatus
from spark.view import View, derived_rows

PRODUCERS_LEARN_S = 600.0
"""The time (s) after an addition of partitions in which producers may still write to the earlier
partitions. They ask for the partitions of a topic every 5 minutes by default
(``metadata.max.age.ms``)."""

_MARK_INTERVAL_S = 60.0  # between two writes of the positions
_RETRY_AFTER_S = 60.0
_FIRST_COUNTS = "partitions.json"
"""In a view's checkpoint folder: the numbers of partitions of its sources at its first start."""


class MovedKeys:
    """Handles the moved keys of all views of a job. Used by the supervisor's thread, except
    ``with_doubts``."""

    def __init__(
        self,
        session: SparkSession,
        admin: KafkaAdmin,
        settings: Settings,
        topics: Mapping[str, Topic],
        static_sources: StaticSources,
        log: Callable[[str], None],
    ) -> None:
        """Stores the numbers of partitions of new views. Raises as ``CheckpointFiles``."""
        self._session = session
        self._admin = admin
        self._settings = settings
        self._topics = topics
        self._static_sources = static_sources
        self._log = log
        self._files = CheckpointFiles(session)
        self._views: dict[str, WatchedView] = {}
        self._warned: set[tuple[str, str]] = set()  # view, text
        self._stopping: dict[str, str] = {}  # view ► why
        for view in settings.views:
            mark = read_mark(self._files, settings.checkpoint(view))
            self._views[view.name] = watched = WatchedView(view, _counts(view, topics), mark)
            if _may_compare(view):
                self._store_first_counts(watched)
            self._note_counts(watched, watched.counts)

    def refuse(self, view: View) -> None:
        """Call before each start of a view. Raises ``JobError`` if it cannot follow its moved
        keys."""
        watched = self._views[view.name]
        moved = () if watched.mark is None else watched.mark.moved
        if topics := [*moved, *self._grown_tables(watched)]:
            raise moved_rows(view.name, topics[0])

    def begin(self, view: str) -> None:
        """Call when the view will read its sources from the start again."""
        self._views[view].forget()

    def check(self, topics: Mapping[str, Topic], statuses: Mapping[str, ViewStatus]) -> None:
        """Notices that topics have more partitions. Call it periodically. ``statuses``: those from
        before the brokers were asked for ``topics``."""
        for name, watched in self._views.items():
            self._note_counts(watched, _counts(watched.view, topics))
            mark, before = watched.mark, watched.positions
            # All records before the positions of the last check were written before an addition
            # that is not known yet.
            if mark is not None and watched.is_settled and before and before != mark.since:
                is_due = time.monotonic() - watched.marked_at >= _MARK_INTERVAL_S
                if is_due and mark.dependence is Dependence.WRITES:
                    self._write_mark(watched, replace(mark, since=before))
            watched.positions = statuses[name].offsets
            if not watched.is_unsure(statuses[name].offsets):
                watched.current_at = statuses[name].caught_up_at

    def stopping(self) -> dict[str, str]:
        """The views that cannot follow their moved keys ► the reason; once each."""
        reasons, self._stopping = self._stopping, {}
        return reasons

    def with_doubts(self, statuses: Mapping[str, ViewStatus]) -> dict[str, ViewStatus]:
        """The statuses for readers, with the time from which moved keys may have older values. Any
        thread may call it."""
        return {
            name: status._replace(moved_keys_since=self._views[name].current_at or 0.0)
            if self._views[name].is_unsure(status.offsets)
            else status
            for name, status in statuses.items()
        }

    def due(self, statuses: Mapping[str, ViewStatus]) -> Iterator[str]:
        """The views that must be stopped for ``put_in_order``. Also begins the searches that are
        due, and takes the results of searches."""
        for name, watched in self._views.items():
            if time.monotonic() < watched.not_before:
                continue
            if watched.has_moved:
                yield name
            elif watched.search is not None:
                self._take_result(watched, watched.search)
            else:
                watched.reason = watched.next_reason(statuses[name].caught_up_at, time.time())
                self._begin(watched, statuses[name].offsets, statuses[name].caught_up_at)

    def put_in_order(self, name: str) -> None:
        """Writes the results of moved keys again. The view must not run. After an error, the view
        is due again later."""
        watched = self._views[name]
        watched.searched_counts = dict(watched.counts)
        try:
            watched.ends = self._committed(watched)
            count = self._write_again(watched)
        except (PySparkException, Py4JError, OSError, JobError) as error:
            self._try_later(watched, summary(str(error)))
            return
        watched.has_moved = False
        if count:
            self._log(f"{name}: wrote {count} keys again that have records in several partitions")
        self._settle(watched, has_written=count > 0)

    def finish(self, statuses: Mapping[str, ViewStatus]) -> list[JobError]:
        """With ``once``: call when the queries have ended. Returns an error for each view that
        cannot follow its moved keys."""
        try:
            topics = {**self._topics, **self._admin.topics(self._topics)}
        except JobError as error:
            return [error]
        for name, watched in self._views.items():
            self._note_counts(watched, _counts(watched.view, topics))
            if statuses[name].error is not None:
                continue
            now = time.time()
            watched.reason = watched.next_reason(now, now)
            self._begin(watched, self._committed(watched), now)  # also if it has read nothing now
            if watched.search is not None:
                watched.search.wait()
                self._take_result(watched, watched.search)
            if watched.has_moved:
                self.put_in_order(name)
            if watched.mark is not None and watched.is_settled and watched.ends:
                self._write_mark(watched, replace(watched.mark, since=watched.ends))
        return [JobError(why) for why in self.stopping().values()]

    def stop(self) -> None:
        """Ends the searches."""
        for watched in self._views.values():
            watched.stop_search()

    def _begin(self, watched: WatchedView, ends: Positions, caught_up_at: float | None) -> None:
        """Begins a search, if one is due."""
        watched.ends, watched.begun_at = ends, caught_up_at
        if watched.reason is None or not watched.ends:
            return
        watched.searched_counts = dict(watched.counts)
        try:
            kind = self._dependence(watched)
        except (PySparkException, Py4JError, JobError) as error:
            self._try_later(watched, summary(str(error)))
            return
        if self._topics_to_search(watched.view, kind):
            watched.search = Search(self._session, lambda: self._records(watched, kind))
        else:
            self._settle(watched)

    def _take_result(self, watched: WatchedView, search: Search) -> None:
        if not search.is_done:
            return
        watched.search = None
        view, kind = watched.view, self._dependence(watched)
        if search.moved_topics is None:
            self._try_later(watched, search.error)
            return
        streams = [source.topic for source in view.streams]
        unfollowed = [
            topic
            for topic in search.moved_topics
            if kind is Dependence.TABLE or topic not in streams
        ]
        if unfollowed:
            self._stopping[view.name] = str(moved_rows(view.name, unfollowed[0]))
            self._settle(watched, moved=tuple(unfollowed))
        elif search.moved_topics and kind is Dependence.WRITES:
            watched.has_moved = True
        else:
            for topic in search.moved_topics:
                self._warn(view.name, _moved_in_join(topic))
            self._settle(watched)

    def _write_again(self, watched: WatchedView) -> int:
        """Writes the results of moved keys again; returns the number of these keys."""
        view, kafka = watched.view, self._settings.kafka
        [stream] = view.streams
        records = self._between(watched, stream.topic)
        keys = with_homes(moved_keys(records), watched.counts[stream.topic]).persist()
        try:
            moved = count_moved_keys(keys)
            if moved.keys:
                ends = self._static_sources.ending_offsets(view)
                ordered = in_order(records, keys, moved.partitioner)
                inputs = [
                    static_records(self._session, source_.topic, kafka, ends[source_.topic])
                    if source_.static
                    else ordered
                    for source_ in view.inputs
                ]
                rows = newest_rows(derived_rows(view, inputs))
                write_rows(rows, view.topic, kafka, self._topics[view.topic].partitions)
            return moved.keys
        finally:
            keys.unpersist()

    def _settle(
        self, watched: WatchedView, moved: tuple[str, ...] = (), has_written: bool = False
    ) -> None:
        """Completes the search. ``has_written``: it has found keys, and their results were written
        again."""
        reason, watched.reason = watched.reason, None
        kind, mark = self._dependence(watched), watched.mark
        watched.current_at = watched.begun_at
        folder = query_folders(self._files, self._settings.checkpoint(watched.view)).result
        new_mark = Mark(folder, kind, watched.searched_counts, watched.ends, moved=moved)
        if mark is None or reason is SearchReason.LOADED:
            if kind is Dependence.WRITES and max(watched.searched_counts.values()) > 1:
                new_mark = replace(new_mark, again_at=_next_search())  # partitions may be new
        elif reason is SearchReason.GROWN or watched.searched_counts != watched.counts:
            watched.has_searched = True
            return
        elif has_written:
            new_mark = replace(new_mark, again_at=_next_search())
            if not mark.has_grown:  # keys are still written to several partitions
                watched.has_searched = True
                new_mark = replace(new_mark, growing=watched.searched_counts)
                self._warn(watched.view.name, _KEYS_IN_SEVERAL_PARTITIONS)
        self._write_mark(watched, new_mark)

    def _committed(self, watched: WatchedView) -> Positions:
        folder = query_folders(self._files, self._settings.checkpoint(watched.view)).result
        return committed_positions(self._files, folder)

    def _try_later(self, watched: WatchedView, why: str) -> None:
        watched.not_before = time.monotonic() + _RETRY_AFTER_S
        self._log(f"warning: {watched.view.name}: cannot search for moved keys yet: {why}")

    def _write_mark(self, watched: WatchedView, mark: Mark) -> None:
        watched.marked_at = time.monotonic()
        try:
            write_mark(self._files, self._settings.checkpoint(watched.view), mark)
        except (PySparkException, Py4JError, OSError) as error:
            self._try_later(watched, summary(str(error)))
        else:
            watched.mark = mark

    def _note_counts(self, watched: WatchedView, counts: Counts) -> None:
        is_grown = watched.grown(counts)
        is_known = counts == watched.counts
        watched.counts = counts
        if is_grown and watched.mark is not None:
            watched.grown_at, watched.has_searched = time.time(), False
            self._write_mark(
                watched, replace(watched.mark, growing=counts, again_at=_next_search())
            )
            self._log(
                f"{watched.view.name}: its topic has more partitions. Of keys that move to another "
                "one, the newest record counts; values that are written to both meanwhile may "
                f"change once more in {PRODUCERS_LEARN_S / 60:.0f} minutes."
            )
        if not is_known and (grown := self._grown_tables(watched)):
            self._stopping[watched.view.name] = str(moved_rows(watched.view.name, grown[0]))
        for topic, first in watched.first_counts.items():
            if counts[topic] > first and self._known_dependence(watched) is Dependence.UNKNOWN:
                self._warn(watched.view.name, _grown_join(topic, first, counts[topic]))

    def _grown_tables(self, watched: WatchedView) -> list[str]:
        first_counts = watched.first_counts
        grown = [topic for topic in first_counts if watched.counts[topic] > first_counts[topic]]
        is_wrong = grown and self._known_dependence(watched) is Dependence.TABLE
        return grown if is_wrong else []

    def _warn(self, view: str, text: str) -> None:
        """Logs a warning, once for each text."""
        if (view, text) not in self._warned:
            self._warned.add((view, text))
            self._log(f"warning: {view}: {text}")

    def _store_first_counts(self, watched: WatchedView) -> None:
        path = f"{self._settings.checkpoint(watched.view)}/{_FIRST_COUNTS}"
        before = self._files.read_json(path) or {}
        watched.first_counts = {**watched.counts, **before}
        if watched.first_counts != before:
            self._files.replace_json(path, watched.first_counts)

    def _dependence(self, watched: WatchedView) -> Dependence:
        """The dependence of the view; raises the errors of ``dependence``."""
        if watched.dependence is None:
            watched.dependence = (
                dependence(self._session, watched.view)
                if watched.mark is None
                else watched.mark.dependence
            )
        return watched.dependence

    def _known_dependence(self, watched: WatchedView) -> Dependence | None:
        """The dependence of the view; None if Spark cannot plan the view, which then cannot
        start."""
        try:
            return self._dependence(watched)
        except (PySparkException, Py4JError, JobError):
            return None

    def _topics_to_search(self, view: View, kind: Dependence) -> list[str]:
        """The topics in which moved keys matter, and that have several partitions."""
        streams = view.streams if kind is not Dependence.NOTHING else ()
        static_sources = [
            source for source in view.inputs if source.static and is_table(source.decoder)
        ]
        topics = [source.topic for source in (*streams, *static_sources)]
        return [topic for topic in topics if self._views[view.name].counts[topic] > 1]

    def _records(self, watched: WatchedView, kind: Dependence) -> dict[str, DataFrame]:
        topics = self._topics_to_search(watched.view, kind)
        return {topic: self._between(watched, topic) for topic in topics}

    def _between(self, watched: WatchedView, topic: str) -> DataFrame:
        """The records that the search covers. Of a static source, these are all records."""
        count = watched.counts[topic]
        ends = watched.ends.get(topic) or self._admin.end_offsets({topic: count})[topic]
        since = {} if watched.mark is None else watched.mark.since.get(topic, {})
        # Spark may know a new partition earlier.
        first = self._admin.start_offsets({topic: max(ends) + 1})[topic]
        starts = {number: max(since.get(number, 0), first[number]) for number in ends}
        ends = {number: max(end, starts[number]) for number, end in ends.items()}
        return records_between(self._session, topic, self._settings.kafka, starts, ends)


def _may_compare(view: View) -> bool:
    """Whether the state of the view may compare records of a key by partition."""
    return len(view.streams) > 1 or any(is_table(source.decoder) for source in view.streams)


def _counts(view: View, topics: Mapping[str, Topic]) -> Counts:
    return {source.topic: topics[source.topic].partitions for source in view.inputs}


def _next_search() -> float:
    """The time (epoch s) when all producers will know the current partitions."""
    return time.time() + PRODUCERS_LEARN_S


def _grown_join(topic: str, before: int, now: int) -> str:
    return (
        f"topic {topic} had {before} partitions when the view began, and now has {now}, so keys "
        f"have moved. {_WHAT_TO_DO}"
    )


def _moved_in_join(topic: str) -> str:
    return f"topic {topic} has keys with records in several partitions. {_WHAT_TO_DO}"


_WHAT_TO_DO = (
    "The view may keep old rows of them, also after a rebuild, for example if it joins tables "
    "without `newest`. Then write the entries of the topic to a new one, and add a version of the "
    "view that reads that: see docs/changes-to-a-deployment.md."
)

_KEYS_IN_SEVERAL_PARTITIONS = (
    "producers still write keys to several partitions, where nothing orders their records. Their "
    f"values may be older ones, and are put in order every {PRODUCERS_LEARN_S / 60:.0f} minutes, "
    "as long as this goes on. Let all producers choose the partition by the key, in the same way: "
    "see docs/changes-to-a-deployment.md."
)
