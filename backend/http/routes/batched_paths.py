"""Coalesced reads for which the proxy sends a path, and not the key as it is stored.

Keys are resolved together, and shared headers are written once.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from backend.http.access import Readers
from backend.http.paths import Paths
from backend.http.responses import KeyResponses
from backend.queries.point import Resolved, Unresolved
from backend.queries.routing import PLAIN
from backend.storage.bounded_reads import SLICE, ReadBudget
from backend.telemetry.latencies import TurnReads
from backend.wire.answer import RECORD_TIMESTAMP, Answer, lines_of
from backend.wire.plain_requests import MAX_BYTES, are_plain, is_plain
from backend.wire.point_batch import ASK_ALONE, LARGE, AnswerBudget, Head, Item, Reads
from model.problems import Problem
from model.records import entry_offset

log = logging.getLogger(__name__)

_PIECE = 16  # reads that are answered one by one between two looks at the clock


class _ReadsOfView(NamedTuple):
    """Texts of keys of one view, and the numbers of their reads."""

    numbers: list[int]
    texts: list[bytes]


_ByView = defaultdict[KeyResponses, _ReadsOfView]


class BatchedPaths:
    """Answers groups of paths."""

    def __init__(
        self,
        paths: Paths,
        responses: Mapping[str, KeyResponses],
        answer_now: Callable[[bytes, Readers, int], Answer | None],
        turn: TurnReads,
    ) -> None:
        """`answer_now(raw_path, readers, number)`: the answer to a single read with the token of
        this number, or None if it has to wait."""
        self._turn = turn
        self._answer_now = answer_now
        self._responses = responses
        self.use(paths)

    def use(self, paths: Paths) -> None:
        """Uses other paths: other versions of views have become current. Called in any thread."""
        by_view = self._responses
        self._by_prefix = {prefix: by_view[view.name] for prefix, view in paths.prefixes.items()}

    def answer(
        self, groups: Sequence[Reads], readers: Readers, budget: AnswerBudget
    ) -> Generator[None, None, tuple[list[Head], list[Item]]]:
        """Returns the heads, and the item of each path. Yields from time to time while it answers
        reads one by one. The other reads are counted with the duration of the turn."""
        reads = [read for group in groups for read in group.with_tokens()]
        by_view, one_by_one = self._sorted(reads, readers)
        heads: list[Head] = []
        items = [ASK_ALONE] * len(reads)
        for responses, (numbers, texts) in by_view.items():
            if budget.is_spent:
                break
            try:
                keys = responses.reads.parse_keys(texts)
            except Problem:
                one_by_one += numbers
                continue
            try:
                self._answer_view(responses, numbers, keys, heads, items, budget)
            except Exception:
                log.exception("coalesced reads of view %s", responses.view.name)
                for number in numbers:
                    items[number] = ASK_ALONE
        for count, number in enumerate(one_by_one, 1):
            if budget.is_spent:
                break
            if count % _PIECE == 0:
                yield
            path, token = reads[number]
            answer = self._answer_now(path, readers, token)
            if answer is not None and len(answer.body) < LARGE and budget.take(len(answer.body)):
                items[number] = _item(answer, heads)
        return heads, items

    def _answer_view(
        self,
        responses: KeyResponses,
        numbers: list[int],
        keys: list[bytes],
        heads: list[Head],
        items: list[Item],
        budget: AnswerBudget,
    ) -> None:
        """Writes the heads and items of the keys of one view."""
        within = ReadBudget(budget.left) if len(keys) > SLICE else None
        for found in responses.reads.resolve(keys, PLAIN, within):
            if not isinstance(found, Unresolved):
                hits, misses = _write(responses, found, numbers, keys, heads, items, budget)
                role = found.state.store_partition.role
                responses.count_coalesced(self._turn, role, hits, misses)

    def _sorted(
        self, reads: Sequence[tuple[bytes, int]], readers: Readers
    ) -> tuple[_ByView, list[int]]:
        """The reads of each view, if their tokens may read it; and the numbers of those that must
        be parsed. `reads`: paths, and numbers of tokens."""
        by_view: _ByView = defaultdict(lambda: _ReadsOfView([], []))
        one_by_one: list[int] = []
        paths = [path for path, _ in reads]
        are_all_plain = are_plain(b"".join(paths)) and max(map(len, paths), default=0) <= MAX_BYTES
        for number, (path, token) in enumerate(reads):
            # paths that an HTTP parser might refuse or read differently need the parser
            if not are_all_plain and not is_plain(path):
                continue
            prefix, _, text = path.rpartition(b"/")
            responses = self._by_prefix.get(prefix)
            if responses is None or b"%" in text:
                one_by_one.append(number)
                continue
            if readers.may_read(token, responses.view.base):
                numbers, texts = by_view[responses]
                numbers.append(number)
                texts.append(text)
        return by_view, one_by_one


def _write(
    responses: KeyResponses,
    found: Resolved,
    numbers: list[int],
    keys: list[bytes],
    heads: list[Head],
    items: list[Item],
    budget: AnswerBudget,
) -> tuple[int, int]:
    """Adds the items of the keys of one store partition, and their heads: one for each timestamp
    of records. Returns how many keys were found, and how many were missing."""
    indexes, state, entries = found
    headers = responses.state_headers(state)
    lines = lines_of([*headers, *responses.form])
    dated = b"%b%b: %%d\n" % (lines.replace(b"%", b"%%"), RECORD_TIMESTAMP)
    numbers_of_heads: dict[bytes, int] = {}  # by timestamp
    if None in entries:
        miss = responses.reads.missing(state)
        miss_item = (len(heads), b"", miss.body())
        heads.append((404, lines_of([*miss.headers(), *headers, *responses.miss_form])))
    document, etag_format = responses.document, responses.etag_format(state)
    hits = misses = 0
    for index, entry in zip(indexes, entries, strict=True):
        if budget.is_spent:
            break
        if entry is None:
            if responses.reads.other_key(keys[index]) is None:
                items[numbers[index]] = miss_item
                misses += 1
            continue
        if len(entry) >= LARGE:  # or it was not read
            continue
        try:
            body = document(keys[index], entry)
        except Problem:  # the schema of the value is missing
            continue
        if len(body) < LARGE and budget.take(len(body)):
            etag = etag_format % (entry_offset(entry), b"json") if etag_format else b""
            time = entry[:8]
            head = numbers_of_heads.get(time)
            if head is None:
                head = numbers_of_heads[time] = len(heads)
                # as `timestamp_headers`
                heads.append((200, lines if time[0] >= 0x80 else dated % int.from_bytes(time)))
            items[numbers[index]] = (head, etag, body)
            hits += 1
    return hits, misses


def _item(answer: Answer, heads: list[Head]) -> Item:
    """The item of a complete answer. Its head has no ETag, and no headers that the proxy adds."""
    omitted = (b"etag", b"content-length", b"topology-epoch")
    lines = lines_of([header for header in answer.headers if header[0] not in omitted])
    etag = next((value for name, value in answer.headers if name == b"etag"), b"")
    heads.append((answer.status, lines))
    return len(heads) - 1, etag, answer.body
