"""Renders the results of reads by key: status, headers and body.

Part of the hot path (see `queries/point.py`): headers are formatted once, and a body takes one
format operation.
"""

from __future__ import annotations

from backend.http.representation import JSON as AS_JSON
from backend.http.representation import VARY, represented
from backend.http.sending import varying
from backend.instance.context import QueryContext
from backend.queries.filters.plan import plan_of
from backend.queries.history import HistoryPage
from backend.queries.point import Entry, State, ViewReads
from backend.queries.routing import PLAIN, ReadOptions
from backend.queries.scans.freshness import Freshness
from backend.queries.versions import Version, VersionedReads
from backend.security.browser_rules import VARY_ORIGIN
from backend.telemetry.latencies import KEY, Labels, Series, TurnReads, not_counted
from backend.wire.answer import (
    JSON,
    RECORD_TIMESTAMP,
    Answer,
    Header,
    etag_of,
    freshness_headers,
    lag_text,
    lines_of,
    problem_answer,
    staleness_text,
    timestamp_headers,
)
from backend.wire.scan import Query
from model.kinds.kind import DOCUMENT
from model.kinds.versioned import validity_json
from model.machine.clock import boot_time
from model.problems import NotFound, Problem
from model.records import ENTRY_HEAD_SIZE, entry_offset, entry_time, head_numbers
from model.rows.unreadable import ValueUnreadable
from model.topology import ROLES
from model.views import View


class KeyResponses:
    """The answers about keys of one view."""

    def __init__(self, reads: ViewReads, context: QueryContext) -> None:
        self.reads = reads
        self.view = reads.view
        self._context = context
        self._counts = reads.counts
        self._key_json, self._value_json = reads.key_json, reads.value_json
        # the values of a custom store do not come from one record
        self._has_etags = not reads.view.is_custom
        # the proxy writes the document, with a value that is sent as it is stored
        self._has_text_keys = reads.view.key_codec.is_text
        self.sends_entries = self._has_text_keys and reads.view.value_codec.is_json
        # answers that do not pass the router need this header, too
        self.miss_form = [VARY_ORIGIN] if context.settings.cors_origins else []
        self.form = varying([JSON, VARY] if self._has_etags else [JSON], self.miss_form)
        self._pipeline = context.pipelines.get(reads.view.name)
        me = context.settings.instance_id
        self._fixed_lines: dict[tuple[str, bytes], bytes] = {}
        self.use_versions()
        self._served_by = {role: (b"served-by", f"{me}; {role}".encode()) for role in ROLES}
        self._series: dict[tuple[str, int], Series] = {}

    def series(self, role: str, status: int) -> Series:
        """The histogram of point reads that were answered by this role with this status."""
        series = self._series.get((role, status))
        if series is None:
            labels = Labels(KEY, self.view.name, role, status)
            series = self._series[role, status] = self._context.telemetry.latencies.series(labels)
        return series

    def use_versions(self) -> None:
        """Called, in any thread, when other versions of views have become current."""
        self._view_headers = self._context.group.view_headers(self.view)
        self._fixed_lines = {}

    def point(self, key: bytes, options: ReadOptions = PLAIN) -> Answer:
        """The value of a key from this instance, or a 404. Raises NotOwner or Problem, as
        `resolve_one` does."""
        try:
            if options.as_of is not None:
                return self._version_here(key, options, options.as_of)
            state, entry = self.reads.resolve_one(key, options)
        except ValueUnreadable as problem:
            return self._unreadable(problem)
        headers = self.state_headers(state)
        if entry is None:
            self._counts.missed += 1
            answer = problem_answer(self.reads.missing(state), headers + self.miss_form)
            answer.role = state.store_partition.role
            return answer
        if options.representation != AS_JSON:
            return self._represented(state, entry, headers, options.representation)
        body = self.document(key, entry)
        self._counts.found += 1
        headers += self.form
        time, offset = head_numbers(entry)
        if time >= 0:  # as `timestamp_headers`
            headers.append((RECORD_TIMESTAMP, b"%d" % time))
        if self._has_etags:
            headers.append((b"etag", state.store_partition.etag_format % (offset, b"json")))
        answer = Answer(200, headers, body, state.store_partition.role)
        return _with_record(answer, state, entry) if options.headers else answer

    def document(self, key: bytes, entry: Entry) -> bytes:
        """`{"key", "value"}`. Raises Unavailable if the schema of a value is missing."""
        return DOCUMENT % (self._key_json(key), self._value_json(entry[ENTRY_HEAD_SIZE:]))

    def etag_format(self, state: State) -> bytes:
        """A format for (record offset, representation); empty for custom stores, which have no
        ETags."""
        return state.store_partition.etag_format if self._has_etags else b""

    def state_headers(self, state: State) -> list[Header]:
        """Partition, Offset, Lag, Staleness, Served-By, View-Definition, View-Version if the view
        has versions, and the headers of the pipeline."""
        store_partition, position, lag, staleness = state
        headers = [
            (b"partition", store_partition.partition_header),
            (b"offset", b"%d" % position),
            *freshness_headers(lag, staleness),
            self._served_by[store_partition.role],
        ]
        headers += self._view_headers
        if self._pipeline is not None:
            headers += self._pipeline.headers(boot_time())
        return headers

    # for the proxy (see `wire/point_batch.py`)

    def sent_entry(self, key: bytes, entry: Entry) -> Entry:
        """The entry of a key as the proxy needs it: with the value as JSON if keys are text, else
        with the document. Raises Unavailable if the schema of a value is missing."""
        if self._has_text_keys:
            return entry[:ENTRY_HEAD_SIZE] + self._value_json(entry[ENTRY_HEAD_SIZE:])
        return entry[:ENTRY_HEAD_SIZE] + self.document(key, entry)

    def lines(self, state: State) -> tuple[bytes, bytes]:
        """The fixed lines and the state lines of answers from a store partition. The fixed lines
        have the headers that change only with the view's version or the instance's role: first the
        headers of all answers, then those of answers with a value, up to the offset in the ETag.
        The state lines have the other headers of all answers."""
        known = self._fixed_lines  # read before the version: `use_versions` replaces both
        store_partition, position, lag, staleness = state
        key = role, etag_format = store_partition.role, store_partition.etag_format
        fixed = known.get(key)  # the ETag names the partition
        if fixed is None:
            etag = etag_format.partition(b"%d")[0]
            shared = lines_of([self._served_by[role], *self._view_headers])
            fixed = b"%b\n%betag: %b" % (shared, lines_of(self.form), etag)
            known[key] = fixed
        if lag is None or staleness is None:
            lines = b"partition: %b\noffset: %d\nlag: %b\nstaleness: %b\n" % (
                store_partition.partition_header, position, lag_text(lag), staleness_text(staleness)
            )  # fmt: skip
        else:  # the same, without two calls
            lines = b"partition: %b\noffset: %d\nlag: %d\nstaleness: %d\n" % (
                store_partition.partition_header, position, lag, staleness * 1000
            )  # fmt: skip
        if self._pipeline is not None:
            lines += lines_of(self._pipeline.headers(boot_time()))
        return fixed, lines

    def miss_lines(self, state: State) -> bytes:
        """The end of the answer to missing keys: the lines of its other headers, an empty line, and
        its body."""
        problem = self.reads.missing(state)
        return b"%b\n%b" % (lines_of(problem.headers() + self.miss_form), problem.body())

    def count_coalesced(self, turn: TurnReads, role: str, hits: int, misses: int) -> None:
        """Counts reads that were answered together, from store partitions of this role."""
        try:
            if hits:
                self._counts.found += hits
                turn.note(self.series(role, 200), hits)
            if misses:
                self._counts.missed += misses
                turn.note(self.series(role, 404), misses)
        except Exception as error:
            not_counted(error)

    def _unreadable(self, problem: ValueUnreadable) -> Answer:
        """The answer of one store partition for a value that cannot be read: 406."""
        answer = self.unreadable(problem, self.state_headers(problem.state) + self.miss_form)
        answer.role = problem.state.store_partition.role
        return answer

    def _represented(self, state: State, entry: Entry, headers: list[Header], kind: str) -> Answer:
        """The value in the representation that the client accepts."""
        form, body = represented(kind, entry[ENTRY_HEAD_SIZE:], self.view.value_codec)
        self._counts.found += 1
        etag = (b"etag", state.store_partition.etag_format % (entry_offset(entry), kind.encode()))
        return Answer(200, [*headers, *form, *timestamp_headers(entry), etag], body)

    def _version_here(self, key: bytes, options: ReadOptions, as_of: int) -> Answer:
        assert isinstance(self.reads, VersionedReads)
        state, version = self.reads.resolve_version(key, options, as_of)
        return self.version(key, as_of, version, self.state_headers(state))

    def unreadable(self, problem: ValueUnreadable, headers: list[Header]) -> Answer:
        """The answer for a key whose value cannot be read."""
        self._counts.refused += 1
        return problem_answer(problem, headers)

    # from all partitions

    def newest(
        self, key: bytes, entry: Entry | None, representation: str, freshness: Freshness
    ) -> Answer:
        """An answer from all partitions. `entry`: the newest one, or None."""
        headers = self.freshness(freshness)
        if entry is None:
            return self._missed(self._missing_everywhere(), headers)
        value = entry[ENTRY_HEAD_SIZE:]
        if representation != AS_JSON:
            form, body = represented(representation, value, self.view.value_codec)
        else:
            form = [JSON, VARY]
            body = DOCUMENT % (self._key_json(key), self._value_json(value))
        self._counts.found += 1
        etag = etag_of(self.view.hash.encode() + value, representation)
        return Answer(200, [*headers, *form, *timestamp_headers(entry), etag], body)

    def partial_values(self, key: bytes, items: list[bytes], freshness: Freshness) -> Answer:
        """The value of a key in each partition; 404 if no partition has one."""
        if not items:
            return self._missed(self._missing_everywhere(), self.freshness(freshness))
        return self.partial_items(key, items, freshness)

    def partial_items(self, key: bytes, items: list[bytes], freshness: Freshness) -> Answer:
        """The items of a key in each partition."""
        self._counts.found += 1
        body = b'{"key":%b,"partials":[%b]}' % (self._key_json(key), b",".join(items))
        return Answer(200, [*self.freshness(freshness), JSON], body)

    def _missing_everywhere(self) -> NotFound:
        return NotFound("key-not-found", f"No partition of view {self.view.name} has this key.")

    # of one partition, or of all

    def version(
        self, key: bytes, as_of: int, version: Version | None, headers: list[Header]
    ) -> Answer:
        """The version of a key that was valid at `as_of` (ms), or 404."""
        if version is None:
            return self._missed(
                NotFound("key-not-found", f"View {self.view.name} had no such key at {as_of}."),
                headers,
            )
        document = self.document(key, version.entry)
        validity = validity_json(version.valid_from, version.valid_to)
        body = b"%b,%b}" % (document[:-1], validity)
        self._counts.found += 1
        # the next version changes `valid_to`
        etag = etag_of(body, AS_JSON)
        return Answer(200, [*headers, JSON, *timestamp_headers(version.entry), etag], body)

    def history(
        self, key: bytes, page: HistoryPage, headers: list[Header], content_type: Header = JSON
    ) -> Answer:
        """A page of the windows, sessions or versions of a key."""
        self._counts.found += 1
        return Answer(200, [*headers, content_type], history_body(self.view, key, page))

    def freshness(self, freshness: Freshness) -> list[Header]:
        return state_headers(self._context, self.view, freshness)

    def _missed(self, problem: Problem, headers: list[Header]) -> Answer:
        self._counts.missed += 1
        return problem_answer(problem, headers)


def _with_record(answer: Answer, state: State, entry: Entry) -> Answer:
    """The answer to a read that asks for the headers of the record, too. The ETag does not cover
    those headers, so it is left out."""
    answer.record = state.store_partition.partition, entry_offset(entry), entry_time(entry)
    answer.headers = [header for header in answer.headers if header[0] != b"etag"]
    return answer


def history_body(view: View, key: bytes, page: HistoryPage) -> bytes:
    """`{"key", "items", "next"}`."""
    cursor = b"null" if page.next is None else b'"%b"' % page.next.encode()
    key_json = view.key_codec.to_json(key)
    return b'{"key":%b,"items":[%b],"next":%b}' % (key_json, b",".join(page.items), cursor)


def pipeline_headers(context: QueryContext, view: View) -> tuple[Header, ...]:
    """The headers of every answer of the view; none if it has no pipeline."""
    pipeline = context.pipelines.get(view.name)
    return () if pipeline is None else pipeline.headers(boot_time())


MAX_OFFSETS = 100
"""How many positions an answer names at most."""


def plans_of(query: Query, freshness: Freshness) -> list[str]:
    """How the entries of a query were found. Instances may have found them in several ways."""
    return sorted(freshness.plans) or [plan_of(query.low, query.high)]


def plan_text(query: Query, freshness: Freshness) -> str:
    return ", ".join(plans_of(query, freshness))


def plan_header(query: Query, freshness: Freshness) -> Header:
    return b"plan", plan_text(query, freshness).encode()


def examined_headers(query: Query, freshness: Freshness, with_offsets: bool) -> list[Header]:
    """Plan and Examined; with Offsets, the position of each partition that was read."""
    headers = [plan_header(query, freshness), (b"examined", b"%d" % freshness.examined)]
    positions = sorted(freshness.positions.items())
    if with_offsets and len(positions) <= MAX_OFFSETS:
        offsets = ",".join(f"{partition}:{position}" for partition, position in positions)
        headers.append((b"offsets", offsets.encode()))
    return headers


def state_headers(context: QueryContext, view: View, freshness: Freshness) -> list[Header]:
    """Lag, Staleness, Served-By and the pipeline's headers, from several partitions."""
    served_by = freshness.answerers.headers(context.settings.instance_id)
    pipeline = pipeline_headers(context, view)
    return [*freshness_headers(freshness.lag, freshness.staleness), *served_by, *pipeline]
